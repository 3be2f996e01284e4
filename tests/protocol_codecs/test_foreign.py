"""Whatever bytes a stranger sends, decoding them ends in a value or in one exception."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_codecs.foreign import (
    MOST_DEPTH,
    JsonDecoder,
    MsgpackDecoder,
    Undecodable,
    _msgpack_is_deeper,
    decode_text,
    json_is_deeper,
)


class Small(msgspec.Struct):
    """Knows one field; others are skipped, which recurses too."""

    a: int = 0


JSON, MSGPACK = JsonDecoder(Small, 100_000), MsgpackDecoder(Small, 100_000)


def nested_json(depth: int) -> bytes:
    return b'{"x":' + b"[" * depth + b"]" * depth + b"}"


def nested_msgpack(depth: int) -> bytes:
    return b"\x81\xa1x" + b"\x91" * depth + b"\x00"


@pytest.mark.parametrize("depth", [MOST_DEPTH, 1_000, 3_000, 90_000])
def test_deep_nesting_is_refused_before_a_decoder_recurses(depth: int) -> None:
    for decode in (
        lambda: JSON.decode(nested_json(depth)),
        lambda: JSON.decode(b'{"x":' + b"[" * depth),
        lambda: MSGPACK.decode(nested_msgpack(depth)),
        lambda: MSGPACK.decode(b"\x91" * depth),
    ):
        with pytest.raises(Undecodable):
            decode()


def test_as_deep_as_is_allowed_is_read() -> None:
    assert JSON.decode(nested_json(MOST_DEPTH - 1)) == Small()
    assert MSGPACK.decode(nested_msgpack(MOST_DEPTH - 1)) == Small()


def test_brackets_in_strings_and_many_beside_each_other_are_no_depth() -> None:
    text = json.dumps({"x": '[{"' * 1_000, "y": [[]] * 1_000, "a": 1}).encode()
    assert JSON.decode(text) == Small(1)
    assert MSGPACK.decode(msgspec.msgpack.encode({"x": [[]] * 1_000, "a": 1})) == Small(1)
    assert MSGPACK.decode(msgspec.msgpack.encode({"x": b"\x91" * 1_000, "a": 1})) == Small(1)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xef\xbb\xbf{}", b'{"x":"\xff"}', b'{"a":"\\ud800', b'{"a":1e400}', b'{"a":' + b"9" * 9_000],
)
def test_what_is_no_json_in_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(Undecodable):
        JSON.decode(data)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x81\xa1a\xa1\xff", b"\x81\xa1a\xcf", b"\xdd\xff\xff\xff\xff", b"\x80\x80"]
)
def test_what_is_no_msgpack_is_refused(data: bytes) -> None:
    with pytest.raises(Undecodable):
        MSGPACK.decode(data)


def test_more_bytes_than_allowed_are_refused() -> None:
    with pytest.raises(Undecodable, match="3 bytes, more than 2"):
        JsonDecoder(Small, 2).decode(b" {}")
    with pytest.raises(Undecodable, match="2 bytes, more than 1"):
        MsgpackDecoder(Small, 1).decode(b"\x80\x00")


def test_text_that_is_not_utf_8_is_refused() -> None:
    assert decode_text("é".encode()) == "é"
    with pytest.raises(Undecodable):
        decode_text(b"\xff")


def depth_of(value: Any) -> int:
    """By recursion, of values that are not deep; an empty container is a level for JSON."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


VALUES = st.recursive(
    st.none()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=40,
)


@given(VALUES, st.integers(0, 6))
def test_the_depth_of_json_is_found_without_recursion(value: Any, most: int) -> None:
    assert json_is_deeper(json.dumps(value).encode(), most) == (depth_of(value) > most)


@given(VALUES, st.binary(max_size=300), st.integers(0, 6))
def test_the_depth_of_msgpack_is_found_without_recursion(value: Any, raw: bytes, most: int) -> None:
    filled = depth_of(value)
    data = msgspec.msgpack.encode({"raw": raw, "value": value})
    found = _msgpack_is_deeper(data, most)
    assert found == (filled + 1 > most) or (not found and has_empty(value)), "an empty container is no level"


def has_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return not value or any(map(has_empty, value.values()))
    return isinstance(value, list) and (not value or any(map(has_empty, value)))


@given(st.binary(max_size=400))
def test_any_bytes_end_in_a_value_or_in_the_one_exception(data: bytes) -> None:
    for decoder in (JSON, MSGPACK, JsonDecoder(object, 1_000), MsgpackDecoder(object, 1_000)):
        with contextlib.suppress(Undecodable):
            decoder.decode(data)
