"""Connect's ``IncrementalCooperativeAssignor`` in Python, method by method (Kafka 4.3), with what it remembers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.connect_groups.work import CONNECTOR, Work

Works = dict[Work, None]
"""A set that keeps its order, as Java's LinkedHashSet."""


def ordered(works: Iterable[Work]) -> Works:
    """Works in their order, each once."""
    return dict.fromkeys(works)


@dataclass
class Load:
    """One worker, and what it is to run after this round."""

    worker: str
    works: list[Work]

    def count(self, *, connectors: bool) -> int:
        """How many connectors, or tasks."""
        return sum((work.task == CONNECTOR) == connectors for work in self.works)


@dataclass
class Computed:
    """The differences of one round, by worker."""

    assigned: dict[str, list[Work]]
    revoked: dict[str, Works]
    delay_ms: int


@dataclass
class IncrementalAssignor:
    """The assignor of one worker, which leads or does not."""

    max_delay_ms: int
    previous: Works = field(default_factory=dict)
    previously_revoked: Works = field(default_factory=dict)
    revoked_in_previous: bool = False
    candidates: dict[str, None] = field(default_factory=dict)
    scheduled_ms: int = 0
    delay_ms: int = 0
    previous_generation: int = -1
    previous_members: frozenset[str] = frozenset()
    revoking_rounds: int = 0

    def compute(
        self,
        configured: Works,
        last_completed: int,
        generation: int,
        members: Mapping[str, Iterable[Work]],
        now_ms: int,
    ) -> Computed:
        """``performTaskAssignment``."""
        allocated = {member_id: ordered(works) for member_id, works in members.items()}
        if self.previous_generation != last_completed:
            self.previous = {}
        active = ordered(work for works in allocated.values() for work in works)
        if self.previously_revoked:
            if any(work in active for work in self.previously_revoked):
                self.previous = active
            self.previously_revoked = {}
        deleted = _less(self.previous, configured)
        counts: dict[Work, int] = {}
        for works in allocated.values():
            for work in works:
                counts[work] = counts.get(work, 0) + 1
        duplicated = [work for work, count in counts.items() if count > 1]
        lost = _less(self.previous, active, deleted)
        created = _less(configured, self.previous, active)

        revoke: dict[str, Works] = {member_id: {} for member_id in allocated}
        for member_id, works in allocated.items():
            revoke[member_id] |= ordered(work for work in works if work in deleted)
            revoke[member_id] |= ordered(work for work in works if work in duplicated)
        loads = [
            Load(member_id, list(_less(works, revoke[member_id]))) for member_id, works in allocated.items()
        ]
        reassigned: Works = {}
        self._handle_lost(lost, reassigned, loads, now_ms)
        if self.delay_ms == 0:
            self._balance(configured, loads, revoke, now_ms)
        else:
            self.revoked_in_previous = False
        to_assign = created | reassigned
        for connectors in (True, False):
            _assign(
                loads,
                [work for work in to_assign if (work.task == CONNECTOR) == connectors],
                connectors=connectors,
            )
        assigned = {
            one.worker: [work for work in one.works if work not in allocated[one.worker] or work in deleted]
            for one in loads
        }
        self.previous = ordered(work for one in loads for work in one.works)
        for works in revoke.values():
            self.previous = _less(self.previous, works)
            self.previously_revoked |= works
        self.previous |= lost
        self.previous_generation = generation
        self.previous_members = frozenset(members)
        return Computed(assigned, revoke, self.delay_ms)

    def _balance(self, configured: Works, loads: list[Load], revoke: dict[str, Works], now_ms: int) -> None:
        revocations = _revocations(configured, loads)
        if self.revoked_in_previous and revocations:
            self.revoking_rounds += 1
            self.delay_ms = _backoff(self.revoking_rounds, self.max_delay_ms)
            if self.delay_ms:
                self.scheduled_ms = now_ms + self.delay_ms
                return
        elif revocations:
            self.revoked_in_previous = True
        elif self.revoked_in_previous:
            self.revoked_in_previous, self.revoking_rounds = False, 0
        for one in loads:
            given_up = revocations.get(one.worker, {})
            revoke[one.worker] |= given_up
            one.works = list(_less(ordered(one.works), given_up))

    def _handle_lost(self, lost: Works, reassigned: Works, loads: list[Load], now_ms: int) -> None:
        """``handleLostAssignments``."""
        if not lost and not self.revoked_in_previous:
            self._reset_delay()
            return
        active = {one.worker for one in loads}
        if (self.scheduled_ms <= 0 and active >= self.previous_members) or self.max_delay_ms == 0:
            reassigned |= lost
            return
        if 0 < self.scheduled_ms <= now_ms:
            chosen = [one for name in self.candidates for one in loads if one.worker == name]
            for connectors in (True, False):
                works = [work for work in lost if (work.task == CONNECTOR) == connectors]
                for number, work in enumerate(works):
                    if chosen:
                        chosen[number % len(chosen)].works.append(work)
                    else:
                        reassigned[work] = None
            self._reset_delay()
            self.revoked_in_previous = False
            return
        self.candidates |= {one.worker: None for one in loads if not one.works}
        if now_ms < self.scheduled_ms:
            self.delay_ms = min(self.scheduled_ms - now_ms, self.max_delay_ms)
        else:
            self.delay_ms = self.max_delay_ms
        self.scheduled_ms = now_ms + self.delay_ms

    def _reset_delay(self) -> None:
        self.candidates, self.scheduled_ms, self.delay_ms = {}, 0, 0


def _less(base: Iterable[Work], *others: Iterable[Work]) -> Works:
    taken = {work for one in others for work in one}
    return ordered(work for work in base if work not in taken)


def _backoff(attempts: int, max_delay_ms: int) -> int:
    """``ExponentialBackoff(1, 40, maxDelay, 0)``."""
    return 0 if max_delay_ms == 0 else min(40**attempts, max_delay_ms)


def _revocations(configured: Works, loads: list[Load]) -> dict[str, Works]:
    """``performLoadBalancingRevocations``."""
    if all(not one.works for one in loads) or not configured:
        return {}
    found: dict[str, Works] = {}
    for connectors in (True, False):
        total = sum((work.task == CONNECTOR) == connectors for work in configured)
        least, extra = divmod(total, len(loads))
        sizes = [one.count(connectors=connectors) for one in loads]
        at_least, with_extra = sizes.count(least), sizes.count(least + 1)
        if with_extra == extra and at_least + with_extra == len(loads):
            continue
        extras = 0
        for one, size in zip(loads, sizes, strict=True):
            if size <= least:
                continue
            most = least
            if extras < extra:
                extras += 1
                if size == least + 1:
                    continue
                most = least + 1
            own = [work for work in one.works if (work.task == CONNECTOR) == connectors]
            found.setdefault(one.worker, {}).update(ordered(own[: size - most]))
    return found


def _assign(loads: list[Load], works: list[Work], *, connectors: bool) -> None:
    """``assignConnectors`` and ``assignTasks``: to those with the fewest, one each in turn."""
    loads.sort(key=lambda one: one.count(connectors=connectors))
    left = list(works)
    while left:
        first = loads[0].count(connectors=connectors)
        up_to = next(
            (n for n, one in enumerate(loads) if one.count(connectors=connectors) > first), len(loads)
        )
        for one in loads[:up_to]:
            one.works.append(left.pop(0))
            if not left:
                break
