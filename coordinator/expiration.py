"""Removes offsets of deleted topics, expired offsets, and empty groups without offsets."""

from collections.abc import Iterable

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.handlers.delete_groups import group_tombstones
from coordinator.image import TopicImage
from coordinator.offsets import NO_EXPIRY, CommittedOffset
from coordinator.shard import Group, Shard
from coordinator.share_groups.group import ShareGroup
from coordinator.timers import OffsetExpiration
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import ZERO_UUID


def delete_offsets_of(shard: Shard, topics: Iterable[TopicImage]) -> None:
    """Delete the offsets of deleted topics, but not those of a new topic with the same name."""
    deleted = {topic.name: topic.topic_id for topic in topics}
    stores = (shard.offsets, *shard.pending_offsets.values())
    change = [
        records.offset_commit_tombstone(group_id, topic, partition)
        for store in stores
        for group_id, topic, partition, offset in store.entries()
        if topic in deleted and offset.topic_id in {ZERO_UUID, deleted[topic]}
    ]
    shard.apply(change)


def expire(shard: Shard) -> None:
    """Delete expired offsets and empty groups without offsets, and schedule the next round."""
    change: list[CoordinatorRecord] = []
    for group in list(shard.groups.values()):
        if isinstance(group, ShareGroup):
            continue  # it has no offsets, and goes only when it is deleted
        expired, all_expired = _expired_offsets(shard, group)
        change += expired
        shard.activity.offset_expirations += len(expired)
        if all_expired and group.is_empty:
            change += group_tombstones(group)
    shard.apply(change)
    schedule(shard)


def schedule(shard: Shard) -> None:
    """Schedule the next round after the check interval."""
    shard.schedule(OffsetExpiration(""), shard.config.offsets_retention_check_interval_ms)


def _expired_offsets(shard: Shard, group: Group) -> tuple[list[CoordinatorRecord], bool]:
    """Return the tombstones of a group's expired offsets, and whether they are its last offsets."""
    group_id = group.group_id
    has_pending = any(group_id in store.groups() for store in shard.pending_offsets.values())
    tombstones = []
    left = 0
    for topic, partitions in shard.offsets.group(group_id).items():
        for partition, offset in partitions.items():
            pending = any(
                s.get(group_id, topic, partition) is not None for s in shard.pending_offsets.values()
            )
            if not group.is_subscribed_to(topic) and not pending and _is_expired(shard, group, offset):
                tombstones.append(records.offset_commit_tombstone(group_id, topic, partition))
            else:
                left += 1
    return tombstones, left == 0 and not has_pending


def _is_expired(shard: Shard, group: Group, offset: CommittedOffset) -> bool:
    """Whether the offset has expired, counted from its commit or from when a classic group became empty."""
    if offset.expire_timestamp_ms != NO_EXPIRY:
        return _may_expire(group) and shard.now_ms >= offset.expire_timestamp_ms
    since_ms = offset.commit_timestamp_ms
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and group.is_empty:
        since_ms = since_ms if group.state_timestamp_ms < 0 else group.state_timestamp_ms
    return _may_expire(group) and shard.now_ms - since_ms >= shard.config.offsets_retention_ms


def _may_expire(group: Group) -> bool:
    """Whether offsets of this group expire at all: not while a classic group rebalances."""
    if not isinstance(group, ClassicGroup) or group.protocol_type is None or group.is_empty:
        return True
    knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
    return knows_topics and group.state is ClassicGroupState.STABLE
