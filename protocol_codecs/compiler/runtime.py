"""Functions that compiled codecs call: precompiled layouts, tables by length, and the rare cases.

Each function may give up by raising any of :data:`GIVE_UP`; the compiled codec then calls the reference codec, which
either finds the same value or says exactly what is wrong. So nothing here explains its failures, but everything must
notice them: a slice never runs beyond the buffer, a length is never negative.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from protocol_codecs.bounds import MAX_LENGTH, MAX_TEXT_BYTES

Unpack = Callable[[bytes, int], tuple[Any, ...]]
Pack = Callable[..., bytes]

SHORT = 128
"""Lengths below this are in tables: those that fit in one byte of a varint."""

REFERENCE_SLOWNESS = 10
"""How many times longer the reference codec takes for an element than compiled code does, roughly."""

_MAX_VARINT_BYTES = 5


class GiveUpError(Exception):
    """The compiled function found something that it leaves to the reference codec."""


GIVE_UP = (GiveUpError, struct.error, IndexError, TypeError, AttributeError, ValueError, OverflowError)
"""All that compiled code raises on values and bytes that it was not made for."""


# -- decoding ---------------------------------------------------------------------------------------------


@cache
def unpacker(codes: str) -> Unpack:
    """Return a function that reads consecutive fields of fixed width, in ``struct`` codes."""
    return struct.Struct(f">{codes}").unpack_from


@cache
def row_unpacker(codes: str) -> Callable[[bytes], Any]:
    """Return a function that reads consecutive elements that all have the same layout."""
    return struct.Struct(f">{codes}").iter_unpack


@cache
def content_unpackers(codes: str, *, compact: bool) -> list[Unpack | None]:
    """Return functions that read bytes of a length below SHORT together with the fixed fields after them.

    The index is the length as it is on the wire: one more than the number of bytes in compact form, where zero stands
    for null and has no entry.
    """
    if compact:
        return [None, *(unpacker(f"{size}s{codes}") for size in range(SHORT - 1))]
    return [unpacker(f"{size}s{codes}") for size in range(SHORT)]


@cache
def number_unpackers(code: str, *, compact: bool) -> list[Unpack | None]:
    """Return functions that read an array of fewer than SHORT numbers; the index is the count on the wire."""
    if compact:
        return [None, *(unpacker(f"{count}{code}") for count in range(SHORT - 1))]
    return [unpacker(f"{count}{code}") for count in range(SHORT)]


@cache
def columns_of(value: int) -> list[bytes | None]:
    """Return byte strings of one repeated value; the index is a count in compact form, below SHORT."""
    return [None, *(bytes([value]) * count for count in range(SHORT - 1))]


def is_column_of(value: int, column: bytes) -> bool:
    """Whether all bytes have this value; for counts that are not in the tables."""
    return bytes(column).count(value) == len(column)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it."""
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_LENGTH:
                break
            return value, position
    raise GiveUpError


def count_at(buffer: bytes, position: int, count: int) -> int:
    """Return a compact count whose first byte is ``count``; it stands before ``position``."""
    return count if count < SHORT else read_varint(buffer, position - 1)[0]


def read_content(buffer: bytes, position: int, size: int) -> tuple[bytes, int]:
    """Return that many bytes and the position after them."""
    end = position + size
    if size < 0 or end > len(buffer):
        raise GiveUpError
    return bytes(buffer[position:end]), end


def read_compact_content(buffer: bytes, position: int) -> tuple[bytes, int]:
    """Return bytes that have a varint length + 1 before them, and the position after them."""
    size, position = read_varint(buffer, position)
    return read_content(buffer, position, size - 1)


def read_long_text(buffer: bytes, position: int) -> tuple[bytes, int]:
    """Return the bytes of a compact string and the position after them."""
    content, position = read_compact_content(buffer, position)
    if len(content) > MAX_TEXT_BYTES:
        raise GiveUpError
    return content, position


def read_numbers(buffer: bytes, position: int, code: str, count: int) -> tuple[int, ...]:
    """Return that many numbers; for counts that are not in the tables."""
    if count < 0 or count > len(buffer) - position:
        raise GiveUpError
    return struct.unpack_from(f">{count}{code}", buffer, position)


def skip_tagged_fields(buffer: bytes, position: int) -> int:
    """Return the position after unknown tagged fields, whose count is at ``position``."""
    count, position = read_varint(buffer, position)
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
        if position > len(buffer):
            raise GiveUpError
    return position


# -- encoding ---------------------------------------------------------------------------------------------


@cache
def packer(codes: str) -> Pack:
    """Return a function that writes consecutive fields of fixed width."""
    return struct.Struct(f">{codes}").pack


@cache
def number_packers(code: str) -> list[Pack]:
    """Return functions that write an array of fewer than SHORT numbers, without its count."""
    return [packer(f"{count}{code}") for count in range(SHORT)]


def pack_numbers(code: str, numbers: tuple[int, ...]) -> bytes:
    """Write numbers; for counts that are not in the tables."""
    return struct.pack(f">{len(numbers)}{code}", *numbers)


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def compact_count(length: int) -> bytes:
    """Encode a length or count in compact form; for those that are not in COMPACT."""
    return varint(length + 1)


def compact_text(length: int) -> bytes:
    """Encode a string's length in compact form; for those that are not in COMPACT."""
    if length > MAX_TEXT_BYTES:
        raise GiveUpError
    return varint(length + 1)


KNOWN_LENGTHS = 8 * SHORT
COMPACT = [*(varint(length + 1) for length in range(KNOWN_LENGTHS)), varint(0)]
"""The compact form of lengths and counts below KNOWN_LENGTHS, and at -1 that of null."""
