"""Detects changes that require a new assignment (subscriptions, topics) and bumps the group epoch for them."""

import msgspec

from coordinator import records
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.image import metadata_hash
from coordinator.modern_group import (
    METADATA_REFRESH_INTERVAL_MS,
    are_homogeneous,
    counts_after,
    with_regex_topics,
)


class GroupVersion(msgspec.Struct, frozen=True):
    """The group epoch after this heartbeat, and whether all subscriptions are the same."""

    epoch: int
    is_homogeneous: bool


def record_subscription(draft: Draft, old: ConsumerGroupMember, new: ConsumerGroupMember) -> bool:
    """Record the member's declarations if they changed; return whether its topics by name have changed."""
    if new == old:
        return False
    draft.add(records.member_subscription(draft.group_id, new))
    return new.subscribed_topic_names != old.subscribed_topic_names


def current_version(draft: Draft) -> GroupVersion:
    """Return the group epoch, unchanged."""
    return GroupVersion(draft.group.group_epoch, draft.group.is_homogeneous)


def version_after(
    draft: Draft, old: ConsumerGroupMember, new: ConsumerGroupMember, *, bump: bool
) -> GroupVersion:
    """Return the group epoch after ``new`` replaced ``old``: one more if ``bump``, or if its topics have changed."""
    group, shard = draft.group, draft.shard
    regexes = dict(group.subscribed_regexes)
    topics = counts_after(group.subscribed_topics, old, new)
    if old.regex != new.regex:
        if old.regex is not None:
            if regexes.get(old.regex, 0) == 1 and old.regex in group.resolved_regexes:
                topics = with_regex_topics(topics, group.resolved_regexes[old.regex].topics, -1)
            _step(regexes, old.regex, -1)
        if new.regex is not None:
            _step(regexes, new.regex, +1)
    new_hash = metadata_hash(topics, shard.image)
    is_new = new.member_id not in group.members and new.instance_id not in group.static_members
    epoch = group.group_epoch
    if bump or new_hash != group.metadata_hash:
        epoch += 1
        draft.add(records.group_epoch(group.group_id, epoch, new_hash))
        shard.activity.consumer_group_rebalances += 1
    group.metadata_refresh_deadline_ms = shard.now_ms + METADATA_REFRESH_INTERVAL_MS
    group.metadata_refresh_epoch = epoch
    if group.has_partition_metadata_record:
        draft.add(records.partition_metadata_tombstone(group.group_id))
    return GroupVersion(epoch, are_homogeneous(regexes, topics, len(group.members) + is_new))


def _step(counts: dict[str, int], key: str, step: int) -> None:
    counts[key] = counts.get(key, 0) + step
    if counts[key] <= 0:
        del counts[key]
