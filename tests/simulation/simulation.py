"""Runs the history of one seed, and returns its result."""

from itertools import zip_longest

import msgspec

from tests.simulation.authorizer import PRINCIPALS
from tests.simulation.plan import Plan, make_plan
from tests.simulation.settling import why_not_settled
from tests.simulation.violation import Violation
from tests.simulation.world import World

SETTLES_WITHIN_MS = 120_000
"""How long after the last fault a run may take to settle. The longest legal way there is a client that crashed while
it held partitions that were to be revoked: the broker's rebalance timeout, then the assignment interval."""

STEPS_SETTLE_WITHIN_MS = 360_000
"""The same for a group that moves by steps: each is held by the log's clock, and classic members hear of it one after
another, at heartbeats of which each may make others rejoin first."""

_LOOK_EVERY_MS = 500
_STAYS_SETTLED_MS = 6_000


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a seed. ``failure`` is None if every invariant held."""

    seed: int
    failure: str | None
    invariant: int
    story: str
    counts: dict[str, int]
    steps: int
    virtual_s: float


def run(seed: int, plan: Plan | None = None, *, always_story: bool = False) -> Result:
    """Run a seed to its end, or to the first violation."""
    world = World(plan or make_plan(seed))
    failure, invariant = None, 0
    try:
        play(world)
        compare_without_hostile(world)
    except Violation as violation:
        failure, invariant = str(violation), violation.number
    except Exception as error:
        failure, invariant = f"{type(error).__name__}: {error}", 0
        if always_story:
            raise
    watch = world.watch
    if failure is not None:
        watch.tell("** failure", failure)
    return Result(
        seed=seed,
        failure=failure,
        invariant=invariant,
        story=str(watch.story) if failure is not None or always_story else "",
        counts=watch.counts,
        steps=world.kernel.steps,
        virtual_s=world.kernel.now_s,
    )


def play(world: World) -> None:
    """Run all planned events, and wait until the group has settled."""
    kernel = world.kernel
    kernel.run_until(world.plan.calm_from_ms)
    world.watch.note("** calm", "no more faults")
    settled_from_ms: int | None = None
    within_ms = STEPS_SETTLE_WITHIN_MS if world.plan.steps else SETTLES_WITHIN_MS
    end_ms = max(kernel.now_ms, world.watch.last_fault_ms) + within_ms
    while kernel.now_ms < end_ms:
        kernel.run_until(kernel.now_ms + _LOOK_EVERY_MS)
        reason = why_not_settled(world)
        if reason is not None:
            settled_from_ms = None
        elif settled_from_ms is None:
            settled_from_ms = kernel.now_ms
        elif kernel.now_ms - settled_from_ms >= _STAYS_SETTLED_MS:
            return
    raise Violation(4, f"not settled after {within_ms / 1000:g} s: {reason or 'it keeps changing'}")


def compare_without_hostile(world: World) -> None:
    """Run the same plan without attackers: if they have no rights, nobody else must see a difference."""
    plan = world.plan
    if not plan.hostiles or any(PRINCIPALS[hostile.principal].reads_group for hostile in plan.hostiles):
        return
    without = World(msgspec.structs.replace(plan, hostiles=()), world.late_for_strangers)
    play(without)
    told = world.watch.story.without_asides()
    for line, other in zip_longest(told, without.watch.story.without_asides(), fillvalue="nothing more"):
        if line != other:
            raise Violation(7, f"without the hostile connections it would have been: {other}\nand is: {line}")
