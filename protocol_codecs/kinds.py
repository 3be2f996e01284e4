"""The types that a field can have on the wire: plain data that the reference codec and the compiler read."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol_codecs.message import Message


@dataclass(frozen=True, slots=True)
class Number:
    """A big-endian integer of fixed width; ``code`` is its letter in the ``struct`` module."""

    name: str
    code: str
    size: int


@dataclass(frozen=True, slots=True)
class Boolean:
    """One byte; anything but zero is true."""


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8. Legacy: int16 length; compact: unsigned varint length + 1. At most 32767 bytes in both."""


@dataclass(frozen=True, slots=True)
class Binary:
    """Opaque bytes. Legacy: int32 length; compact: unsigned varint length + 1."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A uuid, 16 bytes."""


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one kind. Legacy: int32 count; compact: unsigned varint count + 1."""

    element: "Scalar | Nested"


@dataclass(frozen=True, slots=True)
class Nested:
    """A nested message.

    If it is nullable, one signed byte precedes it, negative for null (KIP-893). In a tagged field it is an unsigned
    varint instead, 0 for null, which occurs in ``__consumer_offsets`` only.
    """

    message_type: "type[Message]"


UUID_SIZE = 16

INT8 = Number("int8", "b", 1)
INT16 = Number("int16", "h", 2)
UINT16 = Number("uint16", "H", 2)
INT32 = Number("int32", "i", 4)
INT64 = Number("int64", "q", 8)

Scalar = Number | Boolean | Text | Binary | Identifier
Kind = Scalar | Array | Nested
