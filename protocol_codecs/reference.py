"""The reference codec: decodes and encodes field by field, and checks every length before it uses it.

It is slow and exact. The compiled functions leave to it whatever they cannot handle, so it alone decides what is
malformed, what cannot be encoded, and where. Tests compare the compiled functions with it.
"""

import math
from collections.abc import Sequence
from functools import cache
from operator import index
from typing import NoReturn

from protocol_codecs import kinds
from protocol_codecs.bounds import MAX_LENGTH, MAX_TEXT_BYTES
from protocol_codecs.errors import MalformedMessage, TooManyElements, UnencodableMessage
from protocol_codecs.kinds import UUID_SIZE, Kind
from protocol_codecs.message import M, Message
from protocol_codecs.schema import Field, Schema
from protocol_codecs.text import decode_text
from protocol_codecs.uuids import Uuid

_MAX_VARINT_BYTES = 5


def decode_prefix(
    message_type: type[M], version: int, buffer: bytes, offset: int, max_elements: float = math.inf
) -> tuple[M, int]:
    """Decode a message that begins at ``offset``; return it and its end offset.

    Raises MalformedMessage, and TooManyElements if its arrays and tagged fields have more than ``max_elements``.
    """
    reader = _Reader(message_type.__schema__, version, buffer, offset, max_elements)
    return reader.message(message_type), reader.position


def decode_whole(message_type: type[M], version: int, buffer: bytes, offset: int) -> M:
    """Decode a message that begins at ``offset`` and ends with the buffer. Raises MalformedMessage."""
    reader = _Reader(message_type.__schema__, version, buffer, offset)
    message = reader.message(message_type)
    if reader.position != len(buffer):
        reader.fail(f"{len(buffer) - reader.position} bytes left over after the message")
    return message


def encode(message: Message, version: int) -> bytes:
    """Encode a message. Raises UnencodableMessage."""
    writer = _Writer(message.__schema__, version)
    writer.message(message)
    return bytes(writer.buffer)


@cache
def minimum_size(kind: Kind, version: int, *, flexible: bool) -> int:
    """Return the least bytes that a value of this kind takes; bounds the counts that a peer claims."""
    match kind:
        case kinds.Number():
            return kind.size
        case kinds.Boolean():
            return 1
        case kinds.Identifier():
            return UUID_SIZE
        case kinds.Text():
            return 1 if flexible else 2
        case kinds.Binary() | kinds.Array():
            return 1 if flexible else 4
        case kinds.Nested():
            fields = [f for f in kind.message_type.__schema__.fields if f.plain_in(version)]
            sizes = [
                1
                if isinstance(f.kind, kinds.Nested) and version in f.nullable
                else minimum_size(f.kind, version, flexible=flexible and not f.legacy_form)
                for f in fields
            ]
            return sum(sizes) + flexible


