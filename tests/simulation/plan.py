"""What a seed means: which topics, broker, processes and clients there are, and what goes wrong when.

Everything that is decided beforehand is here and can be printed; what a fault hits is decided when it comes, by the
same source of randomness.
"""

import random

import msgspec

from tests.simulation.clients.classic import Pace
from tests.simulation.clients.habits import ALL_KINDS, Habits

TOPICS = ("orders", "refunds")


class ClientPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One client. ``habits`` None is a member of the new protocol."""

    name: str
    starts_ms: int
    habits: Habits | None
    pace: Pace
    topics: frozenset[str]
    instance_id: str | None


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens to the run."""

    at_ms: int
    kind: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. Up to ``calm_from_ms`` there are faults."""

    seed: int
    topics: dict[str, int]
    broker_session_ms: int
    broker_heartbeat_ms: int
    assignment_interval_ms: int
    processes: int
    slow_network: bool
    clients: tuple[ClientPlan, ...]
    faults: tuple[FaultPlan, ...]
    calm_from_ms: int


CHANGES = {
    "a client leaves": 3,
    "a client rejoins by itself": 2,
    "a client changes its subscription": 2,
    "partitions are added": 2,
    "another client comes": 2,
    "the policy is read again": 1,
    "a late thread commits": 3,
}
"""What happens in the best of worlds, with weights."""

FAULTS = {
    "a client crashes": 4,
    "a client's connection breaks": 6,
    "a client's connection stalls": 4,
    "an upstream connection breaks": 6,
    "an upstream connection stalls": 4,
    "a proxy crashes": 3,
    "a proxy stands still": 2,
    "a client moves to another replica": 4,
    "the coordinator fails over": 2,
    "JoinGroups of a client race": 3,
    "an instance id is used twice": 2,
    "a topic is created again": 1,
}
"""What should not happen, with weights."""


def make_plan(seed: int) -> Plan:
    """The plan of a seed. Every fourth has no faults; a run has three to six clients."""
    chance = random.Random(f"plan {seed}")  # noqa: S311  reproducible on purpose
    broker_session_ms, broker_heartbeat_ms = chance.choice(((45_000, 5_000), (12_000, 3_000), (6_000, 1_500)))
    topics = {"orders": chance.randint(2, 6)}
    if chance.random() < 0.6:
        topics["refunds"] = chance.randint(1, 3)
    calm_from_ms = chance.randint(15_000, 45_000)
    faultless = seed % 4 == 0
    weights = dict(CHANGES) if faultless else {**CHANGES, **FAULTS}
    faults = tuple(
        sorted(
            (
                FaultPlan(at_ms=chance.randint(1_000, calm_from_ms), kind=kind)
                for kind in chance.choices(
                    list(weights), list(weights.values()), k=chance.randint(1, 4 if faultless else 9)
                )
            ),
            key=lambda fault: fault.at_ms,
        )
    )
    return Plan(
        seed=seed,
        topics=topics,
        broker_session_ms=broker_session_ms,
        broker_heartbeat_ms=broker_heartbeat_ms,
        assignment_interval_ms=chance.choice((1_000, 1_000, 0)),
        processes=chance.choice((1, 1, 2)),
        slow_network=broker_session_ms > 6_000 and chance.random() < 0.3,
        clients=tuple(
            make_client(chance, f"c{n}", topics, calm_from_ms) for n in range(chance.randint(2, 5))
        ),
        faults=faults,
        calm_from_ms=calm_from_ms,
    )


def make_client(chance: random.Random, name: str, topics: dict[str, int], until_ms: int) -> ClientPlan:
    """A client of any kind."""
    native = chance.random() < 0.12
    habits = chance.choice(ALL_KINDS)
    subscription = frozenset(topics) if chance.random() < 0.7 else frozenset({"orders"})
    session_timeout_ms = chance.choice((6_000, 8_000, 10_000))
    heartbeat_ms = session_timeout_ms // chance.choice((3, 3, 5))
    slow = habits.heartbeats_between_polls and chance.random() < 0.7
    static = not native and habits.is_static_capable and chance.random() < 0.25
    return ClientPlan(
        name=name,
        starts_ms=chance.choice((0, 0, chance.randint(0, until_ms // 2))) + chance.randint(0, 500),
        habits=None if native else habits,
        pace=Pace(
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=habits.ignores_rebalance_ms + chance.choice((8_000, 10_000, 15_000)),
            heartbeat_ms=heartbeat_ms,
            poll_ms=chance.randint(2_000, session_timeout_ms - 2_500)
            if slow
            else chance.choice((200, 500, 1_000)),
            commit_ms=chance.choice((1_000, 2_500, 5_000)),
            revoke_ms=chance.choice((10, 50, 500, 2_000)),
        ),
        topics=subscription,
        instance_id=f"instance-{name}" if static else None,
    )
