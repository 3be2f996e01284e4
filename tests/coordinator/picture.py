"""A consumer group's state in the way KIP-848's case studies write it down."""

from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.partitions import Partitions
from tests.coordinator.core_backend import CoreBackend
from tests.coordinator.script import Script

Picture = dict[str, object]


def picture(script: Script) -> Picture:
    """The group: ``{"group": epoch, "state": ..., "target": (epoch, {member: partitions}), "members": {...}}``.

    A member is (epoch, partitions, partitions it is to give up, partitions of its target that it waits for).
    """
    backend = script.backend
    assert isinstance(backend, CoreBackend)
    group = backend.coordinator.shard.groups[script.group_id]
    assert isinstance(group, ConsumerGroup)
    targets = {member_id: target for member_id, target in group.target_assignment.items() if target}
    return {
        "group": group.group_epoch,
        "state": group.state.value,
        "target": (
            group.assignment_epoch,
            {_name(script, member_id): _flat(target) for member_id, target in sorted(targets.items())},
        ),
        "members": {
            _name(script, member_id): _member(group, member)
            for member_id, member in sorted(group.members.items())
        },
    }


def _member(group: ConsumerGroup, member: ConsumerGroupMember) -> tuple[int, list[int], list[int], list[int]]:
    owned = _flat({topic: tuple(numbers) for topic, numbers in member.assigned.items()})
    revoked = _flat({topic: tuple(numbers) for topic, numbers in member.pending_revocation.items()})
    target = _flat(group.target_assignment.get(member.member_id, {}))
    reached = member.member_epoch == group.assignment_epoch
    return (
        member.member_epoch,
        owned,
        revoked,
        [number for number in target if reached and number not in owned],
    )


def _name(script: Script, member_id: str) -> str:
    return script.short(member_id).split("-")[0]


def _flat(partitions: Partitions) -> list[int]:
    """Partition numbers of the only topic."""
    return sorted(number for numbers in partitions.values() for number in numbers)
