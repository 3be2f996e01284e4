"""Removes members from a consumer group; if only classic members are left, converts it to a classic group."""

from collections.abc import Sequence

from coordinator import records
from coordinator.consumer_groups.conversion import downgrade, may_downgrade
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import STATIC_LEAVE_EPOCH, ConsumerGroupMember
from coordinator.consumer_groups.member_timers import cancel_timers
from coordinator.image import metadata_hash
from coordinator.modern_group import counts_after, with_regex_topics
from coordinator.shard import Shard


def fence(shard: Shard, group: ConsumerGroup, members: Sequence[ConsumerGroupMember]) -> None:
    """Remove these members and bump the group epoch, or convert the group."""
    if not members:
        return
    if may_downgrade(shard, group, members):
        downgrade(shard, group, leaving=members)
        return
    draft = Draft(shard, group)
    for member in members:
        draft.records += [
            records.current_assignment_tombstone(group.group_id, member.member_id),
            records.target_assignment_tombstone(group.group_id, member.member_id),
            records.member_subscription_tombstone(group.group_id, member.member_id),
        ]
    topics = group.subscribed_topics
    for member in members:
        topics = counts_after(topics, member, None)
    for regex in _unsubscribed_regexes(group, members):
        draft.add(records.resolved_regex_tombstone(group.group_id, regex))
        if regex in group.resolved_regexes:
            topics = with_regex_topics(topics, group.resolved_regexes[regex].topics, -1)
    new_hash = metadata_hash(topics, shard.image)
    epoch = group.group_epoch + 1
    draft.add(records.group_epoch(group.group_id, epoch, new_hash))
    if len(members) == len(group.members):
        # Nobody is left to wait for an assignment (KAFKA-20442, since Kafka 4.4). A time of 0 lets the next member
        # have its assignment at once.
        draft.add(records.target_epoch(group.group_id, epoch, 0))
    for member in members:
        cancel_timers(shard, group.group_id, member.member_id)
    shard.apply(draft.records)


def expire(shard: Shard, group_id: str, member_id: str, *, only_at_epoch: int | None = None) -> None:
    """Remove a member whose timeout has passed, if it still exists (and still has that epoch)."""
    group = shard.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if not isinstance(group, ConsumerGroup) or member is None:
        return
    if only_at_epoch is None or member.member_epoch == only_at_epoch:
        fence(shard, group, [member])


def leave_temporarily(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Keep a static member's place and partitions until it returns or its session expires (epoch -2)."""
    left = member.replace(
        member_epoch=STATIC_LEAVE_EPOCH,
        pending_revocation={},
        assigned={topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned.items()},
    )
    shard.apply([records.current_assignment(group.group_id, left)])


def _unsubscribed_regexes(group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember]) -> list[str]:
    """Return the regular expressions that only these members subscribe by."""
    counts: dict[str, int] = {}
    for member in leaving:
        if member.regex is not None:
            counts[member.regex] = counts.get(member.regex, 0) + 1
    return [regex for regex, count in counts.items() if group.subscribed_regexes.get(regex, 0) == count]
