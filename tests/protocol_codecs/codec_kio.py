"""Our messages as those of kio, an independent implementation, and the differences between the two.

kio has a class for each version, durations instead of milliseconds, an enum of error codes, and uuid objects with
None for the zero uuid.
"""

import dataclasses
import datetime as dt
import functools
import importlib
import io
import re
import types
import typing
import uuid
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from protocol_codecs import kinds
from protocol_codecs.message import Message
from protocol_codecs.schema import Field

MILLISECOND = dt.timedelta(milliseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NO_TIMESTAMP = -1


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@functools.cache
def counterpart(message_type: type[Message], version: int) -> type[Any] | None:
    """kio's class for a message in a version, or None if it has none."""
    name = message_type.__name__
    for suffix, module in (
        ("Request", "request"),
        ("Response", "response"),
        ("Header", "header"),
        ("", "data"),
    ):
        if name.endswith(suffix):
            package = snake_case(name if suffix in ("Header", "") else name.removesuffix(suffix))
            try:
                return getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{module}"), name)
            except ModuleNotFoundError:
                return None
    raise AssertionError(name)


def fields_in_order(
    message_type: type[Message], version: int, kio_type: type[Any]
) -> list[tuple[Field, Any]]:
    """Our fields with kio's; both declare them in the order of the wire."""
    ours = [field for field in message_type.__schema__.fields if version in field.versions]
    theirs = dataclasses.fields(kio_type)
    assert [kio_name(field) for field in ours] == [
        field.name.removesuffix("_or_member_epoch") for field in theirs
    ]
    return list(zip(ours, theirs, strict=True))


def kio_name(field: Field) -> str:
    """kio's name for a field; ``_legacy`` came to the name in Kafka 4.4, which kio is older than."""
    return field.name.removesuffix("_ms").removesuffix("_or_member_epoch").removesuffix("_legacy")


@functools.cache
def type_hints(kio_type: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kio_type)


def nested_type(kio_type: type[Any], field_name: str) -> type[Any]:
    """The dataclass inside an annotation such as ``tuple[Topic, ...] | None``."""
    pending = [type_hints(kio_type)[field_name]]
    while pending:
        annotation = pending.pop()
        if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
            return annotation
        if typing.get_origin(annotation) in (tuple, types.UnionType, typing.Union):
            pending += typing.get_args(annotation)
    raise AssertionError(f"{kio_type}.{field_name}")


def to_kio(message: Message, version: int, kio_type: type[Any]) -> Any:
    arguments = {}
    for ours, theirs in fields_in_order(type(message), version, kio_type):
        value = getattr(message, ours.name)
        arguments[theirs.name] = _to_kio(value, ours.kind, version, kio_type, theirs)
    return kio_type(**arguments)


def _to_kio(value: Any, kind: kinds.Kind, version: int, kio_type: type[Any], theirs: Any) -> Any:
    kafka_type = theirs.metadata.get("kafka_type")
    match kind:
        case _ if value is None:
            return None
        case kinds.Array():
            return tuple(_to_kio(item, kind.element, version, kio_type, theirs) for item in value)
        case kinds.Nested():
            return to_kio(value, version, nested_type(kio_type, theirs.name))
        case kinds.Identifier():
            return uuid.UUID(bytes=value) if any(value) else None
    match kafka_type:
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return None if value == NO_TIMESTAMP else EPOCH + value * MILLISECOND
    return value


def expressible_in_kio(field: Field) -> st.SearchStrategy[Any] | None:
    """Values for the fields in which kio's types hold fewer values than the wire does."""
    if field.name == "error_code":
        return st.sampled_from([int(code) for code in KioErrorCode])
    if field.name.endswith("_timestamp_ms"):  # a datetime
        return st.integers(0, 10**10).map(lambda seconds: seconds * 1000)
    if field.name == "log_append_time_ms":  # a datetime, which kio writes by way of a float of seconds
        return st.just(NO_TIMESTAMP) | st.integers(0, 10**10).map(lambda seconds: seconds * 1000)
    if field.name.endswith("_ms") and field.kind == kinds.INT64:
        return st.integers(
            -(10**15), 10**15
        )  # timedelta has a maximum; beyond this it also loses milliseconds
    return None


def kio_encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_decode(kio_type: type[Any], data: bytes) -> Any:
    entity, size = entity_reader(kio_type)(data, 0)
    assert size == len(data)
    return entity
