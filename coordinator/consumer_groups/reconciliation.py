"""Moves a member towards its target assignment, one heartbeat at a time (KIP-848, "Reconciliation of the group").

Revocations come first: while the member may still own a partition outside its target, it keeps its epoch and gets
nothing new. Then it moves to the target's epoch and gets all partitions that nobody else has; for the rest it waits as
UNRELEASED_PARTITIONS and tries again with each heartbeat.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from coordinator.consumer_groups.client_side.declarations import NO_DETAILS, AssignmentDetails
from coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from coordinator.partitions import Partitions, TopicPartitionsMessage, intersects
from protocol_codecs.uuids import Uuid

Owners = Mapping[Uuid, Mapping[int, int]]
"""Of every partition that somebody has, the member epoch of its owner."""


class Target(msgspec.Struct, frozen=True):
    """The target of a member: the assignment epoch, its part of the assignment, and what comes with that."""

    epoch: int
    partitions: Partitions
    details: AssignmentDetails = NO_DETAILS


class Situation(msgspec.Struct, frozen=True):
    """The inputs of a member's next step, besides the member.

    ``subscribed_topic_ids`` are those topics of its subscription that exist; ``owned`` are the partitions that it
    reports as owned, None if it reports none.
    """

    target: Target
    owners: Owners
    subscribed_topic_ids: Collection[Uuid]
    subscribed_to_nothing: bool
    subscription_changed: bool
    owned: Sequence[TopicPartitionsMessage] | None


def reconcile(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    """Return the member after its next step; the same member if there is none."""
    match member.state:
        case MemberState.STABLE if member.member_epoch == situation.target.epoch:
            return _trimmed(member, situation) if situation.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if intersects(situation.owned, member.pending_revocation):
            return _trimmed(member, situation) if situation.subscription_changed else member
        case _:
            return _next_assignment(member, situation)


def _trimmed(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    """Return the member without topics that it no longer subscribes to; nothing is added."""
    subscribed = situation.subscribed_topic_ids
    dropped = {
        topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id not in subscribed
    }
    if not dropped:
        # Kafka forgets the previous epoch of a member that unsubscribes from everything while it owns nothing.
        forgets = situation.subscribed_to_nothing and not member.assigned and not member.pending_revocation
        return member.at_epoch(member.member_epoch) if forgets else member
    kept = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id in subscribed}
    pending = dict(member.pending_revocation)
    for topic_id, numbers in dropped.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **numbers}
    moved = member.at_epoch(member.member_epoch)
    if intersects(situation.owned, pending):
        return moved.replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=pending
        )
    return moved.replace(assigned=kept)


def _next_assignment(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    """Return the member with partitions to revoke, or else with those that it can get."""
    target = situation.target
    kept: dict[Uuid, dict[int, int]] = {}
    revoked: dict[Uuid, dict[int, int]] = {}
    added: dict[Uuid, list[int]] = {}
    unreleased = False
    for topic_id in dict.fromkeys((*target.partitions, *member.assigned)):
        in_target = target.partitions.get(topic_id, ()) if topic_id in situation.subscribed_topic_ids else ()
        wanted = frozenset(in_target)
        has = member.assigned.get(topic_id, {})
        keep = {number: epoch for number, epoch in has.items() if number in wanted}
        missing = [number for number in in_target if number not in keep]
        free = [number for number in missing if _is_free(member, situation, topic_id, number)]
        unreleased = unreleased or len(free) < len(missing)
        if keep:
            kept[topic_id] = keep
        if len(keep) < len(has):
            revoked[topic_id] = {number: epoch for number, epoch in has.items() if number not in keep}
        if free:
            added[topic_id] = free
    if revoked and intersects(situation.owned, revoked):
        return member.at_epoch(member.member_epoch).replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked
        )
    for topic_id, new in added.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(new, target.epoch)}
    return member.at_epoch(target.epoch).replace(
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        assigned=kept,
        pending_revocation={},
    )


def _is_free(member: ConsumerGroupMember, situation: Situation, topic_id: Uuid, partition: int) -> bool:
    """Whether no other member has the partition. One that the member itself is revoking counts as free for it."""
    owner_epoch = situation.owners.get(topic_id, {}).get(partition)
    return owner_epoch is None or partition in member.pending_revocation.get(topic_id, {})
