"""Checks an assignment that a member computed, and makes it the group's target.

It is checked against what its assignor was told, not against the group as it is: that may have gone on meanwhile. A
member that has left since then is left out; one that has come since then has no part yet, unless it took the place of
a static member.
"""

from coordinator import records
from coordinator.consumer_groups.client_side import computing
from coordinator.consumer_groups.client_side.computation import Prepared
from coordinator.consumer_groups.client_side.declarations import NO_DETAILS, AssignmentDetails
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.errors import CoordinatorError
from coordinator.partitions import Partitions, same_partitions
from coordinator.shard import Shard
from protocol_codecs.experimental import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentRequestMember,
)
from protocol_codecs.uuids import Uuid


class InvalidAssignment(CoordinatorError):
    """What a member computed is no assignment of the group that it was told of (INVALID_ASSIGNMENT)."""


Parts = dict[str, tuple[Partitions, AssignmentDetails]]
"""By member id: its partitions, and what the assignor says beside them."""


def checked(
    prepared: Prepared | None, request: ConsumerGroupInstallAssignmentRequest
) -> tuple[Prepared, Parts]:
    """Return what it was computed from, and each member's part. Raises InvalidAssignment.

    - It was computed for the epoch that this member was told of last.
    - Its members are those that it was told of, each at most once, and each with metadata that its assignor reads.
    - Every partition of every topic that somebody subscribes to is assigned once, to a subscriber. That it is a
      subscriber is no rule of the KIP: nobody else would ever consume it.

    An assignor that failed (``error``) may name no members at all; then all keep what they have, and hear of the error.
    """
    if prepared is None or request.group_epoch != prepared.group_epoch:
        raise InvalidAssignment(
            f"it is for group epoch {request.group_epoch}; what was asked for is "
            + ("nothing" if prepared is None else f"epoch {prepared.group_epoch}")
        )
    parts: Parts = {}
    assigned: set[tuple[Uuid, int]] = set()
    for member in request.members:
        if member.member_id in parts:
            raise InvalidAssignment(f"member {member.member_id!r} is named twice")
        parts[member.member_id] = (
            _part(prepared, member, assigned),
            AssignmentDetails(request.error, member.metadata_version, member.metadata_bytes),
        )
    total = sum(prepared.partition_counts.values())
    if len(assigned) < total and not _has_only_failed(request):
        raise InvalidAssignment(f"{total - len(assigned)} of {total} partitions are assigned to nobody")
    return prepared, parts


def install(
    shard: Shard,
    group: ConsumerGroup,
    prepared: Prepared,
    request: ConsumerGroupInstallAssignmentRequest,
    parts: Parts,
) -> None:
    """Make these parts the target of the epoch that they were computed for, in one change."""
    draft = Draft(shard, group)
    by_instance = {
        member.instance_id: member_id
        for member_id, member in prepared.members.items()
        if member.instance_id is not None
    }
    for member in group.members.values():
        if _has_only_failed(request):
            partitions = group.target_assignment.get(member.member_id, {})
            details = AssignmentDetails(error=request.error)
        else:
            partitions, details = parts.get(_told_as(prepared, by_instance, member), ({}, NO_DETAILS))
        _set_target(draft, member, partitions, details)
    draft.add(records.target_epoch(group.group_id, prepared.group_epoch, shard.now_ms))
    group.last_computing_member = request.member_id
    group.expired_computing = []
    computing.end(shard, group)
    shard.apply(draft.records)
    shard.activity.client_side_installs += 1
    computing.keep_up(shard, group.group_id)  # the group may be at a newer epoch already


def _has_only_failed(request: ConsumerGroupInstallAssignmentRequest) -> bool:
    return request.error != 0 and not request.members


def _told_as(prepared: Prepared, by_instance: dict[str, str], member: ConsumerGroupMember) -> str:
    """Return the id under which the assignor was told of this member, or of the static one that it replaced."""
    if member.member_id in prepared.members or member.instance_id is None:
        return member.member_id
    return by_instance.get(member.instance_id, member.member_id)


def _set_target(
    draft: Draft, member: ConsumerGroupMember, partitions: Partitions, details: AssignmentDetails
) -> None:
    group, member_id = draft.group, member.member_id
    before = group.target_assignment.get(member_id)
    if (
        before is None
        or not same_partitions(before, partitions)
        or group.target_details.get(member_id, NO_DETAILS) != details
    ):
        draft.add(records.target_assignment(group.group_id, member_id, partitions, details))


def _part(
    prepared: Prepared, member: ConsumerGroupInstallAssignmentRequestMember, assigned: set[tuple[Uuid, int]]
) -> Partitions:
    """Return the partitions of one member, and add them to those that are assigned."""
    told = prepared.members.get(member.member_id)
    if told is None:
        raise InvalidAssignment(f"{member.member_id!r} is no member of the group at that epoch")
    if not told.minimum_version <= member.metadata_version <= told.maximum_version:
        raise InvalidAssignment(
            f"metadata version {member.metadata_version} for {member.member_id!r}, which reads "
            f"{told.minimum_version} to {told.maximum_version}"
        )
    partitions: dict[Uuid, tuple[int, ...]] = {}
    for topic in member.partitions:
        count = prepared.partition_counts.get(topic.topic_id)
        if count is None:
            raise InvalidAssignment(f"nobody subscribes to topic {topic.topic_id.hex()}")
        if topic.topic_id not in told.subscribed_topic_ids:
            raise InvalidAssignment(
                f"{member.member_id!r} does not subscribe to topic {topic.topic_id.hex()}"
            )
        for number in topic.partitions:
            if not 0 <= number < count:
                raise InvalidAssignment(f"topic {topic.topic_id.hex()} has no partition {number}")
            if (topic.topic_id, number) in assigned:
                raise InvalidAssignment(
                    f"partition {number} of topic {topic.topic_id.hex()} is assigned twice"
                )
            assigned.add((topic.topic_id, number))
        partitions[topic.topic_id] = (*partitions.get(topic.topic_id, ()), *topic.partitions)
    return {topic_id: numbers for topic_id, numbers in partitions.items() if numbers}
