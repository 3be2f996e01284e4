"""The functions that declare a message's fields.

Each function here stands on the right of a field in a class of :mod:`protocol_codecs.messages`::

    group_instance_id: str | None = string("3+", nullable="3+", default=None)

Its first argument is the versions that carry the field (all of the message's, if left out), ``nullable`` the
versions in which it may be null, ``ignorable`` whether a value may be dropped silently when a version has no
room for it, ``tag`` its number if it travels as a tagged field. A field without ``default`` has Kafka's
implicit one: zero, empty, false.

To the type checker each function returns that default, so a field whose annotation disagrees does not pass.
What the metaclass of :class:`~protocol_codecs.message.Message` finds in the class body is a
:class:`~protocol_codecs.schema.Field`.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from protocol_codecs import kinds
from protocol_codecs.kinds import Kind
from protocol_codecs.message import M, Message
from protocol_codecs.schema import Field
from protocol_codecs.uuids import ZERO_UUID, Uuid
from protocol_codecs.version_range import VersionRange

T = TypeVar("T")


def _field(
    kind: Kind,
    versions: str,
    default: object,
    *,
    nullable: str = "none",
    ignorable: bool = False,
    tag: int | None = None,
    legacy_form: bool = False,
) -> Any:
    return Field(
        name="",  # the metaclass knows it
        kind=kind,
        versions=VersionRange.parse(versions),
        nullable=VersionRange.parse(nullable),
        default=default,
        ignorable=ignorable,
        tag=tag,
        legacy_form=legacy_form,
    )


def int8(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    """Declare a signed 8-bit integer."""
    return cast("int", _field(kinds.INT8, versions, default, ignorable=ignorable, tag=tag))


def int16(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    """Declare a signed 16-bit integer, for example an error code."""
    return cast("int", _field(kinds.INT16, versions, default, ignorable=ignorable, tag=tag))


def uint16(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    """Declare an unsigned 16-bit integer."""
    return cast("int", _field(kinds.UINT16, versions, default, ignorable=ignorable, tag=tag))


def int32(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    """Declare a signed 32-bit integer."""
    return cast("int", _field(kinds.INT32, versions, default, ignorable=ignorable, tag=tag))


def int64(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    """Declare a signed 64-bit integer."""
    return cast("int", _field(kinds.INT64, versions, default, ignorable=ignorable, tag=tag))


def boolean(
    versions: str = "0+", *, default: bool = False, ignorable: bool = False, tag: int | None = None
) -> bool:
    """Declare a boolean, one byte."""
    return cast("bool", _field(kinds.Boolean(), versions, default, ignorable=ignorable, tag=tag))


def uuid(versions: str = "0+", *, ignorable: bool = False, tag: int | None = None) -> Uuid:
    """Declare a UUID of 16 bytes; its default is the zero UUID."""
    return cast("Uuid", _field(kinds.Identifier(), versions, ZERO_UUID, ignorable=ignorable, tag=tag))


@overload
def string(
    versions: str = "0+", *, default: str = "", ignorable: bool = False, tag: int | None = None
) -> str: ...
@overload
def string(
    versions: str = "0+",
    *,
    nullable: str,
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
    legacy_form: bool = False,
) -> str | None: ...
def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
    legacy_form: bool = False,
) -> str | None:
    """Declare a UTF-8 string of at most 32767 bytes."""
    field = _field(
        kinds.Text(),
        versions,
        default,
        nullable=nullable,
        ignorable=ignorable,
        tag=tag,
        legacy_form=legacy_form,
    )
    return cast("str | None", field)


@overload
def binary(
    versions: str = "0+", *, default: bytes = b"", ignorable: bool = False, tag: int | None = None
) -> bytes: ...
@overload
def binary(
    versions: str = "0+",
    *,
    nullable: str,
    default: bytes | None = b"",
    ignorable: bool = False,
    tag: int | None = None,
) -> bytes | None: ...
def binary(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    ignorable: bool = False,
    tag: int | None = None,
) -> bytes | None:
    """Declare opaque bytes."""
    field = _field(kinds.Binary(), versions, default, nullable=nullable, ignorable=ignorable, tag=tag)
    return cast("bytes | None", field)


@overload
def array(
    element: Callable[..., T], versions: str = "0+", *, ignorable: bool = False, tag: int | None = None
) -> tuple[T, ...]: ...
@overload
def array(
    element: Callable[..., T],
    versions: str = "0+",
    *,
    nullable: str,
    default: tuple[T, ...] | None = (),
    ignorable: bool = False,
    tag: int | None = None,
) -> tuple[T, ...] | None: ...
def array(
    element: Callable[..., T],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: tuple[T, ...] | None = (),
    ignorable: bool = False,
    tag: int | None = None,
) -> tuple[T, ...] | None:
    """Declare an array of ``element``: a message class, or another function of this module."""
    kind = kinds.Array(_element_kind(element))
    field = _field(kind, versions, default, nullable=nullable, ignorable=ignorable, tag=tag)
    return cast("tuple[T, ...] | None", field)


@overload
def struct(
    message_type: type[M], versions: str = "0+", *, ignorable: bool = False, tag: int | None = None
) -> M: ...
@overload
def struct(
    message_type: type[M],
    versions: str = "0+",
    *,
    nullable: str,
    default: M | None,
    ignorable: bool = False,
    tag: int | None = None,
) -> M | None: ...
def struct(
    message_type: type[M],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: object = ...,
    ignorable: bool = False,
    tag: int | None = None,
) -> M | None:
    """Declare a nested message; its default is that message with all its defaults."""
    value = message_type() if default is ... else default
    field = _field(
        kinds.Nested(message_type), versions, value, nullable=nullable, ignorable=ignorable, tag=tag
    )
    return cast("M | None", field)


def _element_kind(element: Callable[..., object]) -> kinds.Scalar | kinds.Nested:
    if isinstance(element, type) and issubclass(element, Message):
        return kinds.Nested(element)
    return _SCALARS[element]


_SCALARS: dict[Callable[..., object], kinds.Scalar] = {
    int8: kinds.INT8,
    int16: kinds.INT16,
    uint16: kinds.UINT16,
    int32: kinds.INT32,
    int64: kinds.INT64,
    boolean: kinds.Boolean(),
    string: kinds.Text(),
    binary: kinds.Binary(),
    uuid: kinds.Identifier(),
}
