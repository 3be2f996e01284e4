"""Decodes the newest record of each key into rows, from Arrow batches to Arrow batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.readiness import commits
from pipeline.readiness.output import MEMBERS, OFFSETS
from pipeline.tables import BYTES, FLAG, INT, TEXT, TOPIC_PARTITIONS, Column, Table, list_of
from protocol_codecs import ZERO_UUID, MalformedMessage, Uuid, uuid_to_text
from protocol_codecs.messages.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    lacks_owned_partitions,
)
from protocol_codecs.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    CoordinatorRecord,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordType,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
    decode_record,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

Row = Sequence[Any]
OFFSET_TYPES = (0, int(RecordType.OFFSET_COMMIT))
CONSUMER_TYPES = tuple(
    int(number)
    for number in (
        RecordType.CONSUMER_GROUP_METADATA,
        RecordType.CONSUMER_GROUP_MEMBER_METADATA,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    )
)
SHARE_TYPES = tuple(
    int(number)
    for number in (
        RecordType.SHARE_GROUP_METADATA,
        RecordType.SHARE_GROUP_MEMBER_METADATA,
        RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
        RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    )
)
_STABLE_MEMBER = 0

MEMBER = pa.struct([pa.field(column.name, column.kind) for column in MEMBERS.columns[1:]])
CLASSIC = Table(
    "classic",
    "A classic group record.",
    (
        Column("group_id", TEXT, ""),
        Column("coordinator_partition", INT, ""),
        Column("protocol_type", TEXT, ""),
        Column("protocol", TEXT, ""),
        Column("epoch", INT, ""),
        Column("leader", TEXT, ""),
        Column("members", list_of(MEMBER), ""),
    ),
)
CONSUMER = Table(
    "consumer",
    "One record of a group of the new protocol, or of a share group: of the group (no member id), or of one member.",
    (
        Column("group_id", TEXT, ""),
        Column("coordinator_partition", INT, ""),
        Column("member_id", TEXT, ""),
        Column("epoch", INT, "type 3 or 11"),
        Column("assignment_epoch", INT, "type 6 or 12"),
        Column("declared", MEMBER, "type 5 or 10"),
        Column("assignor", TEXT, "type 5"),
        Column("target", TOPIC_PARTITIONS, "type 7 or 13"),
        Column("assignment", TOPIC_PARTITIONS, "type 8 or 14"),
        Column("member_epoch", INT, "type 8 or 14"),
        Column("stable", FLAG, "type 8 or 14"),
    ),
)


def offsets(newest: "DataFrame") -> "DataFrame":
    """Return the table of committed offsets."""
    kept = newest.where(_decodable(newest, OFFSET_TYPES)).select("partition", "key", "value")
    return kept.mapInArrow(_offset_batches, OFFSETS.ddl)


def _offset_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read commits by columns, and those that this cannot do by the codec."""
    for batch in batches:
        keys, values = batch["key"].cast(BYTES), batch["value"].cast(BYTES)
        proved = pa.array(commits.proved(keys, values))
        if proved.true_count:
            read = commits.columns(keys.filter(proved), values.filter(proved))
            yield pa.RecordBatch.from_arrays(read, schema=OFFSETS.arrow)
        rest = zip(*(part.filter(pc.invert(proved)).to_pylist() for part in (keys, values)), strict=True)
        if rows := [_offset_row(record) for key, value in rest if (record := decode_record(key, value))]:
            yield OFFSETS.batch(rows)


def classic(newest: "DataFrame") -> "DataFrame":
    """Return classic groups with their members."""
    return _decoded(newest, (int(RecordType.GROUP_METADATA),), CLASSIC, _classic_row)


def consumer(newest: "DataFrame", topic_names: Mapping[str, str]) -> "DataFrame":
    """Return the records of groups of the new protocol."""

    def row(record: CoordinatorRecord, partition: int) -> Row:
        return _consumer_row(record, partition, topic_names)

    return _decoded(newest, CONSUMER_TYPES, CONSUMER, row)


def share(newest: "DataFrame", topic_names: Mapping[str, str]) -> "DataFrame":
    """Return the records of share groups, in the columns of those of the new protocol."""

    def row(record: CoordinatorRecord, partition: int) -> Row:
        return _consumer_row(record, partition, topic_names)

    return _decoded(newest, SHARE_TYPES, CONSUMER, row)


def _decoded(
    newest: "DataFrame", types: Sequence[int], table: Table, row: Callable[[CoordinatorRecord, int], Row]
) -> "DataFrame":
    def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
            rows = []
            for key, value, partition in zip(keys, values, batch["partition"].to_pylist(), strict=True):
                record = decode_record(key, value)
                if record is not None:
                    rows.append(row(record, partition))
            yield table.batch(rows)

    kept = newest.where(_decodable(newest, types))
    return kept.select("partition", "key", "value").mapInArrow(decode_batches, table.ddl)


def _decodable(newest: "DataFrame", types: Sequence[int]) -> "SparkColumn":
    """Whether a record is of these types, and has a value that can be read."""
    return newest["type"].isin(*types) & newest["value"].isNotNull() & newest["reason"].isNull()


