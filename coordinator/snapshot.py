"""The coordinator's state as plain values for comparison in tests, simulation and exploration."""

from hashlib import blake2b
from typing import Any

import msgspec

from coordinator.classic_groups.group import ClassicGroup
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.group_coordinator import GroupCoordinator
from coordinator.modern_group import ModernGroup
from coordinator.shard import Group
from coordinator.share_groups.group import ShareGroup, TopicStates

Plain = dict[str, Any]


def persistent(coordinator: GroupCoordinator) -> Plain:
    """Return the state that survives a restart: groups and offsets as the log has them."""
    shard = coordinator.shard
    return {
        "groups": {group_id: _group(shard.groups[group_id]) for group_id in sorted(shard.groups)},
        "offsets": sorted(shard.offsets.entries(), key=lambda entry: entry[:3]),
        "pending": {
            producer_id: sorted(store.entries(), key=lambda entry: entry[:3])
            for producer_id, store in sorted(shard.pending_offsets.items())
        },
    }


def complete(coordinator: GroupCoordinator) -> Plain:
    """Return everything that future behaviour depends on; times are relative to now."""
    shard = coordinator.shard
    return {
        **persistent(coordinator),
        "timers": [(at - shard.now_ms, type(timer).__name__, timer) for at, timer in shard.timers.snapshot()],
        "waiting": {
            group_id: _waiting(group)
            for group_id, group in sorted(shard.groups.items())
            if isinstance(group, ClassicGroup)
        },
        "assigned_ago": {
            group_id: shard.now_ms - group.assignment_timestamp_ms if group.assignment_timestamp_ms else None
            for group_id, group in sorted(shard.groups.items())
            if isinstance(group, ModernGroup)
        },
        "refresh": {
            group_id: (group.metadata_refresh_epoch, group.metadata_expired(shard.now_ms))
            for group_id, group in sorted(shard.groups.items())
            if isinstance(group, ModernGroup)
        },
        "initializing_ago": {
            group_id: shard.now_ms - group.partition_states.recorded_ms
            for group_id, group in sorted(shard.groups.items())
            if isinstance(group, ShareGroup)
            and group.partition_states
            and group.partition_states.initializing
        },
        "computations": {
            group_id: (group.computation, group.last_computing_member, group.expired_computing)
            for group_id, group in sorted(shard.groups.items())
            if isinstance(group, ConsumerGroup) and shard.config.experimental_client_assignors
        },
        "share_state": sorted(shard.share_state.partitions.items()),
        "topics": sorted(shard.image.topics.values(), key=lambda topic: topic.name),
    }


def fingerprint(coordinator: GroupCoordinator) -> bytes:
    """Return eight bytes that are the same for coordinators that will behave the same."""
    content = msgspec.msgpack.encode(_hashable(complete(coordinator)), order="sorted")
    return blake2b(content, digest_size=8).digest()


def _group(group: Group) -> Plain:
    match group:
        case ConsumerGroup():
            return _consumer_group(group)
        case ShareGroup():
            return _share_group(group)
        case _:
            return _classic_group(group)


def _consumer_group(group: ConsumerGroup) -> Plain:
    return {
        "type": "consumer",
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp_ms": group.assignment_timestamp_ms,
        "metadata_hash": group.metadata_hash,
        "members": {member_id: group.members[member_id] for member_id in sorted(group.members)},
        "static_members": dict(sorted(group.static_members.items())),
        "target": {m: _partitions(target) for m, target in sorted(group.target_assignment.items())},
        "target_details": dict(sorted(group.target_details.items())),
        "assigned_to": {t: dict(sorted(numbers.items())) for t, numbers in sorted(group.assigned_to.items())},
        "owners": {t: dict(sorted(numbers.items())) for t, numbers in sorted(group.owners.items())},
        "subscribed_topics": dict(sorted(group.subscribed_topics.items())),
        "regexes": dict(sorted(group.subscribed_regexes.items())),
        "resolved": dict(sorted(group.resolved_regexes.items())),
    }


def _share_group(group: ShareGroup) -> Plain:
    states = group.partition_states
    return {
        "type": "share",
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp_ms": group.assignment_timestamp_ms,
        "metadata_hash": group.metadata_hash,
        "members": {member_id: group.members[member_id] for member_id in sorted(group.members)},
        "target": {m: _partitions(target) for m, target in sorted(group.target_assignment.items())},
        "subscribed_topics": dict(sorted(group.subscribed_topics.items())),
        "initializing": None if states is None else _topic_states(states.initializing),
        "initialized": None if states is None else _topic_states(states.initialized),
        "deleting": None if states is None else sorted(states.deleting),
    }


def _topic_states(topics: TopicStates) -> list[tuple[bytes, str, list[int]]]:
    return sorted((topic_id, topic.name, sorted(topic.partitions)) for topic_id, topic in topics.items())


def _classic_group(group: ClassicGroup) -> Plain:
    return {
        "type": "classic",
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "members": {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.assignment,
            )
            for member in sorted(group.members.values(), key=lambda member: member.member_id)
        },
    }


def _waiting(group: ClassicGroup) -> Plain:
    """Return the state of a classic group that is not in the log."""
    return {
        "state": (group.state, group.previous_state),
        "pending_joins": sorted(group.pending_joins),
        "pending_syncs": sorted(group.pending_syncs),
        "new_member_added": group.new_member_added,
        "members": sorted(
            (m.member_id, m.awaiting_join is not None, m.awaiting_sync is not None, m.is_new, m.protocols)
            for m in group.members.values()
        ),
    }


def _partitions(partitions: Any) -> list[tuple[bytes, tuple[int, ...]]]:
    return sorted((topic_id, tuple(sorted(numbers))) for topic_id, numbers in partitions.items())


def _hashable(value: Any) -> Any:
    """Return the value in a canonical form that MessagePack can encode: maps become sorted lists of pairs."""
    if isinstance(value, dict):
        return sorted(((repr(key), _hashable(item)) for key, item in value.items()), key=lambda pair: pair[0])
    if isinstance(value, (list, tuple)):
        return [_hashable(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return _hashable(msgspec.structs.asdict(value))
    return value