class _Place:
    """The path of the field being processed, for error messages."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = version in schema.flexible
        self.path: list[str] = [schema.name]


class _Reader(_Place):
    def __init__(
        self, schema: Schema, version: int, buffer: bytes, offset: int, max_elements: float = math.inf
    ) -> None:
        super().__init__(schema, version)
        self.elements_left = max_elements
        self.buffer = buffer
        self.position = offset
        self.value_start = offset

    def fail(self, reason: str) -> NoReturn:
        raise MalformedMessage(self.schema.name, self.version, "".join(self.path), self.value_start, reason)

    def count_elements(self, count: int) -> None:
        self.elements_left -= count
        if self.elements_left < 0:
            raise TooManyElements(self.schema.name, self.version)

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.buffer):
            self.fail(f"needs {size} bytes, {max(0, len(self.buffer) - self.position)} left")
        taken = self.buffer[self.position : end]
        self.position = end
        return taken

    def number(self, size: int, *, signed: bool) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def unsigned_varint(self) -> int:
        value = 0
        for position in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                break
        else:
            self.fail("unsigned varint of more than five bytes")
        if value > MAX_LENGTH:
            self.fail(f"unsigned varint {value} is more than a length can be")
        return value

    def length(self, legacy_size: int, *, flexible: bool, nullable: bool) -> int | None:
        """Read a length or count; None stands for null."""
        length = self.unsigned_varint() - 1 if flexible else self.number(legacy_size, signed=True)
        if length >= 0:
            return length
        if length < -1:
            self.fail(f"negative length {length}")
        if not nullable:
            self.fail("null where the version has no null")
        return None

    def message(self, message_type: type[M]) -> M:
        values: dict[str, object] = {}
        fields = message_type.__schema__.fields
        for field in fields:
            if field.plain_in(self.version):
                self.path.append(f".{field.name}")
                values[field.name] = self.field(field)
                self.path.pop()
        if self.flexible and not message_type.__schema__.fragment:
            self.tagged_fields({f.tag: f for f in fields if f.tagged_in(self.version)}, values)
        return message_type(**values)

    def tagged_fields(self, known: dict[int | None, Field], values: dict[str, object]) -> None:
        self.path.append(".(tagged fields)")
        self.value_start = self.position
        count = self.unsigned_varint()
        self.count_elements(count)
        for _ in range(count):
            self.value_start = self.position
            tag = self.unsigned_varint()
            size = self.unsigned_varint()
            end = self.position + size
            if end > len(self.buffer):
                self.fail(f"tag {tag} of {size} bytes, {len(self.buffer) - self.position} left")
            if tag not in known:
                self.position = end
                continue
            field = known[tag]
            self.path[-1] = f".{field.name}"
            values[field.name] = self.tagged_field(field)
            if self.position != end:
                self.fail(f"tag {tag} says {size} bytes, its value takes {self.position - end + size}")
            self.path[-1] = ".(tagged fields)"
        self.path.pop()

    def tagged_field(self, field: Field) -> object:
        if isinstance(field.kind, kinds.Nested) and self.version in field.nullable:
            self.value_start = self.position
            return self.message(field.kind.message_type) if self.unsigned_varint() else None
        return self.field(field)

    def field(self, field: Field) -> object:
        nullable = self.version in field.nullable
        return self.value(field.kind, flexible=self.flexible and not field.legacy_form, nullable=nullable)

    def value(self, kind: Kind, *, flexible: bool, nullable: bool) -> object:
        self.value_start = self.position
        match kind:
            case kinds.Number():
                return self.number(kind.size, signed=kind.code.islower())
            case kinds.Boolean():
                return self.number(1, signed=False) != 0
            case kinds.Identifier():
                return Uuid(self.take(UUID_SIZE))
            case kinds.Text():
                return self.text(self.length(2, flexible=flexible, nullable=nullable))
            case kinds.Binary():
                size = self.length(4, flexible=flexible, nullable=nullable)
                return None if size is None else self.take(size)
            case kinds.Array():
                count = self.length(4, flexible=flexible, nullable=nullable)
                return self.array(kind.element, count, flexible=flexible)
            case kinds.Nested():
                if nullable and self.number(1, signed=True) < 0:
                    return None
                return self.message(kind.message_type)

    def text(self, size: int | None) -> str | None:
        if size is None:
            return None
        if size > MAX_TEXT_BYTES:
            self.fail(f"string of {size} bytes")
        return decode_text(self.take(size))

    def array(self, element: Kind, count: int | None, *, flexible: bool) -> tuple[object, ...] | None:
        if count is None:
            return None
        remaining = len(self.buffer) - self.position
        if count * minimum_size(element, self.version, flexible=flexible) > remaining:
            self.fail(f"{count} elements cannot be in {remaining} bytes")
        self.count_elements(count)
        values = []
        self.path.append("")
        for number in range(count):
            self.path[-1] = f"[{number}]"
            values.append(self.value(element, flexible=flexible, nullable=False))
        self.path.pop()
        return tuple(values)


class _Writer(_Place):
    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self.buffer = bytearray()

    def fail(self, reason: str) -> NoReturn:
        raise UnencodableMessage(self.schema.name, self.version, "".join(self.path), reason)

    def number(self, value: object, size: int, *, signed: bool) -> None:
        try:
            number = index(value)  # type: ignore[arg-type]
        except TypeError:
            self.fail(f"{value!r} is no integer")
        try:
            self.buffer += number.to_bytes(size, "big", signed=signed)
        except OverflowError:
            self.fail(f"{number} does not fit in {size * 8} bits")

    def unsigned_varint(self, value: int) -> None:
        while value > 0x7F:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def length(self, length: int, legacy_size: int, *, flexible: bool) -> None:
        """Write a length or count; -1 stands for null."""
        if flexible:
            self.unsigned_varint(length + 1)
        else:
            self.number(length, legacy_size, signed=True)

    def message(self, message: Message) -> None:
        tagged: list[Field] = []
        for field in message.__schema__.fields:
            value = getattr(message, field.name)
            self.path.append(f".{field.name}")
            if field.plain_in(self.version):
                self.field(field, value)
            elif field.tagged_in(self.version):
                if value != field.default:
                    tagged.append(field)
            elif value != field.default and not field.ignorable:
                self.fail(f"{value!r} has no place in this version")
            self.path.pop()
        if self.flexible and not message.__schema__.fragment:
            self.tagged_fields(message, tagged)

    def tagged_fields(self, message: Message, fields: list[Field]) -> None:
        self.unsigned_varint(len(fields))
        for field in sorted(fields, key=lambda f: f.tag or 0):
            outer, self.buffer = self.buffer, bytearray()
            self.path.append(f".{field.name}")
            self.tagged_field(field, getattr(message, field.name))
            self.path.pop()
            content, self.buffer = self.buffer, outer
            self.unsigned_varint(field.tag or 0)
            self.unsigned_varint(len(content))
            self.buffer += content

    def tagged_field(self, field: Field, value: object) -> None:
        if isinstance(field.kind, kinds.Nested) and self.version in field.nullable:
            self.unsigned_varint(0 if value is None else 1)
            if value is not None:
                self.nested(field.kind, value, nullable=False)
        else:
            self.field(field, value)

    def field(self, field: Field, value: object) -> None:
        nullable = self.version in field.nullable
        self.value(field.kind, value, flexible=self.flexible and not field.legacy_form, nullable=nullable)

    def value(self, kind: Kind, value: object, *, flexible: bool, nullable: bool) -> None:
        match kind:
            case kinds.Number():
                self.number(value, kind.size, signed=kind.code.islower())
            case kinds.Boolean():
                self.buffer.append(bool(value))
            case kinds.Identifier():
                self.identifier(value)
            case _ if value is None:
                self.null(kind, flexible=flexible, nullable=nullable)
            case kinds.Text():
                self.text(value, flexible=flexible)
            case kinds.Binary():
                self.binary(value, flexible=flexible)
            case kinds.Array():
                self.array(kind.element, value, flexible=flexible)
            case kinds.Nested():
                self.nested(kind, value, nullable=nullable)

    def null(self, kind: Kind, *, flexible: bool, nullable: bool) -> None:
        if not nullable:
            self.fail("null where the version has no null")
        if isinstance(kind, kinds.Nested):
            self.number(-1, 1, signed=True)
        else:
            self.length(-1, 2 if isinstance(kind, kinds.Text) else 4, flexible=flexible)

    def identifier(self, value: object) -> None:
        if not isinstance(value, bytes) or len(value) != UUID_SIZE:
            self.fail(f"{value!r} is no uuid of {UUID_SIZE} bytes")
        self.buffer += value

    def text(self, value: object, *, flexible: bool) -> None:
        if not isinstance(value, str):
            self.fail(f"{value!r} is no string")
        try:
            content = value.encode()
        except UnicodeEncodeError as error:
            self.fail(f"{value!r} has no UTF-8 form: {error.reason}")
        if len(content) > MAX_TEXT_BYTES:
            self.fail(f"string of {len(content)} bytes")
        self.length(len(content), 2, flexible=flexible)
        self.buffer += content

    def binary(self, value: object, *, flexible: bool) -> None:
        if not isinstance(value, bytes | bytearray | memoryview):
            self.fail(f"{value!r} is not bytes")
        self.length(len(value), 4, flexible=flexible)
        self.buffer += value

    def array(self, element: Kind, value: object, *, flexible: bool) -> None:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            self.fail(f"{value!r} is no sequence")
        self.length(len(value), 4, flexible=flexible)
        self.path.append("")
        for number, item in enumerate(value):
            self.path[-1] = f"[{number}]"
            self.value(element, item, flexible=flexible, nullable=False)
        self.path.pop()

    def nested(self, kind: kinds.Nested, value: object, *, nullable: bool) -> None:
        if not isinstance(value, kind.message_type):
            self.fail(f"{value!r} is no {kind.message_type.__name__}")
        if nullable:
            self.number(1, 1, signed=True)
        self.message(value)
