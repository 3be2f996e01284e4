"""Applies records to the coordinator's state: the only way in which consumer groups, share groups and offsets change.

A running coordinator replays its own records as soon as it writes them, and a starting one replays its log, so both
reach the same state.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.member import ClassicMember
from coordinator.consumer_groups.client_side.declarations import (
    NO_DETAILS,
    AssignmentDetails,
    ClientAssignor,
)
from coordinator.consumer_groups.group import ConsumerGroup, ResolvedRegex
from coordinator.consumer_groups.member import LEAVE_EPOCH, ConsumerGroupMember, MemberState
from coordinator.errors import BrokenInvariant
from coordinator.offsets import CommittedOffset
from coordinator.partitions import EpochedPartitions
from coordinator.share_groups.group import PartitionStates, ShareGroup, TopicState, in_order
from coordinator.share_groups.member import ShareGroupMember
from protocol_codecs import experimental as x
from protocol_codecs import records as r
from protocol_codecs.all_messages import JoinGroupRequestProtocol
from protocol_codecs.message import Message
from protocol_codecs.record_batch import NO_PRODUCER_ID
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import Uuid

G = TypeVar("G", ConsumerGroup, ShareGroup)

if TYPE_CHECKING:
    from coordinator.shard import Shard

NO_ASSIGNMENT_EPOCH = -1
"""The assignment epoch of a group whose target assignment was deleted."""


def replay(shard: "Shard", record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID) -> None:
    """Apply one record. Raises BrokenInvariant if it contradicts earlier ones."""
    if isinstance(record.key, r.OffsetCommitKey):
        _offset_commit(shard, record.key, record.value, producer_id)
        return
    apply = _REPLAY.get(type(record.key))
    if apply is not None:  # else it is of a share group, which are not served yet
        apply(shard, record.key, record.value)


def end_transaction(shard: "Shard", producer_id: int, *, committed: bool) -> None:
    """Commit or discard the pending offsets of a producer."""
    pending = shard.pending_offsets.pop(producer_id, None)
    if pending is None or not committed:
        return
    for group_id, topic, partition, offset in pending.entries():
        current = shard.offsets.get(group_id, topic, partition)
        if current is None or offset.record_offset > current.record_offset:
            shard.offsets.put(group_id, topic, partition, offset)


def _existing(shard: "Shard", group_id: str, kind: type[G]) -> G | None:
    """Return the group of a tombstone; None if there is nothing to delete."""
    group = shard.groups.get(group_id)
    return group if isinstance(group, kind) else None


def _made(shard: "Shard", group_id: str, kind: type[G]) -> G:
    """Return the group of a record, created if necessary; a consumer group also in place of one that stores offsets."""
    group = shard.groups.get(group_id)
    if isinstance(group, kind):
        return group
    is_simple = isinstance(group, ClassicGroup) and group.is_simple and kind is ConsumerGroup
    if group is not None and not is_simple:
        raise BrokenInvariant(f"record of a {kind.__name__} {group_id!r}, which is a {type(group).__name__}")
    made = shard.groups[group_id] = kind(group_id)
    return made


# Records that consumer groups and share groups have, with the same fields


def _group_epoch(
    kind: type[G],
    shard: "Shard",
    key: r.ConsumerGroupMetadataKey | r.ShareGroupMetadataKey,
    value: r.ConsumerGroupMetadataValue | r.ShareGroupMetadataValue | None,
) -> None:
    if value is not None:
        group = _made(shard, key.group_id, kind)
        group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
        return
    existing = _existing(shard, key.group_id, kind)
    if existing is None:
        return
    if existing.members or existing.target_assignment or existing.assignment_epoch != NO_ASSIGNMENT_EPOCH:
        raise BrokenInvariant(f"tombstone of group {key.group_id!r}, which still has members or a target")
    del shard.groups[key.group_id]


def _target_epoch(
    kind: type[G],
    shard: "Shard",
    key: r.ConsumerGroupTargetAssignmentMetadataKey | r.ShareGroupTargetAssignmentMetadataKey,
    value: r.ConsumerGroupTargetAssignmentMetadataValue | r.ShareGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is not None:
        group = _made(shard, key.group_id, kind)
        group.assignment_epoch = value.assignment_epoch
        group.assignment_timestamp_ms = value.assignment_timestamp
        if isinstance(group, ConsumerGroup):
            group.computation = None  # what is being computed is older
        return
    existing = _existing(shard, key.group_id, kind)
    if existing is None:
        return
    if existing.target_assignment:
        raise BrokenInvariant(f"tombstone of the target of group {key.group_id!r}, which members still have")
    existing.assignment_epoch, existing.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0


def _target_assignment(
    kind: type[G],
    shard: "Shard",
    key: r.ConsumerGroupTargetAssignmentMemberKey | r.ShareGroupTargetAssignmentMemberKey,
    value: r.ConsumerGroupTargetAssignmentMemberValue | r.ShareGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is not None:
        target = {topic.topic_id: topic.partitions for topic in value.topic_partitions}
        made = _made(shard, key.group_id, kind)
        made.update_target(key.member_id, target)
        if isinstance(made, ConsumerGroup):
            made.update_target_details(key.member_id, _details(value))
        return
    group = _existing(shard, key.group_id, kind)
    if group is not None and key.member_id in group.target_assignment:
        group.remove_target(key.member_id)


def _remove_member(group: ConsumerGroup | ShareGroup | None, member_id: str) -> None:
    member = group.members.get(member_id) if group is not None else None
    if group is None or member is None:
        return
    if member.member_epoch != LEAVE_EPOCH or member_id in group.target_assignment:
        raise BrokenInvariant(f"tombstone of member {member_id!r}, which still has an assignment")
    group.remove_member(member_id)


# Records of consumer groups only


def _partition_metadata(
    shard: "Shard",
    key: r.ConsumerGroupPartitionMetadataKey,
    value: r.ConsumerGroupPartitionMetadataValue | None,
) -> None:
    group = (
        _existing(shard, key.group_id, ConsumerGroup)
        if value is None
        else _made(shard, key.group_id, ConsumerGroup)
    )
    if group is not None:
        group.has_partition_metadata_record = value is not None


def _member_subscription(
    shard: "Shard", key: r.ConsumerGroupMemberMetadataKey, value: r.ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        _remove_member(_existing(shard, key.group_id, ConsumerGroup), key.member_id)
        return
    group = _made(shard, key.group_id, ConsumerGroup)
    member = group.members.get(key.member_id) or ConsumerGroupMember(member_id=key.member_id)
    group.update_member(
        member.replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=tuple(sorted(set(value.subscribed_topic_names))),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
            client_assignors=_client_assignors(value),
        )
    )


def _current_assignment(
    shard: "Shard",
    key: r.ConsumerGroupCurrentMemberAssignmentKey,
    value: r.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is not None:
        group = _made(shard, key.group_id, ConsumerGroup)
        member = group.members.get(key.member_id) or ConsumerGroupMember(member_id=key.member_id)
        group.update_member(
            member.replace(
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=_epoched(value.assigned_partitions, value.member_epoch),
                pending_revocation=_epoched(value.partitions_pending_revocation, value.member_epoch),
                details=_details(value),
            )
        )
        return
    existing = _existing(shard, key.group_id, ConsumerGroup)
    left = existing.members.get(key.member_id) if existing is not None else None
    if existing is not None and left is not None:
        existing.update_member(
            left.replace(
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned={},
                pending_revocation={},
            )
        )


def _epoched(
    topics: tuple[r.ConsumerGroupCurrentMemberAssignmentTopicPartitions, ...], member_epoch: int
) -> EpochedPartitions:
    """Return the partitions with their epochs; records of Kafka before 4.3 have none and get the member's."""
    default = max(member_epoch, 0)
    result = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is not None and len(epochs) == len(topic.partitions):
            result[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
        else:
            result[topic.topic_id] = dict.fromkeys(topic.partitions, default)
    return result


def _client_assignors(value: r.ConsumerGroupMemberMetadataValue) -> tuple[ClientAssignor, ...]:
    if not isinstance(value, x.MemberMetadataWithClientAssignors):
        return ()
    return tuple(
        ClientAssignor(
            name=assignor.name,
            minimum_version=assignor.minimum_version,
            maximum_version=assignor.maximum_version,
            reason=assignor.reason,
            metadata_version=assignor.version,
            metadata=assignor.metadata,
        )
        for assignor in value.client_assignors
    )


def _details(value: Message) -> AssignmentDetails:
    if not isinstance(value, x.TargetAssignmentWithDetails | x.CurrentAssignmentWithDetails):
        return NO_DETAILS
    return AssignmentDetails(
        error=value.error, metadata_version=value.metadata_version, metadata=value.metadata_bytes
    )


def _resolved_regex(
    shard: "Shard",
    key: r.ConsumerGroupRegularExpressionKey,
    value: r.ConsumerGroupRegularExpressionValue | None,
) -> None:
    if value is not None:
        resolved = ResolvedRegex(tuple(sorted(set(value.topics))), value.version, value.timestamp)
        _made(shard, key.group_id, ConsumerGroup).update_resolved_regex(key.regular_expression, resolved)
        return
    group = _existing(shard, key.group_id, ConsumerGroup)
    if group is not None:
        group.remove_resolved_regex(key.regular_expression)


# Records of share groups only


def _share_member_subscription(
    shard: "Shard", key: r.ShareGroupMemberMetadataKey, value: r.ShareGroupMemberMetadataValue | None
) -> None:
    if value is None:
        _remove_member(_existing(shard, key.group_id, ShareGroup), key.member_id)
        return
    group = _made(shard, key.group_id, ShareGroup)
    member = group.members.get(key.member_id) or ShareGroupMember(member_id=key.member_id)
    group.update_member(
        member.replace(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=tuple(sorted(set(value.subscribed_topic_names))),
        )
    )


def _share_current_assignment(
    shard: "Shard",
    key: r.ShareGroupCurrentMemberAssignmentKey,
    value: r.ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is not None:
        group = _made(shard, key.group_id, ShareGroup)
        member = group.members.get(key.member_id) or ShareGroupMember(member_id=key.member_id)
        assigned = in_order({topic.topic_id: topic.partitions for topic in value.assigned_partitions})
        group.update_member(
            member.replace(
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                assigned=assigned,
            )
        )
        return
    existing = _existing(shard, key.group_id, ShareGroup)
    left = existing.members.get(key.member_id) if existing is not None else None
    if existing is not None and left is not None:
        existing.update_member(
            left.replace(member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned={})
        )


def _share_partition_states(
    shard: "Shard",
    key: r.ShareGroupStatePartitionMetadataKey,
    value: r.ShareGroupStatePartitionMetadataValue | None,
) -> None:
    if value is not None:
        group = _made(shard, key.group_id, ShareGroup)
        group.partition_states = PartitionStates(
            initializing=_topic_states(value.initializing_topics),
            initialized=_topic_states(value.initialized_topics),
            deleting=frozenset(topic.topic_id for topic in value.deleting_topics),
            recorded_ms=shard.now_ms,
        )
        return
    existing = _existing(shard, key.group_id, ShareGroup)
    if existing is not None:
        existing.partition_states = None


def _topic_states(topics: tuple[r.ShareGroupStateTopicPartitions, ...]) -> dict[Uuid, TopicState]:
    return {topic.topic_id: TopicState(topic.topic_name, frozenset(topic.partitions)) for topic in topics}


# Classic groups and offsets


def _classic_group(shard: "Shard", key: r.GroupMetadataKey, value: r.GroupMetadataValue | None) -> None:
    if value is None:
        shard.groups.pop(key.group, None)
        return
    state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
    group = ClassicGroup(key.group, state=state, now_ms=value.current_state_timestamp)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for member in value.members:
        rebalance_timeout_ms = member.rebalance_timeout
        group.add(
            ClassicMember(
                member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.session_timeout
                if rebalance_timeout_ms == -1
                else rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout,
                protocol_type=value.protocol_type,
                protocols=(
                    JoinGroupRequestProtocol(name=value.protocol or "", metadata=member.subscription),
                ),
                assignment=member.assignment,
            )
        )
    group.subscribed_topics = group.read_subscribed_topics()
    shard.groups[key.group] = group


def _offset_commit(shard: "Shard", key: r.OffsetCommitKey, value: object, producer_id: int) -> None:
    if not isinstance(value, r.OffsetCommitValue):
        shard.offsets.remove(key.group, key.topic, key.partition)
        for pending in shard.pending_offsets.values():
            pending.remove(key.group, key.topic, key.partition)
        return
    if key.group not in shard.groups:
        shard.groups[key.group] = ClassicGroup(key.group, now_ms=shard.now_ms)
    offset = CommittedOffset(
        offset=value.offset,
        commit_timestamp_ms=value.commit_timestamp,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
        record_offset=shard.next_record_offset,
    )
    store = shard.offsets
    if producer_id != NO_PRODUCER_ID:
        store = shard.pending_offsets.setdefault(producer_id, type(store)())
    store.put(key.group, key.topic, key.partition, offset)


_REPLAY: dict[type, Callable[["Shard", Any, Any], None]] = {
    r.GroupMetadataKey: _classic_group,
    r.ConsumerGroupMetadataKey: partial(_group_epoch, ConsumerGroup),
    r.ConsumerGroupPartitionMetadataKey: _partition_metadata,
    r.ConsumerGroupMemberMetadataKey: _member_subscription,
    r.ConsumerGroupTargetAssignmentMetadataKey: partial(_target_epoch, ConsumerGroup),
    r.ConsumerGroupTargetAssignmentMemberKey: partial(_target_assignment, ConsumerGroup),
    r.ConsumerGroupCurrentMemberAssignmentKey: _current_assignment,
    r.ConsumerGroupRegularExpressionKey: _resolved_regex,
    r.ShareGroupMetadataKey: partial(_group_epoch, ShareGroup),
    r.ShareGroupMemberMetadataKey: _share_member_subscription,
    r.ShareGroupTargetAssignmentMetadataKey: partial(_target_epoch, ShareGroup),
    r.ShareGroupTargetAssignmentMemberKey: partial(_target_assignment, ShareGroup),
    r.ShareGroupCurrentMemberAssignmentKey: _share_current_assignment,
    r.ShareGroupStatePartitionMetadataKey: _share_partition_states,
}
