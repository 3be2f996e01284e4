"""What is told beforehand of a group's move, against the move itself: real translation, embedded coordinator.

In virtual time, with models of client libraries.
"""

import random
from collections import Counter

import msgspec
import pytest

from coordinator.shard import Call
from protocol_codecs.all_messages import DescribeGroupsRequest
from proxy.shadow.group import Size, group_of
from proxy.shadow.sampling import forecast
from proxy.shadow.view import ShadowView
from tests.simulation.clients.classic import Pace
from tests.simulation.clients.habits import AIOKAFKA, JAVA_COOPERATIVE, JAVA_EAGER
from tests.simulation.plan import ClientPlan, Plan
from tests.simulation.settling import why_not_settled
from tests.simulation.world import TRANSLATE_ALL, World
from translation.policy.assignors import map_assignor

SEEDS = range(20)
GROUP_FORMS_MS = 25_000
SETTLES_WITHIN_MS = 180_000
STAYS_MS = 6_000


class Move(msgspec.Struct, frozen=True):
    """What was told, and what happened."""

    told: ShadowView
    counts: tuple[int, ...]
    moved: int


def plan_of(seed: int) -> Plan:
    chance = random.Random(f"shadow {seed}")  # noqa: S311  reproducible on purpose
    habits = chance.choice((JAVA_EAGER, JAVA_COOPERATIVE, AIOKAFKA))
    topics = {"orders": chance.randint(1, 12)} | ({"refunds": chance.randint(1, 5)} if seed % 2 else {})
    clients = tuple(
        ClientPlan(
            name=f"c{number}",
            starts_ms=chance.randint(0, 500),
            habits=habits,
            pace=Pace(heartbeat_ms=3_000, rebalance_timeout_ms=60_000),
            topics=frozenset(topics),
            instance_id=f"i{number}" if habits.is_static_capable and seed % 3 == 0 else None,
        )
        for number in range(chance.randint(2, 6))
    )
    return Plan(
        seed=seed,
        topics=topics,
        broker_session_ms=45_000,
        broker_heartbeat_ms=5_000,
        assignment_interval_ms=chance.choice((0, 1_000)),
        processes=1,
        slow_network=False,
        starts_observed=True,
        clients=clients,
        faults=(),
        calm_from_ms=GROUP_FORMS_MS,
    )


def told_of(world: World) -> ShadowView:
    """What the proxy tells of the group, by the coordinator's own description."""
    broker = world.broker
    request = DescribeGroupsRequest(groups=(next(iter(broker.coordinator.shard.groups)),))
    (reply,) = broker.coordinator.handle(request, Call(-1, 5), world.kernel.now_ms)
    described = reply.response.groups[0]  # type: ignore[attr-defined]
    offered = [described.protocol_data]
    group = group_of(
        described,
        broker.image,
        map_assignor(offered),
        Size(500, 5_000),
        assignor_is_set=False,
    )
    *_, view = forecast(group, f"group {world.plan.seed}", 0.0)
    assert view is not None
    return view


def move(seed: int) -> Move:
    """Let a classic group form, tell what a move would do, and move it."""
    world = World(plan_of(seed))
    kernel = world.kernel
    kernel.run_until(GROUP_FORMS_MS)
    assert why_not_settled(world) is None
    told, began_ms = told_of(world), kernel.now_ms
    before = {client: client.held for client in world.clients}  # type: ignore[attr-defined]
    world.policy = TRANSLATE_ALL
    for process in world.processes:
        process.read_policy()
    settled_ms = 0
    while not settled_ms or kernel.now_ms - settled_ms < STAYS_MS:
        assert kernel.now_ms - began_ms < SETTLES_WITHIN_MS, why_not_settled(world)
        kernel.run_until(kernel.now_ms + 100)
        settled_ms = 0 if why_not_settled(world) is not None else settled_ms or kernel.now_ms
    return Move(
        told=told,
        counts=tuple(len(client.held) for client in world.clients),  # type: ignore[attr-defined]
        moved=sum(len(before[client] - client.held) for client in world.clients),  # type: ignore[attr-defined]
    )


def wrong(one: Move) -> set[str]:
    """What of a shadow did not come true."""
    told, table, found = one.told, Counter(one.counts), set[str]()
    assert told.empty is not None
    assert told.moved is not None
    listed = {count.partitions: count.members for count in told.counts}
    if not told.empty.low <= table[0] <= told.empty.high or not all(
        number in listed and listed[number].low <= count <= listed[number].high
        for number, count in table.items()
    ):
        found.add("counts")
    if not told.moved.low <= one.moved <= told.moved.high:
        found.add("moved")
    return found


def test_what_was_told_comes_true():
    some = [move(seed) for seed in SEEDS]

    assert {seed: found for seed, one in zip(SEEDS, some, strict=True) if (found := wrong(one))} == {}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_what_was_told_comes_true_in_nearly_all_of_many_moves():
    some = [move(seed) for seed in range(100, 500)]
    found = Counter(what for one in some for what in wrong(one))
    print(f"wrong: {dict(found)} of {len(some)}")

    assert found["counts"] <= len(some) // 100
    assert found["moved"] <= len(some) // 100
