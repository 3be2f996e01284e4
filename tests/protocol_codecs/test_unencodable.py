"""Values that a version cannot express: refused with the field's name, or dropped where Kafka drops them."""

import pytest

from protocol_codecs import UnencodableMessage, decode, encode
from protocol_codecs.all_messages import (
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    SyncGroupResponse,
)
from protocol_codecs.message import Message


def refusal(message: Message, version: int) -> str:
    with pytest.raises(UnencodableMessage) as caught:
        encode(message, version)
    assert caught.value.message == type(message).__name__
    assert caught.value.version == version
    return f"{caught.value.field}: {caught.value.reason}"


def test_a_value_for_a_field_that_the_version_does_not_have():
    request = HeartbeatRequest(group_id="g", group_instance_id="static-1")
    assert encode(request, 3)
    assert (
        refusal(request, 2) == "HeartbeatRequest.group_instance_id: 'static-1' has no place in this version"
    )


def test_a_field_that_kafka_ignores_in_older_versions_is_dropped():
    response = HeartbeatResponse(throttle_time_ms=100, error_code=27)
    assert decode(HeartbeatResponse, 0, encode(response, 0)) == HeartbeatResponse(error_code=27)


def test_a_commit_timestamp_belongs_to_v1_alone():
    partition = OffsetCommitRequestPartition(partition_index=1, commit_timestamp=1_700_000_000_000)
    request = OffsetCommitRequest(topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),))
    assert decode(OffsetCommitRequest, 1, encode(request, 1)) == request
    field = "OffsetCommitRequest.topics[0].partitions[0].commit_timestamp"
    assert refusal(request, 2) == f"{field}: 1700000000000 has no place in this version"


def test_null_where_the_version_has_no_null():
    assert refusal(HeartbeatRequest(group_id=None), 4) == (  # type: ignore[arg-type]
        "HeartbeatRequest.group_id: null where the version has no null"
    )
    all_topics = OffsetFetchRequest(group_id="g", topics=None)
    assert encode(all_topics, 2)
    assert refusal(all_topics, 1) == "OffsetFetchRequest.topics: null where the version has no null"


def test_the_groups_of_offset_fetch_v8_have_no_place_in_v7():
    request = OffsetFetchRequest(topics=(OffsetFetchRequestTopic(name="t"),))
    assert encode(request, 7)
    assert refusal(request, 8).startswith("OffsetFetchRequest.topics: (OffsetFetchRequestTopic(")


@pytest.mark.parametrize("version", [5, 6])
def test_strings_of_more_than_32767_bytes(version: int):
    fits, too_long = "é" * 16_383 + "x", "é" * 16_384
    assert (
        decode(JoinGroupRequest, version, encode(JoinGroupRequest(group_id=fits), version)).group_id == fits
    )
    assert refusal(JoinGroupRequest(group_id=too_long), version) == (
        "JoinGroupRequest.group_id: string of 32768 bytes"
    )


@pytest.mark.parametrize("version", [5, 6])
def test_bytes_may_be_longer(version: int):
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(100_000))
    request = JoinGroupRequest(protocols=(protocol,))
    assert decode(JoinGroupRequest, version, encode(request, version)) == request


def test_numbers_out_of_range():
    assert refusal(HeartbeatRequest(generation_id=2**31), 4) == (
        "HeartbeatRequest.generation_id: 2147483648 does not fit in 32 bits"
    )
    assert refusal(HeartbeatResponse(error_code=-32769), 0).endswith("-32769 does not fit in 16 bits")


def test_text_without_a_utf_8_form():
    assert refusal(HeartbeatRequest(group_id="\ud800"), 4).startswith(
        r"HeartbeatRequest.group_id: '\ud800' has no UTF-8 form"
    )


def test_a_uuid_of_another_length():
    topic = OffsetCommitRequestTopic(topic_id=b"short")  # type: ignore[arg-type]
    assert refusal(OffsetCommitRequest(topics=(topic,)), 10) == (
        "OffsetCommitRequest.topics[0].topic_id: b'short' is no uuid of 16 bytes"
    )


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (HeartbeatRequest(generation_id="3"), "generation_id: '3' is no integer"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=b"g"), "group_id: b'g' is no string"),  # type: ignore[arg-type]
        (SyncGroupResponse(assignment="bytes"), "assignment: 'bytes' is not bytes"),  # type: ignore[arg-type]
        (DescribeGroupsRequest(groups=3), "groups: 3 is no sequence"),  # type: ignore[arg-type]
        (DescribeGroupsRequest(groups=(3,)), "groups[0]: 3 is no string"),  # type: ignore[arg-type]
        (JoinGroupRequest(protocols=("range",)), "protocols[0]: 'range' is no JoinGroupRequestProtocol"),  # type: ignore[arg-type]
    ],
)
def test_values_of_another_type(message: Message, field: str):
    assert refusal(message, 4) == f"{type(message).__name__}.{field}"


def test_a_field_of_a_later_version_is_refused_by_an_older_one():
    request = ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_regex="orders-.*")
    assert encode(request, 1)
    assert refusal(request, 0).startswith("ConsumerGroupHeartbeatRequest.subscribed_topic_regex: 'orders-.*'")
