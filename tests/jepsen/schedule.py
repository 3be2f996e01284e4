"""Plans the faults of a run: the same seed gives the same schedule."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

PROXIES = ("a", "b")

_SHORTEST_S, _LONGEST_S = 2.0, 9.0


class Fault(StrEnum):
    """The kinds of faults, with their targets."""

    KILL_CONSUMER = "kill consumer"
    """kill -9; another process takes its place a little later."""
    CLOSE_CONSUMER = "close consumer"
    """It leaves in an orderly way, and comes back a little later."""
    KILL_PROXY = "kill proxy"
    """kill -9; it is started again a little later, and its clients are with the other one meanwhile."""
    MOVE_CLIENT = "move client"
    """All connections of one client are cut, and it reaches the other proxy from now on."""
    KILL_BROKER = "kill broker"
    """kill -9; it is started again at once."""
    STOP_BROKER = "stop broker"
    """SIGTERM; it is started again at once."""


WEIGHTS = {
    Fault.KILL_CONSUMER: 30,
    Fault.CLOSE_CONSUMER: 15,
    Fault.KILL_PROXY: 20,
    Fault.MOVE_CLIENT: 20,
    Fault.KILL_BROKER: 5,
    Fault.STOP_BROKER: 5,
}


@dataclass(frozen=True)
class Step:
    """One fault: `at_s` seconds after the start, healed `heal_s` seconds later where healing is an action."""

    at_s: float
    fault: Fault
    victim: str
    heal_s: float


def schedule(seed: int, seconds: float, consumers: Sequence[str]) -> Iterator[Step]:
    """Plan faults for a duration. Every kind occurs once in the first half, so that short runs have all of them."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    first = list(Fault)
    chance.shuffle(first)
    gap_s = min(_LONGEST_S, seconds / 2 / len(first))
    at_s = gap_s
    while at_s < seconds:
        fault = first.pop() if first else chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        yield Step(at_s, fault, _victim(chance, fault, consumers), chance.uniform(0.2, 6.0))
        at_s += gap_s if first else chance.uniform(_SHORTEST_S, _LONGEST_S)


def _victim(chance: random.Random, fault: Fault, consumers: Sequence[str]) -> str:
    match fault:
        case Fault.KILL_PROXY:
            return chance.choice(PROXIES)
        case Fault.KILL_BROKER | Fault.STOP_BROKER:
            return "broker"
        case _:
            return chance.choice(list(consumers))
