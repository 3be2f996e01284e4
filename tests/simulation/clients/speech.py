"""Builds and reads the messages of a classic client."""

from collections.abc import Iterable, Mapping

from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol_codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.simulation.clients.habits import Habits
from tests.simulation.wire import GROUP

Named = tuple[str, int]
"""A partition as a classic client knows it: topic name and index."""


def by_topic(partitions: Iterable[Named]) -> dict[str, tuple[int, ...]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in topics.items()}


def _topic_partitions(partitions: Iterable[Named]) -> tuple[ConsumerProtocolTopicPartition, ...]:
    return tuple(
        ConsumerProtocolTopicPartition(topic=topic, partitions=indexes)
        for topic, indexes in by_topic(partitions).items()
    )


def join_request(
    habits: Habits,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
    topics: Iterable[str],
    claims: Iterable[Named],
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
) -> JoinGroupRequest:
    metadata = encode_subscription(
        ConsumerProtocolSubscription(
            topics=tuple(sorted(topics)),
            owned_partitions=_topic_partitions(claims),
            generation_id=generation,
        ),
        habits.embedded_version,
    )
    if habits.truncates:
        metadata = b"\x00\x01" + metadata[2:]
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms if habits.join_version > 0 else -1,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in habits.protocols),
    )


def read_assignment(assignment: bytes) -> frozenset[Named]:
    """Return the partitions in a SyncGroup answer."""
    _, message = decode_assignment(assignment)
    return frozenset(
        (topic.topic, index) for topic in message.assigned_partitions for index in topic.partitions
    )


def write_assignment(partitions: Iterable[Named]) -> bytes:
    """Encode one member's assignment, as the leader of a classic group sends it."""
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=_topic_partitions(partitions)), 1)


def commit_request(
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
    offsets: Mapping[Named, int],
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[topic, index]
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in by_topic(offsets).items()
        ),
    )


def leave_request(habits: Habits, *, member_id: str, instance_id: str | None) -> LeaveGroupRequest:
    if habits.leave_version < 3:
        return LeaveGroupRequest(group_id=GROUP, member_id=member_id)
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    return LeaveGroupRequest(group_id=GROUP, members=(identity,))
