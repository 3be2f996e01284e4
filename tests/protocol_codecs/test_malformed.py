"""Bytes that are not the message: one error, with the place, and no more memory than the bytes deserve."""

import tracemalloc

import pytest
from codec_values import CASES, REPRESENTATIVE_CASES, Shape, case_id, full
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol_codecs import MalformedMessage, decode, decode_prefix, encode, reference
from protocol_codecs.all_messages import (
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    MetadataResponse,
    OffsetCommitResponse,
    SaslAuthenticateRequest,
)
from protocol_codecs.message import Message

every_case = pytest.mark.parametrize(("message_type", "version"), CASES, ids=map(case_id, CASES))

HOSTILE_LEGACY_LENGTHS = [
    b"\x7f\xff\xff\xff",  # int32: 2147483647
    b"\xff\xff\xff\x00",  # int32: -256
    b"\x00\xff\xff\xff",  # int32: 16777215
    b"\x7f\xff",  # int16: 32767
    b"\x80\x00",  # int16: -32768
]
HOSTILE_COMPACT_LENGTHS = [
    b"\xff\xff\xff\xff\x07",  # 2147483647
    b"\xff\xff\xff\xff\xff\x01",  # more bytes than a varint has
    b"\x80\x00",  # 0, in more bytes than needed
]


def outcome(message_type: type[Message], version: int, data: bytes, decoder) -> object:
    """What a decoder makes of bytes: the message, or the text of the error."""
    try:
        return decoder(message_type, version, data, 0)
    except MalformedMessage as error:
        return str(error)


def agreed_outcome(message_type: type[Message], version: int, data: bytes) -> object:
    """What both decoders make of bytes."""
    compiled = outcome(message_type, version, data, decode)
    assert compiled == outcome(message_type, version, data, reference.decode_whole)
    return compiled


@every_case
def test_every_truncation_is_malformed(message_type: type[Message], version: int):
    encoded = encode(full(message_type, version), version)
    for size in range(len(encoded)):
        with pytest.raises(MalformedMessage) as caught:
            decode(message_type, version, encoded[:size])
        assert 0 <= caught.value.offset <= size
        assert caught.value.field.startswith(f"{message_type.__name__}.")
        assert agreed_outcome(message_type, version, encoded[:size]) == str(caught.value)
        with pytest.raises(MalformedMessage):
            decode_prefix(message_type, version, encoded[:size])


@pytest.mark.parametrize(
    ("message_type", "version"), REPRESENTATIVE_CASES, ids=map(case_id, REPRESENTATIVE_CASES)
)
@pytest.mark.parametrize("text", ["", None])
def test_every_truncation_of_long_arrays_is_malformed(
    message_type: type[Message], version: int, text: str | None
):
    encoded = encode(full(message_type, version, Shape(1, 5, text)), version)
    for size in range(len(encoded)):
        assert str(agreed_outcome(message_type, version, encoded[:size])).startswith("malformed ")


@every_case
def test_bytes_left_over_are_malformed(message_type: type[Message], version: int):
    encoded = encode(full(message_type, version), version)
    with pytest.raises(MalformedMessage, match="1 bytes left over"):
        decode(message_type, version, encoded + b"\0")


@every_case
def test_every_changed_byte_is_read_as_the_reference_reads_it(message_type: type[Message], version: int):
    encoded = encode(full(message_type, version), version)
    for position in range(len(encoded)):
        for change in (0x01, 0x80):
            changed = bytearray(encoded)
            changed[position] ^= change
            agreed_outcome(message_type, version, bytes(changed))


@every_case
@settings(max_examples=12)
@given(data=st.binary(max_size=80))
def test_random_bytes_are_read_as_the_reference_reads_them(
    message_type: type[Message], version: int, data: bytes
):
    agreed_outcome(message_type, version, data)


