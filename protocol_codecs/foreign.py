"""Decodes what others have written: JSON, msgpack and text from peers that may be hostile.

Records of a shared topic, a hook's answer, a file that somebody has put there. Whatever is in it, :class:`Undecodable`
is the only exception. Three checks come before the decoder proper, none of which recurses: the size, the depth of
nesting, and for text that it is UTF-8. The decoders of msgspec recurse for each level, also where they skip a field
that they do not know, and end with RecursionError at a depth that depends on their caller's stack.
"""

import re
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

MOST_DEPTH = 32
"""Levels of arrays and objects within each other, if the decoder names no other bound."""

_SHOWN_BYTES = 64

_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, which may contain brackets. One that does not end is all the rest: nothing is scanned twice."""
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))

_MSGPACK_CONTAINERS = bytes((*range(0x80, 0xA0), *range(0xDC, 0xE0)))
_NO_MSGPACK_CONTAINERS = bytes(sorted(set(range(256)) - set(_MSGPACK_CONTAINERS)))


class Undecodable(Exception):
    """The bytes are not what they should be; the message says why, and how they begin."""


def decode_text(data: bytes) -> str:
    """Return UTF-8 as text.

    :raises Undecodable: it is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"not UTF-8: {error}") from None


class JsonDecoder(Generic[T]):
    """Decodes JSON into a type that msgspec knows: at most ``max_bytes``, strict UTF-8, no byte order mark."""

    def __init__(self, kind: type[T], max_bytes: int, *, max_depth: int = MOST_DEPTH) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._max_bytes = max_bytes
        self._max_depth = max_depth

    def decode(self, data: bytes) -> T:
        """Return what the JSON says.

        :raises Undecodable: it is too long or too deep, or is no such JSON.
        """
        _check_size(data, self._max_bytes)
        if json_is_deeper(data, self._max_depth):
            raise Undecodable(f"nested deeper than {self._max_depth}, or not closed: {data[:_SHOWN_BYTES]!r}")
        text = decode_text(data)
        try:
            return self._decoder.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Undecodable(f"{error}: {data[:_SHOWN_BYTES]!r}") from None


class MsgpackDecoder(Generic[T]):
    """Decodes msgpack into a type that msgspec knows, at most ``max_bytes``.

    ``max_depth`` None: the type bounds the depth, and forbids fields that it does not know.
    """

    def __init__(self, kind: type[T], max_bytes: int, *, max_depth: int | None = MOST_DEPTH) -> None:
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)
        self._max_bytes = max_bytes
        self._max_depth = max_depth

    def decode(self, data: bytes) -> T:
        """Return what the msgpack says.

        :raises Undecodable: it is too long or too deep, or is no such msgpack.
        """
        _check_size(data, self._max_bytes)
        if self._max_depth is not None and _msgpack_is_deeper(data, self._max_depth):
            raise Undecodable(f"nested deeper than {self._max_depth}: {data[:_SHOWN_BYTES]!r}")
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Undecodable(f"{error}: {data[:_SHOWN_BYTES]!r}") from None


def _check_size(data: bytes, most: int) -> None:
    if len(data) > most:
        raise Undecodable(f"{len(data)} bytes, more than {most}: {data[:_SHOWN_BYTES]!r}")


def json_is_deeper(data: bytes, most: int = MOST_DEPTH) -> bool:
    """Whether JSON is nested deeper than ``most`` levels; also of what is none, if it is not closed."""
    if data.count(b"[") + data.count(b"{") <= most:
        return False
    # Splitting at quotes is six times as fast, but knows no escapes.
    bare = _JSON_STRING.sub(b"", data) if b"\\" in data else b"".join(data.split(b'"')[::2])
    brackets = bare.translate(_AS_LISTS, _NO_BRACKETS)
    for _ in range(most):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")  # the innermost level
    return bool(brackets)


def _msgpack_is_deeper(data: bytes, most: int) -> bool:
    """Whether a msgpack parser could come deeper than ``most`` levels before it meets an error."""
    if len(data.translate(None, _NO_MSGPACK_CONTAINERS)) <= most:
        return False  # so few bytes can begin an array or a map at all
    at = 0
    open_containers: list[int] = []
    """For each container that is not at its end, how many of its elements are left."""
    while at < len(data):
        header, payload, elements = _msgpack_header(data, at)
        at += header + payload
        if open_containers:
            open_containers[-1] -= 1
        if elements:
            open_containers.append(elements)
            if len(open_containers) > most:
                return True
        while open_containers and not open_containers[-1]:
            open_containers.pop()
        if not open_containers:
            return False  # what comes behind the one value is an error
    return False


_MSGPACK_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
"""Bytes of a number behind its first byte."""
_MSGPACK_FIXEXT = {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
_MSGPACK_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),
                  0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}  # fmt: skip
"""Bytes, extensions and texts: how long their length is, and how many bytes come beside it."""


def _msgpack_header(data: bytes, at: int) -> tuple[int, int, int]:
    """The length of a value's header, that of its payload, and how many elements a container has."""
    first = data[at]
    if first < 0x80 or first >= 0xE0:
        return 1, 0, 0
    if first < 0x90:
        return 1, 0, 2 * (first & 0x0F)
    if first < 0xA0:
        return 1, 0, first & 0x0F
    if first < 0xC0:
        return 1, first & 0x1F, 0
    if first in (0xDC, 0xDD, 0xDE, 0xDF):
        size = 2 if first in (0xDC, 0xDE) else 4
        count = int.from_bytes(data[at + 1 : at + 1 + size])
        return 1 + size, 0, count if first < 0xDE else 2 * count
    if first in _MSGPACK_SIZED:
        size, beside = _MSGPACK_SIZED[first]
        return 1 + size, int.from_bytes(data[at + 1 : at + 1 + size]) + beside, 0
    return 1, _MSGPACK_FIXED.get(first, 0) + _MSGPACK_FIXEXT.get(first, 0), 0
