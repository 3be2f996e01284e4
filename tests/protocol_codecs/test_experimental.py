"""The messages of client-side assignors: they survive the wire, and whoever does not know them skips what they add."""

import pytest
from codec_values import values
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from protocol_codecs import ApiKey, ErrorCode, decode, encode, experimental, reference
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
