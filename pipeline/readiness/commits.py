"""Proves by whole columns that offset commits can be read, and reads them, for a tenth of decoding them one by one.

Nearly all records of ``__consumer_offsets`` are commits. Their layout is fixed but for two strings in the key and one
in the value, so lengths that add up to the size and text in ASCII prove that the codec would read them. What is not
proved may be readable all the same: it has to be decoded.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from protocol_codecs import ZERO_UUID, uuid_to_text

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
_ID_SIZE = 16
_EXPIRING, _WITH_EPOCH = 1, 3
"""Versions: the one with a time of expiry, and the first with a leader epoch."""


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

    def signed(self, at: "int | Numbers", size: int) -> "Numbers":
        """Return the signed number of so many bytes (4 or 8) at this place of each."""
        places = (self.begin + at)[:, None] + np.arange(size)
        return self.content.take(places, mode="clip").view(f">i{size}")[:, 0].astype(np.int64)

    def strings(self, at: "int | Numbers", sizes: "Numbers") -> pa.StringArray:
        """Return the text of so many bytes from this place of each."""
        bounds = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        places = np.arange(bounds[-1]) + np.repeat(self.begin + at - bounds[:-1], sizes)
        content = self.content.take(places, mode="clip")
        return pa.StringArray.from_buffers(len(sizes), pa.py_buffer(bounds), pa.py_buffer(content))

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
    return texts.strings(_GROUP_AT, texts.number(2))


def columns(keys: pa.BinaryArray, values: pa.BinaryArray) -> list[pa.Array]:
    """Return the columns of the table of offsets, of commits that are proved and are no tombstones."""
    key, value = _Texts(keys), _Texts(values)
    group, version = key.number(2), value.number(0)
    topic_at = _GROUP_AT + group + _LENGTH
    topic = key.number(topic_at - _LENGTH)
    text_at = _text_at(version)
    length = np.where(version == _FLEXIBLE, value.byte(14) - 1, value.number(text_at - _LENGTH))
    after = text_at + length
    epoch = np.where(version >= _WITH_EPOCH, value.signed(10, 4), -1)
    expires = np.where(version == _EXPIRING, value.signed(after + 8, 8), -1)
    return [
        key.strings(_GROUP_AT, group),
        key.strings(topic_at, topic),
        _topic_ids(value, version, after + 8),
        pa.array(key.signed(topic_at + topic, 4), pa.int32()),
        pa.array(value.signed(2, 8)),
        pa.array(epoch, pa.int32(), mask=epoch < 0),
        value.strings(text_at, length),
        pa.array(value.signed(after, 8)),
        pa.array(expires, mask=expires < 0),
    ]


def _text_at(version: "Numbers") -> "Numbers":
    """Return where the metadata begins in values of these versions (of version 4: if it is short)."""
    return np.select([version == _FLEXIBLE, version == _WITH_EPOCH], [15, 16], 12)


def _topic_ids(values: _Texts, version: "Numbers", tags_at: "Numbers") -> pa.StringArray:
    """Return the topic ids as text; null where there is none."""
    with_id = np.flatnonzero((version == _FLEXIBLE) & (values.byte(tags_at) != 0))
    if not len(with_id):
        return pa.nulls(len(version), pa.string())
    places = (values.begin + tags_at + len(_TAGGED_ID))[with_id, None] + np.arange(_ID_SIZE)
    ids, which = np.unique(values.content.take(places, mode="clip"), axis=0, return_inverse=True)
    texts = [None if one.tobytes() == ZERO_UUID else uuid_to_text(one.tobytes()) for one in ids]
    found = np.full(len(version), len(texts))
    found[with_id] = which.reshape(-1)
    return pa.array([*texts, None], pa.string()).take(pa.array(found))


def _keys(keys: _Texts) -> "Flags":
    group = keys.number(2)
    topic = keys.number(_GROUP_AT + group)
    whole = keys.size == _KEY_FIXED + group + topic  # so everything read above was inside
    right: Flags = whole & np.isin(keys.number(0), _COMMITS) & (group <= _MOST) & (topic <= _MOST)
    right &= keys.is_ascii(_GROUP_AT, np.where(right, group + _LENGTH + topic, 0))
    return right


def _values(values: _Texts) -> "Flags":
    version = values.number(0)
    text_at = _text_at(version)
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
