"""Records of share groups and of their state in the bytes that Kafka 4.4.0's own classes write."""

import pytest

from protocol_codecs import MalformedMessage, reference
from protocol_codecs.records import (
    CoordinatorRecord,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentTopicPartitions,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupStateTopic,
    ShareGroupStateTopicPartitions,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentTopicPartition,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
    decode_record,
    decode_share_state_record,
    encode_key,
    encode_share_state_key,
    encode_share_state_value,
    encode_value,
)
from protocol_codecs.uuids import Uuid

TOPIC = Uuid(bytes(range(1, 17)))
T = TOPIC.hex()

GROUP_RECORDS = {
    "member": (
        CoordinatorRecord(
            ShareGroupMemberMetadataKey(group_id="g", member_id="m"),
            ShareGroupMemberMetadataValue(
                rack_id=None, client_id="c", client_host="/h", subscribed_topic_names=("a", "b")
            ),
        ),
        "000a00016700016d",
        "0000 00 0263 032f68 03 0261 0262 00",
    ),
    "member in a rack": (
        CoordinatorRecord(
            ShareGroupMemberMetadataKey(group_id="g", member_id="m"),
            ShareGroupMemberMetadataValue(rack_id="r", client_id="c", client_host="/h"),
        ),
        "000a00016700016d",
        "0000 0272 0263 032f68 01 00",
    ),
    "group epoch": (
        CoordinatorRecord(
            ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=3, metadata_hash=-2)
        ),
        "000b000167",
        "0000 00000003 fffffffffffffffe 00",
    ),
    "assignment epoch": (
        CoordinatorRecord(
            ShareGroupTargetAssignmentMetadataKey(group_id="g"),
            ShareGroupTargetAssignmentMetadataValue(assignment_epoch=3, assignment_timestamp=5),
        ),
        "000c000167",
        "0000 00000003 01 00 08 0000000000000005",
    ),
    "assignment epoch without a time": (
        CoordinatorRecord(
            ShareGroupTargetAssignmentMetadataKey(group_id="g"),
            ShareGroupTargetAssignmentMetadataValue(assignment_epoch=3),
        ),
        "000c000167",
        "0000 00000003 00",
    ),
    "target": (
        CoordinatorRecord(
            ShareGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
            ShareGroupTargetAssignmentMemberValue(
                topic_partitions=(
                    ShareGroupTargetAssignmentTopicPartition(topic_id=TOPIC, partitions=(0, 2)),
                )
            ),
        ),
        "000d00016700016d",
        f"0000 02 {T} 03 00000000 00000002 00 00",
    ),
    "current assignment": (
        CoordinatorRecord(
            ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            ShareGroupCurrentMemberAssignmentValue(
                member_epoch=4,
                previous_member_epoch=3,
                state=0,
                assigned_partitions=(
                    ShareGroupCurrentMemberAssignmentTopicPartitions(topic_id=TOPIC, partitions=(1,)),
                ),
            ),
        ),
        "000e00016700016d",
        f"0000 00000004 00000003 00 02 {T} 02 00000001 00 00",
    ),
    "partitions with state": (
        CoordinatorRecord(
            ShareGroupStatePartitionMetadataKey(group_id="g"),
            ShareGroupStatePartitionMetadataValue(
                initializing_topics=(
                    ShareGroupStateTopicPartitions(topic_id=TOPIC, topic_name="a", partitions=(1,)),
                ),
                initialized_topics=(
                    ShareGroupStateTopicPartitions(topic_id=TOPIC, topic_name="a", partitions=(0,)),
                ),
                deleting_topics=(ShareGroupStateTopic(topic_id=TOPIC, topic_name="b"),),
            ),
        ),
        "000f000167",
        f"0000 02 {T} 0261 02 00000001 00 02 {T} 0261 02 00000000 00 02 {T} 0262 00 00",
    ),
}
STATE_RECORDS = {
    "snapshot": (
        CoordinatorRecord(
            ShareSnapshotKey(group_id="g", topic_id=TOPIC, partition=7),
            ShareSnapshotValue(
                snapshot_epoch=1,
                state_epoch=2,
                leader_epoch=3,
                start_offset=4,
                delivery_complete_count=5,
                create_timestamp=6,
                write_timestamp=7,
                state_batches=(
                    ShareStateBatch(first_offset=8, last_offset=9, delivery_state=2, delivery_count=1),
                ),
            ),
        ),
        f"0000 000167 {T} 00000007",
        (
            "0000 00000001 00000002 00000003 0000000000000004 0000000000000006 0000000000000007"
            " 02 0000000000000008 0000000000000009 02 0001 00 01 00 04 00000005"
        ),
    ),
    "update": (
        CoordinatorRecord(
            ShareUpdateKey(group_id="g", topic_id=TOPIC, partition=7),
            ShareUpdateValue(
                snapshot_epoch=1,
                leader_epoch=3,
                start_offset=-1,
                state_batches=(
                    ShareStateBatch(first_offset=8, last_offset=9, delivery_state=4, delivery_count=5),
                ),
            ),
        ),
        f"0001 000167 {T} 00000007",
        "0000 00000001 00000003 ffffffffffffffff 02 0000000000000008 0000000000000009 04 0005 00 00",
    ),
}


@pytest.mark.parametrize("name", GROUP_RECORDS)
def test_a_record_of_a_share_group(name: str):
    record, key_text, value_text = GROUP_RECORDS[name]
    key, value = bytes.fromhex(key_text), bytes.fromhex(value_text)

    assert decode_record(key, value) == record
    assert decode_record(key, None) == CoordinatorRecord(record.key)
    assert encode_key(record.key).hex() == key.hex()
    assert (encode_value(record) or b"").hex() == value.hex()
    assert record.value is not None
    assert reference.encode(record.value, 0) == value[2:]


@pytest.mark.parametrize("name", STATE_RECORDS)
def test_a_record_of_a_share_partition_s_state(name: str):
    record, key_text, value_text = STATE_RECORDS[name]
    key, value = bytes.fromhex(key_text), bytes.fromhex(value_text)

    assert decode_share_state_record(key, value) == record
    assert decode_share_state_record(key, None) == CoordinatorRecord(record.key)
    assert encode_share_state_key(record.key).hex() == key.hex()
    assert (encode_share_state_value(record) or b"").hex() == value.hex()
    assert encode_share_state_value(CoordinatorRecord(record.key)) is None
    assert record.value is not None
    assert reference.encode(record.value, 0) == value[2:]


def test_the_topics_have_types_of_their_own():
    snapshot, _, _ = STATE_RECORDS["snapshot"]

    assert decode_share_state_record(bytes.fromhex("000a00016700016d"), None) is None
    with pytest.raises(KeyError):
        encode_key(snapshot.key)


@pytest.mark.parametrize("key", [b"", b"\0"])
def test_a_key_without_a_type_is_malformed(key: bytes):
    with pytest.raises(MalformedMessage):
        decode_share_state_record(key, None)
