"""Reads the part of DER (X.690) that leads to a certificate's subject; no length is believed unchecked."""

from collections.abc import Iterator

import msgspec

SEQUENCE, SET, OBJECT_IDENTIFIER = 0x30, 0x31, 0x06
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18

_MULTI_BYTE_TAG = 0x1F
_LONG_LENGTH = 0x80
_MOST_LENGTH_BYTES = 3
"""A certificate has no 16 MiB; OpenSSL takes 100 KiB of a peer's chain."""

_MOST_ARCS = 64


class DerError(Exception):
    """The bytes are not the DER that was expected; the message says what is wrong, and shows nothing of them."""


class Element(msgspec.Struct, frozen=True):
    """One element: its tag, its contents, and all its bytes."""

    tag: int
    contents: bytes
    whole: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that these bytes are, one after the other.

    :raises DerError: an element is cut short, or its tag or length has a form that no certificate needs.
    """
    at = 0
    while at < len(data):
        tag, start = data[at], at
        if tag & _MULTI_BYTE_TAG == _MULTI_BYTE_TAG:
            raise DerError("a tag of several bytes")
        size, at = _length(data, at + 1)
        if at + size > len(data):
            raise DerError("an element is cut short")
        yield Element(tag, data[at : at + size], data[start : at + size])
        at += size


def only(data: bytes, tag: int) -> bytes:
    """Return the contents of the one element that these bytes are.

    :raises DerError: they are none or several, or it has another tag.
    """
    found = list(elements(data))
    if len(found) != 1 or found[0].tag != tag:
        raise DerError(f"not one element with the tag {tag:#x}")
    return found[0].contents


def object_identifier(contents: bytes) -> str:
    """Return an object identifier in dotted form.

    :raises DerError: it is empty, cut short, has too many arcs, or one that is too large.
    """
    arcs: list[int] = []
    arc = digits = 0
    for byte in contents:
        arc, digits = arc << 7 | byte & 0x7F, digits + 1
        if digits > _MOST_LENGTH_BYTES + 2 or len(arcs) > _MOST_ARCS:
            raise DerError("an object identifier is too large")
        if not byte & 0x80:
            arcs.append(arc)
            arc = digits = 0
    if digits or not arcs:
        raise DerError("an object identifier is cut short")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the length that begins here, and where the contents begin."""
    if at >= len(data):
        raise DerError("a length is missing")
    first = data[at]
    if first < _LONG_LENGTH:
        return first, at + 1
    size = first & 0x7F
    if not 0 < size <= _MOST_LENGTH_BYTES or at + 1 + size > len(data):
        raise DerError("a length is too large or cut short")
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size
