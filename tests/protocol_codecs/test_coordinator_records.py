"""Records of ``__consumer_offsets`` in Kafka's own bytes; more of them are in tests/coordinator/recordings."""

import pytest

from protocol_codecs import MalformedMessage, decode, encode, reference
from protocol_codecs.message import Message
from protocol_codecs.records import (
    ConsumerGroupClassicMemberMetadata,
    ConsumerGroupClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)

FIELDS = bytes.fromhex("0000 0242 02 68 01 01 00007530 00".replace(" ", ""))
"""No instance id, no rack, client "B" at "h", no topics, no expression, 30 s, no assignor: all but the tag."""


def member(classic: ConsumerGroupClassicMemberMetadata | None) -> Message:
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="B",
        client_host="h",
        rebalance_timeout_ms=30_000,
        server_assignor=None,
        classic_member_metadata=classic,
    )


CLASSIC = ConsumerGroupClassicMemberMetadata(
    session_timeout_ms=1, supported_protocols=(ConsumerGroupClassicProtocol(name="r", metadata=b"\7"),)
)
AS_KAFKA_WRITES = {
    "null": (None, "01 00 01 00"),
    "classic": (CLASSIC, "01 00 0c 01 00000001 02 0272 0207 00 00"),
    "the default": (ConsumerGroupClassicMemberMetadata(), "00"),
}


@pytest.mark.parametrize("case", AS_KAFKA_WRITES)
def test_a_tagged_struct_that_may_be_null(case: str):
    classic, tags = AS_KAFKA_WRITES[case]
    content = FIELDS + bytes.fromhex(tags.replace(" ", ""))

    assert encode(member(classic), 0).hex() == content.hex()
    assert reference.encode(member(classic), 0) == content
    assert decode(ConsumerGroupMemberMetadataValue, 0, content) == member(classic)
    assert reference.decode_whole(ConsumerGroupMemberMetadataValue, 0, content, 0) == member(classic)


def test_a_longer_mark_of_presence_is_read():
    content = FIELDS + bytes.fromhex("01000d") + b"\x81\x00" + bytes.fromhex("00000001020272020700") + b"\x00"

    assert decode(ConsumerGroupMemberMetadataValue, 0, content) == member(CLASSIC)


def test_a_null_of_more_than_its_byte_is_malformed():
    content = FIELDS + bytes.fromhex("01000200ff")

    with pytest.raises(MalformedMessage):
        decode(ConsumerGroupMemberMetadataValue, 0, content)
