"""A history made of a seed: who is in the group, what goes wrong and when."""

import random

import msgspec

from tests.coordinator.client_side.assignors import WRONG, Kind

HEARTBEAT_MS = 2_000
REQUEST_TIMEOUT_MS = 1_500
EVENTS = (
    "join",
    "leave",
    "die",
    "bounce",
    "restart",
    "more partitions",
    "subscribe",
    "metadata",
    "server side",
    "intrude",
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One history. Faults end at ``faults_end_ms``; what happens before, and when, is in ``events``."""

    seed: int
    members: int
    static: int
    """How many of them are static."""
    session_ms: int
    rebalance_ms: int
    faults_end_ms: int
    loss: float
    """The part of the messages that is lost."""
    kinds: tuple[Kind, ...]
    """What assignors do while there are faults."""
    events: tuple[tuple[int, str], ...]
    assignment_interval_ms: int

    @property
    def deadline_ms(self) -> int:
        """When everything must be settled: the dead are noticed, whoever computes has had its time, and some more."""
        patience = self.session_ms + 3 * self.rebalance_ms + 12 * HEARTBEAT_MS
        return self.faults_end_ms + patience


def make_plan(seed: int) -> Plan:
    """The history of this seed."""
    rng = random.Random(seed)  # noqa: S311
    faults_end_ms = rng.choice([20_000, 40_000, 60_000])
    count = rng.randint(0, 10)
    events = sorted((rng.randrange(1_000, faults_end_ms), rng.choice(EVENTS)) for _ in range(count))
    kinds = [Kind.RIGHT, Kind.SHUFFLED, *rng.sample(list(Kind), rng.randint(1, 5))]
    if rng.random() < 0.3:
        kinds = list(rng.sample([*WRONG, Kind.OLD, Kind.SLOW, Kind.DIES, Kind.UNPREPARED], 3))
    members = rng.randint(1, 5)
    return Plan(
        seed=seed,
        members=members,
        static=rng.choice([0, 0, 1, members]),
        session_ms=rng.choice([6_000, 6_000, 40_000]),
        rebalance_ms=rng.choice([5_000, 10_000]),
        faults_end_ms=faults_end_ms,
        loss=rng.choice([0.0, 0.0, 0.05, 0.15]),
        kinds=tuple(kinds),
        events=tuple(events),
        assignment_interval_ms=rng.choice([0, 1_000]),
    )
