"""Histories of hosted Connect groups: nothing runs on two workers, one leads, and in the end all runs."""

import pytest

from tests.hosting.groups.connect.world import World

KINDS = ("workers", "restarts", "zombies")
DELAYS_MS = (0, 5_000, 20_000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", [range(1, 41), pytest.param(range(41, 2_000), marks=pytest.mark.long)], ids=str
)
def test_nothing_runs_on_two_workers_and_one_leads(kind, seeds):
    for seed in seeds:
        _history(kind, seed)


def _history(kind: str, seed: int) -> None:
    world = World(seed)
    world.checks_owners = kind != "zombies"  # Connect itself runs on what is a member no longer
    delay_ms = world.random.choice(DELAYS_MS)
    for _ in range(world.random.randint(1, 4)):
        world.add(delay_ms)
    for name in ("orders", "refunds", "returns")[: world.random.randint(0, 3)]:
        world.configure(**{name: world.random.randint(0, 5)})
    for step in range(world.random.randint(3, 14)):
        world.run(world.random.choice((5, 300, 2_000, 4_000, 12_000, 40_000)))
        _something_happens(world, kind, delay_ms, step)
    if not world.alive:
        world.add(delay_ms)
    for one in world.alive:
        one.lost_answers = 0
    world.run(400_000)
    world.settled()


def _something_happens(world: World, kind: str, delay_ms: int, step: int) -> None:
    possible = ["add", "leave", "die", "write", "write", "write", "bounce", "lose", "downgrade"]
    if kind != "workers":
        possible += [kind, kind]
    what = world.random.choice(possible)
    one = world.random.choice(world.alive) if world.alive else None
    if one is None or what == "add":
        world.add(delay_ms)
    elif what == "downgrade":
        world.add(delay_ms, protocols=("compatible",))
    elif what == "leave":
        one.leave()
    elif what == "die":
        one.die()
    elif what == "bounce":
        one.leave()
        world.run(world.random.choice((0, 3_000)))
        world.add(delay_ms)
    elif what == "lose":
        one.lost_answers = world.random.choice((1, 1, 2))
    elif what == "restarts":
        world.start_room()
    elif what == "zombies":
        one.freeze(world.random.choice((11_000, 25_000, 60_000)))
    else:
        name = world.random.choice(("orders", "refunds", "returns", f"c{step}"))
        world.write_at(one, **{name: world.random.choice((-1, 0, 2, 5))})
