"""Visits every state of a scope once, depth first."""

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from tests.simulation.explore.small_world import Choice, SmallWorld
from tests.simulation.violation import Violation


class Scope(Protocol):
    """What is explored."""

    @property
    def name(self) -> str:
        """How the command line and the tables call it."""
        ...

    def world(self) -> SmallWorld:
        """Return a new world at the state from which on everything may happen in any order."""
        ...


class Exploration(msgspec.Struct, kw_only=True):
    """The result of an exploration. ``complete`` is False if it ended at its limit of states."""

    scope: str
    states: int = 0
    steps: int = 0
    settled: int = 0
    complete: bool = True
    failure: str | None = None
    story: str = ""


def explore(
    scope: Scope, *, limit: int | None = None, progress: Callable[[Exploration], None] = lambda _: None
) -> Exploration:
    """Visit every state of a scope once, depth first; stop at the first violation."""
    found = Exploration(scope=scope.name)
    seen: set[bytes] = set()
    prefixes: list[tuple[Choice, ...]] = [()]
    while prefixes:
        prefix = prefixes.pop()
        world = None
        try:
            world = scope.world()
            for choice in prefix:
                world.choices()
                world.take(choice)
            prefixes.extend(_to_the_end(world, prefix, seen, found))
        except (Violation, AssertionError) as violation:
            found.failure = str(violation)
        except Exception as error:  # noqa: BLE001  a bug in what is explored is a finding like any other
            found.failure = f"{type(error).__name__}: {error}"
        if found.failure is not None:
            if world is not None:
                world.watch.tell("** failure", found.failure)
                found.story = str(world.watch.story)
            break
        if limit is not None and found.states >= limit:
            found.complete = not prefixes
            break
        if found.states % 1_000 == 0:
            progress(found)
    return found


def _to_the_end(
    world: SmallWorld, prefix: tuple[Choice, ...], seen: set[bytes], found: Exploration
) -> Iterator[tuple[Choice, ...]]:
    """Take first choices from a state until no new state comes; yield the prefixes of the other choices."""
    while True:
        choices = world.choices()
        if len(choices) != 1:
            state = world.state()
            if state in seen:
                return
            seen.add(state)
            found.states += 1
        if not choices or not any(not choice.startswith("fault") for choice in choices):
            found.settled += 1
            yield from ((*prefix, choice) for choice in choices)
            world.settle()
            return
        for choice in choices[1:]:
            yield (*prefix, choice)
        prefix = (*prefix, choices[0])
        found.steps += 1
        world.take(choices[0])
