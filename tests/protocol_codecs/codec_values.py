"""All declared messages with their versions, and values of them."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

from protocol_codecs import all_messages as messages
from protocol_codecs import kinds
from protocol_codecs.kinds import Kind
from protocol_codecs.message import Message
from protocol_codecs.schema import Field

Case = tuple[type[Message], int]
Override = Callable[[Field], st.SearchStrategy[Any] | None]
"""Other values for a field than those of its kind, or None."""

NUMBERS = {
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "H": st.integers(0, 2**16 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
}


def top_level() -> Iterator[type[Message]]:
    """Every declared message that stands alone: requests, responses, headers, embedded messages."""
    for name in messages.__all__:
        exported = getattr(messages, name)
        if exported.__schema__.versions.high < 0x7FFF:
            yield exported


CASES = [
    (message_type, version) for message_type in top_level() for version in message_type.__schema__.versions
]

OF_CONNECT = (messages.ConnectProtocolMetadata, messages.ConnectProtocolAssignment)
"""What neither Kafka's client nor kio declares."""

REPRESENTATIVE_CASES = [
    (message_type, version)
    for message_type, version in CASES
    if version in (message_type.__schema__.versions.low, message_type.__schema__.versions.high)
    or version == message_type.__schema__.flexible.low
]
"""All forms that lengths have, in all messages: for what is too slow to try in every version."""


def case_id(case: Case) -> str:
    message_type, version = case
    return f"{message_type.__name__}-v{version}"


def nothing_else(_: Field) -> None:
    """No override."""


@cache
def values(
    message_type: type[Message], version: int, override: Override = nothing_else
) -> st.SearchStrategy[Any]:
    """Messages that this version can carry in full: fields that it does not have are at their defaults."""
    fields = {
        field.name: field_values(field, version, override)
        for field in message_type.__schema__.fields
        if version in field.versions
    }
    return st.builds(message_type, **fields)


@cache
def values_of_any_version(message_type: type[Message]) -> st.SearchStrategy[Any]:
    """Messages with anything in any field, also null where no version has null."""
    newest = message_type.__schema__.versions.high
    fields = {}
    for field in message_type.__schema__.fields:
        strategy = st.just(field.default) | field_values(field, newest, nothing_else)
        if not isinstance(field.kind, kinds.Number | kinds.Boolean):
            strategy |= st.none()
        fields[field.name] = strategy
    return st.builds(message_type, **fields)


def field_values(field: Field, version: int, override: Override) -> st.SearchStrategy[Any]:
    strategy = override(field)
    if strategy is None:
        strategy = kind_values(field.kind, version, override)
    if version in field.nullable:
        strategy = st.none() | strategy
    # The default is what real messages most often hold, and what encoders treat specially.
    if field.default is not None and not isinstance(field.kind, kinds.Nested):
        strategy = st.just(field.default) | strategy
    return strategy


def kind_values(kind: Kind, version: int, override: Override) -> st.SearchStrategy[Any]:
    match kind:
        case kinds.Number():
            return NUMBERS[kind.code]
        case kinds.Boolean():
            return st.booleans()
        case kinds.Identifier():
            return st.binary(min_size=16, max_size=16)
        case kinds.Text():
            # Lengths around one byte of a varint, and characters of one to four bytes.
            long = st.sampled_from([126, 127, 128, 300]).map(
                lambda size: "é" * (size // 2) + "x" * (size % 2)
            )
            return st.text(st.characters(codec="utf-8"), max_size=12) | long
        case kinds.Binary():
            return st.binary(max_size=20) | st.sampled_from([126, 127, 128, 20_000]).map(bytes)
        case kinds.Array():
            return array_values(kind.element, version, override).map(tuple)
        case kinds.Nested():
            return values(kind.message_type, version, override)


def array_values(element: Kind, version: int, override: Override) -> st.SearchStrategy[list[Any]]:
    elements = kind_values(element, version, override)
    few = st.lists(elements, max_size=4)
    alike = st.builds(lambda value, count: [value] * count, elements, st.integers(4, 7))
    if isinstance(element, kinds.Number):
        alike |= st.sampled_from([126, 127, 128, 200]).map(lambda count: [3] * count)
    return few | alike


class Shape(NamedTuple):
    """How many elements arrays have at the top, inside those, and further in; and what stands in texts."""

    outer: int = 2
    inner: int = 1
    text: str | None = "text"
    deeper: int = 1


SMALL = Shape()


@cache
def full(message_type: type[Message], version: int, shape: Shape = SMALL) -> Message:
    """One message in which every field that the version has is there; null is empty where there is no null."""
    fields = {
        field.name: _full_value(field.kind, version, shape, nullable=version in field.nullable)
        for field in message_type.__schema__.fields
        if version in field.versions
    }
    return message_type(**fields)


def _full_value(kind: Kind, version: int, shape: Shape, *, nullable: bool = False) -> Any:
    match kind:
        case kinds.Number():
            return 3
        case kinds.Boolean():
            return True
        case kinds.Identifier():
            return bytes(range(16))
        case kinds.Text():
            return shape.text if shape.text is not None or nullable else ""
        case kinds.Binary():
            return (shape.text or "").encode()
        case kinds.Array():
            return (
                _full_value(kind.element, version, shape._replace(outer=shape.inner, inner=shape.deeper)),
            ) * shape.outer
        case kinds.Nested():
            return full(kind.message_type, version, shape)
