"""One run of a move: which member is told when, under which id it joins anew, and when the broker computes its targets.

Epochgate moves the members of a live group one after another (docs/explanation/translation.md). The first joins the new
protocol before its classic membership ends, so for a moment the group has one member more. Of the others the classic
membership ends first. A member with an instance id takes the place of its classic self. A group that has to be empty
to be converted starts anew without anything.

The broker computes targets at a heartbeat, and since Kafka 4.3 at most once per assignment interval
(``group.consumer.assignment.interval.ms``, KIP-1263); what changes in between is taken together.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coordinator.consumer_groups.targets import Targets
from coordinator.partitions import Partitions
from proxy.shadow.group import ClassicGroup
from translation.engine.member_ids import ISSUED_PREFIX

DEFAULT_ASSIGNOR = "uniform"
"""The first of Kafka's ``group.consumer.assignors``."""


class Join(msgspec.Struct, frozen=True, gc=False):
    """A client joins the new protocol. ``computes``: at its heartbeat the targets are computed."""

    client: int
    """Its index in the classic group."""
    member_id: str
    computes: bool


class Leave(msgspec.Struct, frozen=True, gc=False):
    """The classic membership of a client ends. ``computes``: somebody's heartbeat follows before the next change."""

    client: int
    computes: bool


Change = Join | Leave


class Run(msgspec.Struct, frozen=True, gc=False):
    """The changes of a move in their order. ``assignor_moves_epoch``: the broker is 4.4 or newer (KAFKA-20434)."""

    changes: tuple[Change, ...]
    assignor_moves_epoch: bool


class Step(msgspec.Struct, frozen=True, gc=False):
    """What follows from a change. The partitions of all members, by member id."""

    change: Change
    targets: Mapping[str, Partitions]


def run_of(
    group: ClassicGroup,
    order: Sequence[int],
    ids: Sequence[str],
    computes: Iterator[bool],
    *,
    assignor_moves_epoch: bool,
) -> Run:
    """The run in which the clients are told in this order. ``ids`` are those of their new memberships, without prefix.

    ``computes`` says for one change after the other whether the targets are computed.
    """
    changes: list[Change] = []
    is_first = True
    for client in order:
        member_id = ISSUED_PREFIX + ids[client]
        if group.moves_at_once is not None or group.clients[client].instance_id is not None:
            computed = next(computes)
            changes.append(Join(client, member_id, computes=is_first or computed))
        elif is_first:
            changes += (Join(client, member_id, computes=True), Leave(client, computes=next(computes)))
        else:
            changes += (Leave(client, computes=False), Join(client, member_id, computes=next(computes)))
        is_first = False
    return Run(tuple(changes), assignor_moves_epoch)


def play(group: ClassicGroup, run: Run) -> Iterator[Step]:
    """Yield what follows from one change after the other; the last one's targets are those of the moved group.

    Between two of them at most one assignment is computed: the caller may do other work. Raises AssignmentImpossible.
    """
    targets = Targets(group.image, DEFAULT_ASSIGNOR, assignor_moves_epoch=run.assignor_moves_epoch)
    if group.moves_at_once is None:
        for client in group.clients:
            targets.take_over(client.as_classic(), client.assigned)
    for change in run.changes:
        client = group.clients[change.client]
        if isinstance(change, Join):
            targets.heartbeat(client.as_new(change.member_id, group.assignor), computes=change.computes)
        else:
            targets.leave(client.member_id)
            if change.computes:
                targets.compute()
        yield Step(change, targets.assigned)
    if targets.is_due:
        targets.compute()
        yield Step(run.changes[-1], targets.assigned)
