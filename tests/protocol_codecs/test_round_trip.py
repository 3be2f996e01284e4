"""What is encoded decodes to the same, and the compiled functions do what the reference codec does."""

from collections.abc import Callable

import pytest
from codec_values import CASES, REPRESENTATIVE_CASES, Shape, case_id, full, values, values_of_any_version
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol_codecs import UnencodableMessage, UnsupportedVersion, decode, decode_prefix, encode, reference
from protocol_codecs.all_messages import ApiVersionsResponse, HeartbeatRequest
from protocol_codecs.message import Message
from protocol_codecs.schema import Field


def outcome(encoder: Callable[[Message, int], bytes], message: Message, version: int) -> bytes | str:
    """The bytes, or the text of the error."""
    try:
        return encoder(message, version)
    except UnencodableMessage as error:
        return str(error)


every_case = pytest.mark.parametrize(("message_type", "version"), CASES, ids=map(case_id, CASES))


@every_case
@settings(max_examples=10)
@given(data=st.data())
def test_a_message_survives_the_wire(message_type: type[Message], version: int, data: st.DataObject):
    message = data.draw(values(message_type, version))

    encoded = encode(message, version)

    assert encoded == reference.encode(message, version)
    assert decode(message_type, version, encoded) == message
    assert reference.decode_whole(message_type, version, encoded, 0) == message


@every_case
@settings(max_examples=10)
@given(data=st.data())
def test_a_value_that_a_version_may_not_carry_is_judged_like_the_reference_does(
    message_type: type[Message], version: int, data: st.DataObject
):
    message = data.draw(values_of_any_version(message_type))
    assert outcome(encode, message, version) == outcome(reference.encode, message, version)


@every_case
def test_every_kind_of_buffer_is_read(message_type: type[Message], version: int):
    message = full(message_type, version)
    encoded = encode(message, version)
    for kind_of_buffer in (bytes, bytearray, memoryview):
        decoded = decode(message_type, version, kind_of_buffer(encoded))
        assert decoded == message
        assert hash(decoded) == hash(message)  # nothing of the buffer itself is kept in it


@every_case
def test_a_message_is_found_between_other_bytes(message_type: type[Message], version: int):
    message = full(message_type, version)
    encoded = encode(message, version)
    assert decode(message_type, version, b"before" + encoded, 6) == message
    end = 6 + len(encoded)
    assert decode_prefix(message_type, version, b"before" + encoded + b"after", 6) == (message, end)


@every_case
def test_defaults_can_be_sent_in_every_version(message_type: type[Message], version: int):
    assert decode(message_type, version, encode(message_type(), version)) == message_type()


@every_case
@pytest.mark.parametrize(
    "shape",
    [
        Shape(1, 3, ""),
        Shape(2, 4, ""),
        Shape(4, 5, None),
        Shape(5, 2, "text"),
        Shape(1, 1, "x" * 127),
        Shape(2, 2, "é" * 64),
        Shape(1, 1, "", 5),
        Shape(1, 1, None, 5),
    ],
    ids=str,
)
def test_arrays_of_equal_elements(message_type: type[Message], version: int, shape: Shape):
    message = full(message_type, version, shape)
    encoded = encode(message, version)
    assert encoded == reference.encode(message, version)
    assert decode(message_type, version, encoded) == message


@pytest.mark.parametrize(
    ("message_type", "version"), REPRESENTATIVE_CASES, ids=map(case_id, REPRESENTATIVE_CASES)
)
@pytest.mark.parametrize(
    "shape",
    [
        Shape(126, 1),
        Shape(127, 1, ""),
        Shape(128, 1, None),
        Shape(1, 126, ""),
        Shape(1, 127),
        Shape(1, 1023, ""),
        Shape(1, 1, "", 127),
        Shape(1, 1, "", 128),
    ],
    ids=str,
)
def test_counts_of_one_byte_and_more(message_type: type[Message], version: int, shape: Shape):
    message = full(message_type, version, shape)
    encoded = encode(message, version)
    assert decode(message_type, version, encoded) == message
    assert reference.decode_whole(message_type, version, encoded, 0) == message


class WriterOfUnknownTags(reference._Writer):
    """Writes two tagged fields that nobody knows behind every struct, after those that it has."""

    def tagged_fields(self, message: Message, fields: list[Field]) -> None:
        outer, self.buffer = self.buffer, bytearray()
        super().tagged_fields(message, fields)
        count_and_known, self.buffer = self.buffer, outer
        self.unsigned_varint(count_and_known[0] + 2)
        self.buffer += count_and_known[1:]
        self.buffer += b"\x64\x03abc"  # tag 100, of 3 bytes
        self.buffer += b"\xe4\x01\x00"  # tag 228, of none


@every_case
@pytest.mark.parametrize(
    "shape", [Shape(2, 2, "text"), Shape(1, 5, ""), Shape(5, 1, None), Shape(1, 1, "", 5)], ids=str
)
def test_unknown_tagged_fields_are_skipped_everywhere(
    message_type: type[Message], version: int, shape: Shape
):
    message = full(message_type, version, shape)
    writer = WriterOfUnknownTags(message.__schema__, version)
    writer.message(message)
    encoded = bytes(writer.buffer)
    assert decode(message_type, version, encoded) == message
    assert decode_prefix(message_type, version, encoded + b"after") == (message, len(encoded))
    assert reference.decode_whole(message_type, version, encoded, 0) == message


def test_known_tagged_fields_may_come_in_any_order():
    response = ApiVersionsResponse(finalized_features_epoch=7, zk_migration_ready=True)
    encoded = encode(response, 3)
    epoch, ready = b"\x01\x08" + (7).to_bytes(8, "big"), b"\x03\x01\x01"
    assert encoded.endswith(epoch + ready)
    assert decode(ApiVersionsResponse, 3, encoded.removesuffix(epoch + ready) + ready + epoch) == response


@pytest.mark.parametrize("version", [-1, 5])
def test_a_version_that_never_was_is_refused(version: int):
    with pytest.raises(UnsupportedVersion, match=f"HeartbeatRequest has no version {version} .declared: 0-4"):
        encode(HeartbeatRequest(), version)
    with pytest.raises(UnsupportedVersion):
        decode(HeartbeatRequest, version, b"")