@pytest.mark.parametrize(
    ("message_type", "version"), REPRESENTATIVE_CASES, ids=map(case_id, REPRESENTATIVE_CASES)
)
def test_a_hostile_length_takes_no_memory(message_type: type[Message], version: int):
    encoded = encode(full(message_type, version, Shape(1, 1)), version)
    flexible = version in message_type.__schema__.flexible
    hostile = [
        encoded[:position] + length + encoded[position + len(length) :]
        for position in range(len(encoded))
        for length in (HOSTILE_COMPACT_LENGTHS if flexible else HOSTILE_LEGACY_LENGTHS)
    ]
    decode(message_type, version, encoded)  # compiling takes memory, once
    tracemalloc.start()
    try:
        for data in hostile:
            outcome(message_type, version, data, decode)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


def test_a_frame_full_of_elements_takes_memory_in_proportion():
    size = 200_000
    data = (
        b"\x00\x00\x00\x00" + b"\xff\xff\xff\xff\x07" + bytes(size)
    )  # 2147483646 topics, none of them there
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match=r"2147483646 elements cannot be in 200000 bytes"):
            decode(OffsetCommitResponse, 8, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * size


class TestTheErrorNamesThePlace:
    def test_of_a_field_inside_an_array(self):
        request = JoinGroupRequest(
            group_id="g",
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=b"1234") for name in ("a", "b", "c")
            ),
        )
        encoded = encode(request, 6)
        assert encoded.endswith(b"\x02c\x051234\x00\x00")
        with pytest.raises(MalformedMessage) as caught:
            decode(JoinGroupRequest, 6, encoded[:-4])
        error = caught.value
        assert error.message == "JoinGroupRequest"
        assert error.version == 6
        assert error.field == "JoinGroupRequest.protocols[2].metadata"
        assert error.offset == len(encoded) - 7
        assert str(error) == (
            f"malformed JoinGroupRequest v6: JoinGroupRequest.protocols[2].metadata at byte {error.offset}: "
            "needs 4 bytes, 2 left"
        )

    def test_counted_from_the_beginning_of_the_buffer(self):
        with pytest.raises(MalformedMessage) as caught:
            decode(HeartbeatResponse, 1, b"header  " + b"\0\0\0\0" + b"\0", 8)
        assert caught.value.field == "HeartbeatResponse.error_code"
        assert caught.value.offset == 12

    def test_of_a_null_where_there_is_no_null(self):
        with pytest.raises(
            MalformedMessage, match=r"\.group_id at byte 0: null where the version has no null"
        ):
            decode(HeartbeatRequest, 0, b"\xff\xff" + b"\0\0\0\0" + b"\0\0")
        with pytest.raises(MalformedMessage, match=r"\.auth_bytes at byte 0: null"):
            decode(SaslAuthenticateRequest, 2, b"\x00\x00")

    def test_of_a_negative_length(self):
        with pytest.raises(MalformedMessage, match=r"\.group_id at byte 0: negative length -2"):
            decode(HeartbeatRequest, 0, b"\xff\xfe" + b"\0\0\0\0" + b"\0\0")

    def test_of_a_count_that_the_bytes_cannot_hold(self):
        with pytest.raises(MalformedMessage, match=r"\.brokers at byte 0: 7 elements cannot be in 3 bytes"):
            decode(MetadataResponse, 0, b"\0\0\0\x07" + b"abc")

    def test_of_a_tagged_field(self):
        body = b"\0\0" + b"\x01" + b"\0\0\0\0"  # no error, no APIs, no throttling
        with pytest.raises(
            MalformedMessage, match=r"finalized_features_epoch at byte 10: tag 1 says 9 bytes"
        ):
            decode(ApiVersionsResponse, 3, body + b"\x01" + b"\x01\x09" + bytes(9))
        with pytest.raises(MalformedMessage, match=r"\(tagged fields\) at byte 8: tag 9 of 64 bytes, 2 left"):
            decode(ApiVersionsResponse, 3, body + b"\x01" + b"\x09\x40" + bytes(2))
