"""One run of a move: under which ids the members join the new protocol, and when the broker computes its targets.

The members of a live group are converted in place (docs/explanation/translation.md): a helper joins and converts the
group, each member keeps its id and its partitions and votes for its assignor, and the helper leaves, at which the
broker computes the targets. A group that has to be empty to be converted starts without anything: its clients join one
after another, under new ids.

The broker computes targets at a heartbeat, and since Kafka 4.3 at most once per assignment interval
(``group.consumer.assignment.interval.ms``, KIP-1263); what changes in between is taken together.
"""

from collections.abc import Iterator, Mapping

import msgspec

from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.consumer_groups.targets import Targets
from coordinator.partitions import Partitions
from proxy.shadow.group import ClassicGroup

DEFAULT_ASSIGNOR = "uniform"
"""The first of Kafka's ``group.consumer.assignors``."""

HELPER = ConsumerGroupMember(member_id="helper")


class Join(msgspec.Struct, frozen=True, gc=False):
    """A client joins the new protocol. ``computes``: at its heartbeat the targets are computed."""

    client: int
    """Its index in the classic group."""
    member_id: str
    computes: bool


class Run(msgspec.Struct, frozen=True, gc=False):
    """The clients of a move in their order. ``assignor_moves_epoch``: the broker is 4.4 or newer (KAFKA-20434)."""

    joins: tuple[Join, ...]
    assignor_moves_epoch: bool


def in_place(group: ClassicGroup, *, assignor_moves_epoch: bool = False) -> Run:
    """The run of a group whose members keep their ids and partitions."""
    joins = (Join(number, one.member_id, computes=False) for number, one in enumerate(group.clients))
    return Run(tuple(joins), assignor_moves_epoch)


def play(group: ClassicGroup, run: Run) -> Iterator[Mapping[str, Partitions]]:
    """Yield the partitions of all members, by member id, after each change; the last are those of the moved group.

    Between two of them at most one assignment is computed: the caller may do other work. Raises AssignmentImpossible.
    """
    targets = Targets(group.image, DEFAULT_ASSIGNOR, assignor_moves_epoch=run.assignor_moves_epoch)
    if group.moves_at_once is None:
        for client in group.clients:
            targets.take_over(client.as_classic(), client.assigned)
        targets.heartbeat(HELPER, computes=False)
    for join in run.joins:
        member = group.clients[join.client].as_new(join.member_id, group.assignor)
        targets.heartbeat(member, computes=join.computes)
        yield targets.assigned
    if group.moves_at_once is None:
        targets.leave(HELPER.member_id)
    targets.compute()
    yield targets.assigned
