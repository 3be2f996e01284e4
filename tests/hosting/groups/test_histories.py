"""Histories of hosted groups: clients come, leave, die, bounce, and topics grow. No partition has two owners."""

import pytest

from tests.hosting.groups.world import (
    Assignor,
    Client,
    World,
    balanced,
    cooperative,
    odd_and_even,
)

KINDS: dict[str, tuple[dict[str, Assignor], bool]] = {
    "sticky": ({"sticky": balanced}, True),
    "cooperative": ({"cooperative-sticky": cooperative}, False),
    "own": ({"acme": odd_and_even}, True),
    "own cooperative": ({"acme-cooperative": cooperative, "other": cooperative}, False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", [range(1, 26), pytest.param(range(26, 2_000), marks=pytest.mark.long)], ids=str
)
def test_no_partition_has_two_owners_and_the_clients_assignor_decides(kind, seeds):
    for seed in seeds:
        _history(kind, seed)


def _history(kind: str, seed: int) -> None:
    assignors, eager = KINDS[kind]
    world = World(seed, {"orders": 6, "refunds": 3})
    for number in range(world.random.randint(1, 4)):
        world.add(f"first-{number}", assignors, eager=eager)
    for step in range(world.random.randint(3, 12)):
        world.run(world.random.choice((10, 500, 3_000, 12_000, 30_000)))
        _something_happens(world, assignors, eager=eager, step=step)
    if not any(client.alive for client in world.clients):
        world.add("last", assignors, eager=eager)
    world.run(120_000)
    world.settled()


def _something_happens(world: World, assignors: dict[str, Assignor], *, eager: bool, step: int) -> None:
    alive: list[Client] = [client for client in world.clients if client.alive]
    what = world.random.choice(("add", "add", "leave", "die", "grow", "bounce"))
    if what == "grow":
        world.topics["orders"] += 1
        leader = next((client for client in alive if client.leads), None)
        if leader is not None and not leader.waits:  # its metadata tells it, and it joins again
            leader.due_ms, leader._joins = world.now_ms, True
    elif what == "add" or not alive:
        instance = f"instance-{step}" if world.random.random() < 0.3 else None
        world.add(f"more-{step}", assignors, eager=eager, instance_id=instance)
    elif what == "leave":
        world.random.choice(alive).leave()
    elif what == "die":
        world.random.choice(alive).die()
    else:
        one = world.random.choice(alive)
        if one.instance_id is None:
            one.leave()
        else:  # as a static member does: without leaving
            one.alive, one.owned = False, frozenset()
            world.disconnect(one)
        world.add(f"again-{step}", assignors, eager=eager, instance_id=one.instance_id)
