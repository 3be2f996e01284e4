"""The subscriptions and assignments inside JoinGroup and SyncGroup, as clients really write them."""

import pytest

from protocol_codecs import MalformedMessage, UnsupportedVersion
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    lacks_owned_partitions,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=("orders", "payments"),
    user_data=b"sticky",
    owned_partitions=(ConsumerProtocolTopicPartition(topic="orders", partitions=(0, 2)),),
    generation_id=7,
    rack_id="rack-a",
)
TOPICS_AND_USER_DATA = b"\0\0\0\x02" + b"\0\x06orders" + b"\0\x08payments" + b"\0\0\0\x06sticky"
OWNED = b"\0\0\0\x01" + b"\0\x06orders" + b"\0\0\0\x02" + b"\0\0\0\0" + b"\0\0\0\x02"


def test_each_version_of_a_subscription_carries_more():
    assert encode_subscription(SUBSCRIPTION, 0) == b"\0\x00" + TOPICS_AND_USER_DATA
    assert encode_subscription(SUBSCRIPTION, 1) == b"\0\x01" + TOPICS_AND_USER_DATA + OWNED
    assert encode_subscription(SUBSCRIPTION, 2) == b"\0\x02" + TOPICS_AND_USER_DATA + OWNED + b"\0\0\0\x07"
    assert encode_subscription(SUBSCRIPTION, 3) == (
        b"\0\x03" + TOPICS_AND_USER_DATA + OWNED + b"\0\0\0\x07" + b"\0\x06rack-a"
    )
    assert decode_subscription(encode_subscription(SUBSCRIPTION, 3)) == (3, SUBSCRIPTION)


def test_a_v0_subscription_claims_nothing():
    version, subscription = decode_subscription(b"\0\0" + TOPICS_AND_USER_DATA)
    assert version == 0
    assert subscription.topics == ("orders", "payments")
    assert subscription.owned_partitions == ()
    assert subscription.generation_id == -1
    assert subscription.rack_id is None


@pytest.mark.parametrize(
    ("subscription", "lacks_them"),
    [
        (b"\0\0" + TOPICS_AND_USER_DATA, False),  # v0 has none
        (b"\0\x01" + TOPICS_AND_USER_DATA, True),
        (b"\0\x01" + TOPICS_AND_USER_DATA + b"\0\0\0\0", False),  # it owns nothing, and says so
        (encode_subscription(SUBSCRIPTION, 3), False),
    ],
)
def test_a_subscription_that_ends_before_its_owned_partitions_is_known(subscription, lacks_them):
    assert lacks_owned_partitions(subscription) == lacks_them


def test_a_v1_subscription_of_kafka_go_ends_before_its_owned_partitions_and_claims_nothing():
    version, subscription = decode_subscription(b"\0\x01" + TOPICS_AND_USER_DATA)
    assert version == 1
    assert subscription == ConsumerProtocolSubscription(topics=("orders", "payments"), user_data=b"sticky")


@pytest.mark.parametrize("version", [2, 3])
def test_a_later_subscription_must_be_complete(version: int):
    with pytest.raises(MalformedMessage, match=r"ConsumerProtocolSubscription v\d: .*owned_partitions"):
        decode_subscription(version.to_bytes(2, "big") + TOPICS_AND_USER_DATA)


def test_a_v1_subscription_that_is_cut_inside_its_owned_partitions_is_malformed():
    with pytest.raises(MalformedMessage, match="owned_partitions"):
        decode_subscription(b"\0\x01" + TOPICS_AND_USER_DATA + OWNED[:-1])


@pytest.mark.parametrize("version", [0, 2, 3, 4, 1000])
def test_a_newer_version_is_read_as_the_newest_known_and_bytes_after_it_are_ignored(version: int):
    encoded = encode_subscription(SUBSCRIPTION, min(version, 3))
    claimed, subscription = decode_subscription(version.to_bytes(2, "big") + encoded[2:] + b"more")
    assert claimed == version
    assert subscription == decode_subscription(encoded)[1]


@pytest.mark.parametrize("version", range(4))
def test_assignments_are_the_same_in_all_versions(version: int):
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=(ConsumerProtocolTopicPartition(topic="orders", partitions=(1,)),), user_data=None
    )
    encoded = encode_assignment(assignment, version)
    assert encoded == version.to_bytes(2, "big") + (
        b"\0\0\0\x01" + b"\0\x06orders" + b"\0\0\0\x01" + b"\0\0\0\x01" + b"\xff\xff\xff\xff"
    )
    assert decode_assignment(encoded) == (version, assignment)
    assert decode_assignment(b"\0\x09" + encoded[2:] + b"more") == (9, assignment)


@pytest.mark.parametrize("decode_embedded", [decode_subscription, decode_assignment])
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0"])
def test_no_version_or_a_negative_one_is_malformed(decode_embedded, data: bytes):
    with pytest.raises(MalformedMessage, match=r"\(version\) at byte 0"):
        decode_embedded(data)


def test_a_version_that_does_not_exist_cannot_be_written():
    with pytest.raises(UnsupportedVersion):
        encode_subscription(SUBSCRIPTION, 4)


def test_any_buffer_is_read():
    encoded = encode_subscription(SUBSCRIPTION, 3)
    assert (
        decode_subscription(memoryview(encoded))
        == decode_subscription(bytearray(encoded))
        == (3, SUBSCRIPTION)
    )
