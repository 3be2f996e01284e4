"""Proves by whole columns that offset commits can be read, which takes a tenth of decoding them one by one.

Nearly all records of ``__consumer_offsets`` are commits, and nearly all of these are superseded. Their layout is fixed
but for two strings in the key and one in the value, so lengths that add up to the size and text in ASCII prove that the
codec would read them. What is not proved may be readable all the same: it has to be decoded.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]
    Numbers = NDArray[np.int64]

_COMMITS = (0, 1)
_LENGTH, _MOST = 2, 0x7FFF
"""Bytes of a string's length, and the longest; more is a negative length."""
_KEY_FIXED = 2 + _LENGTH + _LENGTH + 4
_GROUP_AT = 2 + _LENGTH
_VALUE_FIXED = np.array([20, 28, 20, 24])
"""Bytes of a value of versions 0 to 3 beside its metadata."""
_FLEXIBLE = 4
_TAGGED_ID = (1, 0, 16)
"""One tagged field, number 0, of 16 bytes: the topic id."""


class _Texts:
    """A column of byte strings as the one array of bytes that they lie in. A null has no bytes."""

    def __init__(self, column: pa.BinaryArray) -> None:
        _, bounds, content = column.buffers()
        at = np.frombuffer(bounds, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        all_bytes = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
        self.content: NDArray[np.uint8] = (
            all_bytes[at[0] : at[-1]] if at[-1] > at[0] else np.zeros(1, np.uint8)
        )
        self.begin: Numbers = at[:-1] - at[0]
        self.size: Numbers = np.diff(at)
        self._not_ascii: Numbers | None = None

    def byte(self, at: "int | Numbers") -> "Numbers":
        """Return the byte at this place of each; of one that is shorter, any byte."""
        return self.content.take(self.begin + at, mode="clip").astype(np.int64)

    def number(self, at: "int | Numbers") -> "Numbers":
        """Return the unsigned number of two bytes at this place of each."""
        return self.byte(at) << 8 | self.byte(at + 1)

    def is_ascii(self, at: "int | Numbers", length: "Numbers") -> "Flags":
        """Return whether so many bytes from this place of each are ASCII."""
        if not length.any():
            return np.ones(len(length), np.bool_)
        if self._not_ascii is None:
            self._not_ascii = np.concatenate(([0], np.cumsum(self.content >= 0x80)))
        first = self.begin + at
        before, after = (self._not_ascii.take(one, mode="clip") for one in (first, first + length))
        same: Flags = before == after
        return same


def proved(keys: pa.BinaryArray, values: pa.BinaryArray) -> "Flags":
    """Return for each record whether it is proved to be an offset commit, or its tombstone, that can be read."""
    tombstone = values.is_null().to_numpy(zero_copy_only=False)
    both: Flags = (
        keys.is_valid().to_numpy(zero_copy_only=False)
        & _keys(_Texts(keys))
        & (tombstone | _values(_Texts(values)))
    )
    return both


def types(keys: pa.BinaryArray) -> "NDArray[np.int16]":
    """Return the record type of each readable key."""
    return _Texts(keys).number(0).astype(np.uint16).view(np.int16)


def group_ids(keys: pa.BinaryArray) -> pa.StringArray:
    """Return the group that each readable key names; every key begins with it."""
    texts = _Texts(keys)
    sizes = texts.number(2)
    ends = np.cumsum(sizes)
    bounds = np.concatenate(([0], ends)).astype(np.int32)
    places = np.arange(bounds[-1]) + np.repeat(texts.begin + _GROUP_AT - bounds[:-1], sizes)
    content = texts.content.take(places, mode="clip")
    return pa.StringArray.from_buffers(len(keys), pa.py_buffer(bounds), pa.py_buffer(content))


def _keys(keys: _Texts) -> "Flags":
    group = keys.number(2)
    topic = keys.number(_GROUP_AT + group)
    whole = keys.size == _KEY_FIXED + group + topic  # so everything read above was inside
    right: Flags = whole & np.isin(keys.number(0), _COMMITS) & (group <= _MOST) & (topic <= _MOST)
    right &= keys.is_ascii(_GROUP_AT, np.where(right, group + _LENGTH + topic, 0))
    return right


def _values(values: _Texts) -> "Flags":
    version = values.number(0)
    text_at = np.where(version == 3, 16, 12)
    length = values.number(text_at - _LENGTH)
    fixed = version < _FLEXIBLE
    whole = values.size == _VALUE_FIXED.take(version, mode="clip") + length
    right: Flags = fixed & whole & (length <= _MOST)
    right &= values.is_ascii(text_at, np.where(right, length, 0))
    flexible = version == _FLEXIBLE
    if flexible.any():
        right |= _flexible(values) & flexible
    return right


def _flexible(values: _Texts) -> "Flags":
    """Return which are whole values of version 4, whose metadata is shorter than 127 bytes (a length of one byte)."""
    one_more = values.byte(14)
    tags_at = 22 + one_more
    none = (values.byte(tags_at) == 0) & (values.size == tags_at + 1)
    tagged = values.size == tags_at + len(_TAGGED_ID) + _TAGGED_ID[-1]
    for place, expected in enumerate(_TAGGED_ID):
        tagged &= values.byte(tags_at + place) == expected
    right: Flags = (one_more > 0) & (one_more < 0x80) & (none | tagged)
    right &= values.is_ascii(15, np.where(right, one_more - 1, 0))
    return right
