"""One run of a move: which member moves when, under which id it joins anew, and when the broker computes its targets.

Epochgate moves the members of a live group one after another (docs/explanation/translation.md). The first joins the new
protocol before its classic membership ends, so for a moment the group has one member more; with an instance id it takes
the place of its classic self. Of the others the classic membership ends first. From then on the broker asks classic
members to rejoin at each new target: one that owns nothing when it does so (any eager client) is moved there, under the
id that it has; the others are moved when they are told, under new ids. A group that has to be empty to be converted
starts anew without anything.

The broker computes targets at a heartbeat, and since Kafka 4.3 at most once per assignment interval
(``group.consumer.assignment.interval.ms``, KIP-1263); what changes in between is taken together.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coordinator.consumer_groups.targets import Targets
from coordinator.partitions import Partitions
from proxy.shadow.group import ClassicGroup

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
    """The changes of a move in their order. ``assignor_moves_epoch``: the broker is 4.4 or newer (KAFKA-20434).

    ``took_s`` is when the last client has moved, in seconds after the first was told.
    """

    changes: tuple[Change, ...]
    assignor_moves_epoch: bool
    took_s: float = 0.0


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A client's turn to move. ``computes``: the targets are computed before the next turn.

    Without ``member_id`` it keeps the id that it has.
    """

    client: int
    member_id: str | None
    computes: bool


class Step(msgspec.Struct, frozen=True, gc=False):
    """What follows from a change. The partitions of all members, by member id."""

    change: Change
    targets: Mapping[str, Partitions]


def run_of(
    group: ClassicGroup, turns: Sequence[Turn], *, assignor_moves_epoch: bool, took_s: float = 0.0
) -> Run:
    """The run in which the clients move in these turns."""
    changes: list[Change] = []
    for turn in turns:
        client = group.clients[turn.client]
        member_id = client.member_id if turn.member_id is None else turn.member_id
        if group.moves_at_once is not None:
            changes.append(Join(turn.client, member_id, computes=not changes or turn.computes))
        elif not changes:
            changes.append(Join(turn.client, member_id, computes=True))
            if client.instance_id is None:
                changes.append(Leave(turn.client, computes=turn.computes))
        else:
            changes += (
                Leave(turn.client, computes=False),
                Join(turn.client, member_id, computes=turn.computes),
            )
    return Run(tuple(changes), assignor_moves_epoch, took_s)


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
