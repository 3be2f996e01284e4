"""Computes the target assignment when the group epoch is ahead of it, at most once per assignment interval.

The interval (KIP-1263) lets many members join before partitions are assigned: until it has passed, heartbeats use the
old target.
"""

from coordinator import records
from coordinator.assignors import ASSIGNORS
from coordinator.consumer_groups.client_side.choice import chosen_assignor, members_after
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.group_spec import group_spec, target_before
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.consumer_groups.reconciliation import Target
from coordinator.consumer_groups.subscription import GroupVersion
from coordinator.partitions import same_partitions


def target_for(
    draft: Draft, version: GroupVersion, old: ConsumerGroupMember, new: ConsumerGroupMember
) -> Target:
    """Return the member's target, computed anew if it is due."""
    group = draft.group
    if group.assignment_epoch >= version.epoch or _is_for_members(draft, new) or not _is_time(draft):
        return Target(group.assignment_epoch, group.target_of(new), group.details_of(new))
    assignor = group.preferred_assignor(old, new) or _default_assignor(draft)
    spec = group_spec(
        group,
        draft.shard.image,
        new,
        draft.subscribed_topic_names,
        is_homogeneous=version.is_homogeneous,
    )
    assignment = ASSIGNORS[assignor](spec)
    for member_id in spec.members:
        is_new = member_id == new.member_id
        before = target_before(group, new) if is_new else group.target_assignment.get(member_id)
        after = assignment.get(member_id, {})
        if before is None or not same_partitions(before, after) or member_id in group.target_details:
            draft.add(records.target_assignment(group.group_id, member_id, after))
    draft.add(records.target_epoch(group.group_id, version.epoch, draft.shard.now_ms))
    return Target(version.epoch, assignment.get(new.member_id, {}))


def assignor_changes(draft: Draft, old: ConsumerGroupMember, new: ConsumerGroupMember) -> bool:
    """Whether replacing ``old`` by ``new`` changes the group's assignor in a way that bumps the epoch.

    Kafka compares two tables of votes, and a tie resolves differently in them: with one vote for ``range`` and one for
    ``uniform``, each heartbeat of the member that votes for ``range`` counts as a change.
    """
    if not draft.shard.config.consumer_assignor_moves_epoch:
        return False
    default = _default_assignor(draft)
    now = draft.group.described_assignor() or default
    return (draft.group.preferred_assignor(old, new) or default) != now


def _is_for_members(draft: Draft, new: ConsumerGroupMember) -> bool:
    """Whether a member of the group computes the assignment (:mod:`~coordinator.consumer_groups.client_side`)."""
    if not draft.shard.config.experimental_client_assignors:
        return False
    return chosen_assignor(members_after(draft.group, new)) is not None


def _default_assignor(draft: Draft) -> str:
    return draft.shard.config.consumer_assignors[0]


def _is_time(draft: Draft) -> bool:
    interval_ms = draft.shard.assignment_interval_ms(draft.group_id)
    computed_ms = draft.group.assignment_timestamp_ms
    return computed_ms == 0 or interval_ms == 0 or draft.shard.now_ms >= computed_ms + interval_ms
