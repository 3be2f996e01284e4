"""The messages of client-side assignors: they survive the wire, and whoever does not know them skips what they add."""

import pytest
from codec_values import values
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from protocol_codecs import ApiKey, ErrorCode, decode, encode, experimental, kinds, reference
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.experimental import (
    CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS,
    ClientAssignorsHeartbeatRequest,
    ClientAssignorsHeartbeatResponse,
    CurrentAssignmentWithDetails,
    ExperimentalApiKey,
    ExperimentalErrorCode,
    MemberMetadataWithClientAssignors,
    TargetAssignmentWithDetails,
)
from protocol_codecs.message import Message
from protocol_codecs.records import CONSUMER_OFFSETS, CoordinatorRecord
from protocol_codecs.records import consumer_group as records
from protocol_codecs.registry import FIRST_FLEXIBLE_VERSION

EXTENDED = [
    (ClientAssignorsHeartbeatRequest, 1),
    (ClientAssignorsHeartbeatResponse, 1),
    (ClientAssignorsHeartbeatRequest, 0),
    (MemberMetadataWithClientAssignors, 0),
    (TargetAssignmentWithDetails, 0),
    (CurrentAssignmentWithDetails, 0),
]
NEW = [
    (message_type, 0)
    for api in experimental.EXPERIMENTAL_APIS.values()
    for message_type in (api.request, api.response)
]
KEYS = {
    MemberMetadataWithClientAssignors: records.ConsumerGroupMemberMetadataKey,
    TargetAssignmentWithDetails: records.ConsumerGroupTargetAssignmentMemberKey,
    CurrentAssignmentWithDetails: records.ConsumerGroupCurrentMemberAssignmentKey,
}


@pytest.mark.parametrize(("message_type", "version"), EXTENDED + NEW)
@settings(max_examples=5)
@given(data=st.data())
def test_a_message_survives_the_wire(message_type: type[Message], version: int, data: st.DataObject):
    message = data.draw(values(message_type, version))
    encoded = encode(message, version)
    assert encoded == reference.encode(message, version)
    assert decode(message_type, version, encoded) == message
    assert reference.decode_whole(message_type, version, encoded, 0) == message


@pytest.mark.parametrize(("message_type", "version"), EXTENDED)
@settings(max_examples=5)
@given(data=st.data())
def test_who_does_not_know_the_additions_skips_them(message_type, version, data):
    message = data.draw(values(message_type, version))
    plain_type = message_type.__mro__[1]
    fields = {field.name: getattr(message, field.name) for field in plain_type.__schema__.fields}
    assert decode(plain_type, version, encode(message, version)) == plain_type(**fields)


@pytest.mark.parametrize(("message_type", "version"), EXTENDED)
def test_without_the_additions_the_bytes_are_those_of_kafka(message_type, version):
    plain = message_type.__mro__[1]()
    assert encode(message_type(**structs.asdict(plain)), version) == encode(plain, version)


@pytest.mark.parametrize("value_type", KEYS)
@settings(max_examples=5)
@given(data=st.data())
def test_a_record_survives_the_log_and_is_read_by_others(value_type, data):
    record = CoordinatorRecord(
        KEYS[value_type](group_id="g", member_id="m"), data.draw(values(value_type, 0))
    )
    codec = CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS
    key, value = codec.encode_key(record.key), codec.encode_value(record)
    assert codec.decode(key, value) == record
    assert CONSUMER_OFFSETS.encode_value(record) == value
    plain = CONSUMER_OFFSETS.decode(key, value)
    assert plain is not None
    assert type(plain.value) is value_type.__mro__[1]


def test_kafkas_numbers_know_nothing_of_them():
    assert not set(ExperimentalApiKey) & (ALL_APIS.keys() | FIRST_FLEXIBLE_VERSION.keys() | set(ApiKey))
    assert not set(ExperimentalErrorCode) & set(ErrorCode)
    assert min(ExperimentalApiKey) > 10_000


def fields(message_type: type[Message]) -> str:
    """The fields of a message in their order, with their kinds; those of a struct in it in parentheses."""
    return ", ".join(
        f"{field.name} {kind(field.kind)}{'?' if field.nullable.high >= 0 else ''}"
        for field in message_type.__schema__.fields
    )


KAFKAS_NAMES = {kinds.Text: "string", kinds.Binary: "bytes", kinds.Identifier: "uuid", kinds.Boolean: "bool"}


def kind(of: kinds.Kind) -> str:
    match of:
        case kinds.Array(element=element):
            return f"[{kind(element)}]"
        case kinds.Nested(message_type=message_type):
            return f"({fields(message_type)})"
        case kinds.Number(name=name):
            return name
        case _:
            return KAFKAS_NAMES[type(of)]


PARTITIONS = "[(topic_id uuid, partitions [int32])]"
DETAILS = "metadata_version int16, metadata_bytes bytes"


@pytest.mark.parametrize(
    ("message_type", "its_fields"),
    [
        (
            experimental.ConsumerGroupPrepareAssignmentRequest,
            "group_id string, member_id string, member_epoch int32",
        ),
        (
            experimental.ConsumerGroupPrepareAssignmentResponse,
            (
                "throttle_time_ms int32, error_code int16, error_message string?, group_epoch int32, "
                "assignor_name string, members [(member_id string, member_epoch int32, instance_id string?, "
                f"rack_id string?, subscribed_topic_ids [uuid], assignor (reason int8, {DETAILS}), "
                f"topic_partitions {PARTITIONS})], "
                "topics [(topic_id uuid, topic_name string, num_partitions int32)]"
            ),
        ),
        (
            experimental.ConsumerGroupInstallAssignmentRequest,
            (
                "group_id string, member_id string, member_epoch int32, group_epoch int32, error int8, "
                f"members [(member_id string, partitions {PARTITIONS}, "
                "metadata_version int32, metadata_bytes bytes)]"
            ),
        ),
        (
            experimental.ConsumerGroupInstallAssignmentResponse,
            "throttle_time_ms int32, error_code int16, error_message string?",
        ),
        (
            experimental.HeartbeatClientAssignor,
            f"name string, minimum_version int16, maximum_version int16, reason int8, {DETAILS}",
        ),
        (
            experimental.HeartbeatAssignmentDetails,
            f"error int8, pending_topic_partitions {PARTITIONS}, {DETAILS}",
        ),
        (
            experimental.MemberClientAssignor,
            "name string, minimum_version int16, maximum_version int16, reason int8, version int16, metadata bytes",
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_the_fields_are_those_of_the_kip(message_type: type[Message], its_fields: str):
    assert fields(message_type) == its_fields


@pytest.mark.parametrize(
    ("message_type", "added"),
    [
        (ClientAssignorsHeartbeatRequest, ["client_assignors"]),
        (ClientAssignorsHeartbeatResponse, ["should_compute_assignment", "assignment_details"]),
        (MemberMetadataWithClientAssignors, ["client_assignors"]),
        (TargetAssignmentWithDetails, ["error", "metadata_version", "metadata_bytes"]),
        (CurrentAssignmentWithDetails, ["error", "metadata_version", "metadata_bytes"]),
    ],
)
def test_the_fields_that_are_added_are_those_of_the_kip(message_type: type[Message], added: list[str]):
    kafkas = message_type.__mro__[1].__schema__.fields
    assert [field.name for field in message_type.__schema__.fields[len(kafkas) :]] == added
