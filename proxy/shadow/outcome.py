"""What one run of a move comes to, compared with what the clients have today."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coordinator.partitions import Partitions
from protocol_codecs.uuids import Uuid
from proxy.shadow.group import ClassicGroup
from proxy.shadow.run import Run, play

_Assigned = set[tuple[Uuid, int]]


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The end of one run. Clients are in the order of the classic group."""

    counts: tuple[int, ...]
    """Partitions of each client."""
    moved: int
    """Partitions that a client has today and another one, or nobody, has afterwards."""
    rack_local: int
    """Partitions with a replica in the rack of the client that has them."""
    racks_lost: int
    """Partitions that have one today and have none afterwards."""

    @property
    def empty(self) -> int:
        """Clients without partitions."""
        return sum(not count for count in self.counts)


def today(group: ClassicGroup) -> Outcome:
    """What the clients have now, in the same terms."""
    local = _local(group, [client.assigned for client in group.clients])
    counts = tuple(sum(map(len, client.assigned.values())) for client in group.clients)
    return Outcome(counts, moved=0, rack_local=len(local), racks_lost=0)


def outcome_of(group: ClassicGroup, run: Run) -> Iterator[Outcome | None]:
    """Play a run; yield None after each change, and the outcome at last. Raises AssignmentImpossible."""
    after: Mapping[str, Partitions] = {}
    for step in play(group, run):
        after = step
        yield None
    ids = {join.client: join.member_id for join in run.joins}
    yield compared(group, [after.get(ids[number], {}) for number in range(len(group.clients))])


def compared(group: ClassicGroup, assigned: Sequence[Partitions]) -> Outcome:
    """What it comes to if the clients have these partitions, in their order."""
    moved = sum(
        len(_pairs(client.assigned) - _pairs(mine))
        for client, mine in zip(group.clients, assigned, strict=True)
    )
    then = _local(group, assigned)
    return Outcome(
        counts=tuple(sum(map(len, mine.values())) for mine in assigned),
        moved=moved,
        rack_local=len(then),
        racks_lost=len(_local(group, [client.assigned for client in group.clients]) - then),
    )


def _pairs(assigned: Partitions) -> _Assigned:
    return {(topic_id, number) for topic_id, numbers in assigned.items() for number in numbers}


def _local(group: ClassicGroup, assigned: Sequence[Partitions]) -> _Assigned:
    """The partitions with a replica in the rack of the client that has them."""
    found: _Assigned = set()
    for client, mine in zip(group.clients, assigned, strict=True):
        if client.rack is not None:
            found.update(pair for pair in _pairs(mine) if client.rack in _racks(group, pair))
    return found


def _racks(group: ClassicGroup, pair: tuple[Uuid, int]) -> tuple[str, ...]:
    topic = group.image.by_id(pair[0])
    return topic.racks[pair[1]] if topic is not None and pair[1] < len(topic.racks) else ()
