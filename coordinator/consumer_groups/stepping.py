"""Takes a member's next step towards its target, with the record and the timer that belong to it."""

from collections.abc import Sequence

from coordinator import records
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from coordinator.consumer_groups.reconciliation import Situation, Target, reconcile
from coordinator.partitions import TopicPartitionsMessage
from coordinator.timers import RebalanceTimeout


def step(
    draft: Draft,
    member: ConsumerGroupMember,
    target: Target,
    *,
    subscription_changed: bool,
    owned: Sequence[TopicPartitionsMessage] | None,
) -> ConsumerGroupMember:
    """Return the member after its next step; the same member if there is none."""
    if not subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    situation = Situation(
        target=target,
        owners=draft.group.owners,
        subscribed_topic_ids=draft.subscribed_topic_ids(member),
        subscribed_to_nothing=not draft.subscribed_topic_names(member),
        subscription_changed=subscription_changed,
        owned=owned,
    )
    moved = reconcile(member, situation)
    if (
        moved.member_epoch == target.epoch
    ):  # what an assignor says is final for an epoch, as the partitions are
        moved = moved.replace(details=target.details)
    if moved == member:
        return member
    draft.add(records.current_assignment(draft.group_id, moved))
    if not moved.uses_classic_protocol:  # those have timers for joining and syncing instead
        timer = RebalanceTimeout(draft.group_id, moved.member_id, member_epoch=moved.member_epoch)
        if moved.state is MemberState.UNREVOKED_PARTITIONS:
            draft.shard.schedule(timer, moved.rebalance_timeout_ms)
        else:
            draft.shard.timers.cancel(timer)
    return moved