def _offset_row(record: CoordinatorRecord) -> Row:
    key, value = record.key, record.value
    if not isinstance(key, OffsetCommitKey) or not isinstance(value, OffsetCommitValue):
        raise TypeError(f"no offset: {record}")
    return (
        key.group,
        key.topic,
        _id(value.topic_id),
        key.partition,
        value.offset,
        None if value.leader_epoch < 0 else value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if value.expire_timestamp < 0 else value.expire_timestamp,
    )


def _classic_row(record: CoordinatorRecord, partition: int) -> Row:
    group, value = getattr(record.key, "group", ""), record.value
    if not isinstance(value, GroupMetadataValue):
        raise TypeError(f"no classic group: {record}")
    members = [_classic_member(member, value.protocol_type, value.protocol) for member in value.members]
    return group, partition, value.protocol_type, value.protocol, value.generation, value.leader, members


def _classic_member(member: GroupMetadataMember, protocol_type: str, protocol: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "classic",
        "rebalance_timeout_ms": None if member.rebalance_timeout < 0 else member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "assignors": [] if protocol is None else [protocol],
    }
    if protocol_type == "consumer":  # another type embeds what only its own clients can read
        found |= _embedded(member.subscription, member.assignment)
    return found


def _embedded(subscription: bytes, assignment: bytes) -> dict[str, Any]:
    """Return the content of a classic member's embedded messages."""
    found: dict[str, Any] = {"user_data_bytes": 0, "assignment_user_data_bytes": 0}
    try:
        version, subscribed = decode_subscription(subscription)
        found |= {"embedded_version": version, "subscription": list(subscribed.topics)}
        found["lacks_owned_partitions"] = lacks_owned_partitions(subscription)
        found |= {"rack": subscribed.rack_id, "user_data_bytes": len(subscribed.user_data or b"")}
        given = decode_assignment(assignment)[1] if assignment else None
    except MalformedMessage as error:
        return {**found, "problem": str(error)}
    if given is None:
        return {**found, "assignment": []}
    found["assignment"] = [
        {"topic": at.topic, "topic_id": None, "partitions": sorted(at.partitions)}
        for at in sorted(given.assigned_partitions, key=lambda at: at.topic)
        if at.partitions
    ]
    found["assignment_user_data_bytes"] = len(given.user_data or b"")
    found["user_data_bytes"] += found["assignment_user_data_bytes"]
    return found


def _consumer_row(record: CoordinatorRecord, partition: int, names: Mapping[str, str]) -> Row:
    found: dict[str, Any] = {
        "group_id": getattr(record.key, "group_id", ""),
        "coordinator_partition": partition,
        "member_id": getattr(record.key, "member_id", None),
    }
    match record.value:
        case ConsumerGroupMetadataValue() | ShareGroupMetadataValue() as value:
            found["epoch"] = value.epoch
        case (
            ConsumerGroupTargetAssignmentMetadataValue() | ShareGroupTargetAssignmentMetadataValue() as value
        ):
            found["assignment_epoch"] = value.assignment_epoch
        case ConsumerGroupMemberMetadataValue() as value:
            found["declared"] = _declared(found["member_id"], value)
            found["assignor"] = value.server_assignor
        case ShareGroupMemberMetadataValue() as value:
            found["declared"] = _declared_share(found["member_id"], value)
        case ConsumerGroupTargetAssignmentMemberValue() | ShareGroupTargetAssignmentMemberValue() as value:
            found["target"] = _named(value.topic_partitions, names)
        case ConsumerGroupCurrentMemberAssignmentValue() | ShareGroupCurrentMemberAssignmentValue() as value:
            found["assignment"] = _named(value.assigned_partitions, names)
            found["member_epoch"] = value.member_epoch
            found["stable"] = value.state == _STABLE_MEMBER
        case _:
            raise TypeError(f"of no consumer or share group: {record}")
    return [found.get(column) for column in CONSUMER.names]


def _declared(member_id: str | None, value: ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    found: dict[str, Any] = {
        "member_id": member_id,
        "instance_id": value.instance_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rack": value.rack_id,
        "protocol": "consumer",
        "rebalance_timeout_ms": None if value.rebalance_timeout_ms < 0 else value.rebalance_timeout_ms,
        "subscription": sorted(value.subscribed_topic_names),
        "topic_pattern": value.subscribed_topic_regex or None,
        "assignors": [] if value.server_assignor is None else [value.server_assignor],
        "user_data_bytes": 0,
        "assignment_user_data_bytes": 0,
    }
    classic_side = value.classic_member_metadata
    if classic_side is not None:
        found |= {"protocol": "classic", "session_timeout_ms": classic_side.session_timeout_ms}
        found["assignors"] = [protocol.name for protocol in classic_side.supported_protocols]
        for offered in classic_side.supported_protocols[:1]:
            embedded = _embedded(offered.metadata, b"")
            embedded.pop("assignment", None)
            found |= embedded
    return found


def _declared_share(member_id: str | None, value: ShareGroupMemberMetadataValue) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rack": value.rack_id,
        "protocol": "share",
        "subscription": sorted(value.subscribed_topic_names),
    }


def _named(given: Iterable[Any], names: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = [
        {
            "topic": names.get(uuid_to_text(at.topic_id)),
            "topic_id": uuid_to_text(at.topic_id),
            "partitions": sorted(at.partitions),
        }
        for at in given
        if at.partitions
    ]
    return sorted(rows, key=lambda row: (row["topic"] or "", row["topic_id"]))


def _id(topic_id: Uuid) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_to_text(topic_id)
