"""What one run of a move comes to, compared with what the clients have today."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coordinator.partitions import Partitions
from protocol_codecs.uuids import Uuid
from proxy.shadow.group import ClassicGroup
from proxy.shadow.run import Join, Run, play

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
    waits: int
    """Clients that found, when they joined, only partitions that others had still to give up."""

    @property
    def empty(self) -> int:
        """Clients without partitions."""
        return sum(not count for count in self.counts)


def today(group: ClassicGroup) -> Outcome:
    """What the clients have now, in the same terms."""
    local = _local(group, [client.assigned for client in group.clients])
    counts = tuple(sum(map(len, client.assigned.values())) for client in group.clients)
    return Outcome(counts, moved=0, rack_local=len(local), racks_lost=0, waits=0)


def outcome_of(group: ClassicGroup, run: Run, *, counts_waits: bool = True) -> Iterator[Outcome | None]:
    """Play a run; yield None after each change, and the outcome at last. Raises AssignmentImpossible.

    Without ``counts_waits``, which costs about as much as the assignor, none are counted.
    """
    held_ids = {} if group.moves_at_once else {client.member_id: client.assigned for client in group.clients}
    ids = [client.member_id for client in group.clients]
    waits = 0
    before: Mapping[str, Partitions] = held_ids
    after: Mapping[str, Partitions] = held_ids
    for step in play(group, run):
        after = dict(step.targets)
        if isinstance(step.change, Join):
            ids[step.change.client] = step.change.member_id
            waits += counts_waits and _waits(before, after, step.change.member_id)
        before = after
        yield None
    assigned = [after.get(member_id, {}) for member_id in ids]
    yield compared(group, assigned, waits)


def compared(group: ClassicGroup, assigned: Sequence[Partitions], waits: int = 0) -> Outcome:
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
        waits=waits,
    )


def _waits(before: Mapping[str, Partitions], after: Mapping[str, Partitions], member_id: str) -> bool:
    """Whether all that a client gets when it joins has to be given up by others first; not if it gets nothing."""
    mine = after.get(member_id, {})
    taken: dict[Uuid, Counter[int]] = {}
    for other, assigned in before.items():
        if other in after and other != member_id:
            for topic_id, numbers in assigned.items():
                taken.setdefault(topic_id, Counter()).update(numbers)
    return bool(mine) and all(
        number in taken.get(topic_id, ()) for topic_id, numbers in mine.items() for number in numbers
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
