"""Plans the faults of a run: the same seed gives the same schedule."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

PROXIES = ("a", "b")
REPLICAS = ("a", "b", "c")
"""The proxies of a fleet."""

ALL = "all"
"""The victim of a fault that hits every replica."""

LONGEST_FREEZE_S = 60.0
LONGEST_CLIENT_FREEZE_S = 20.0

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
    KILL_ALONE = "kill consumer alone"
    """kill -9 of a consumer when all is well; nothing else happens until its partitions have owners."""
    STOP_PROXY = "stop proxy"
    """SIGTERM; it is started again a little later."""
    FREEZE_PROXY = "freeze proxy"
    """SIGSTOP, and SIGCONT later. Its clients still reach it, and get no answer."""
    FREEZE_CONSUMER = "freeze consumer"
    """SIGSTOP, and SIGCONT later."""
    CUT_LOG = "cut log"
    """One replica, or all, can't reach the brokers of the member log for a while."""


WEIGHTS = {
    Fault.KILL_CONSUMER: 30,
    Fault.CLOSE_CONSUMER: 15,
    Fault.KILL_PROXY: 20,
    Fault.MOVE_CLIENT: 20,
    Fault.KILL_BROKER: 5,
    Fault.STOP_BROKER: 5,
}

FLEET_WEIGHTS = WEIGHTS | {
    Fault.KILL_ALONE: 10,
    Fault.STOP_PROXY: 15,
    Fault.FREEZE_PROXY: 10,
    Fault.FREEZE_CONSUMER: 15,
    Fault.CUT_LOG: 10,
}
"""With a member log."""


@dataclass(frozen=True)
class Step:
    """One fault: `at_s` seconds after the start, healed `heal_s` seconds later where healing is an action."""

    at_s: float
    fault: Fault
    victim: str
    heal_s: float


def schedule(
    seed: int,
    seconds: float,
    consumers: Sequence[str],
    *,
    proxies: Sequence[str] = PROXIES,
    weights: Mapping[Fault, int] = WEIGHTS,
) -> Iterator[Step]:
    """Plan faults for a duration. Every kind occurs once in the first half, so that short runs have all of them."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    first = list(weights)
    chance.shuffle(first)
    gap_s = min(_LONGEST_S, seconds / 2 / len(first))
    at_s = gap_s
    while at_s < seconds:
        fault = first.pop() if first else chance.choices(list(weights), list(weights.values()))[0]
        victim = _victim(chance, fault, consumers, proxies)
        yield Step(at_s, fault, victim, chance.uniform(0.2, _longest_s(fault, seconds)))
        at_s += gap_s if first else chance.uniform(_SHORTEST_S, _LONGEST_S)


def _longest_s(fault: Fault, seconds: float) -> float:
    """How long a fault lasts at most. In a short run nothing stands still for more than a sixth of it."""
    match fault:
        case Fault.FREEZE_PROXY | Fault.CUT_LOG:
            return min(LONGEST_FREEZE_S, seconds / 6)
        case Fault.FREEZE_CONSUMER:
            return min(LONGEST_CLIENT_FREEZE_S, seconds / 6)
        case _:
            return 6.0


def _victim(chance: random.Random, fault: Fault, consumers: Sequence[str], proxies: Sequence[str]) -> str:
    match fault:
        case Fault.KILL_PROXY | Fault.STOP_PROXY | Fault.FREEZE_PROXY:
            return chance.choice(proxies)
        case Fault.CUT_LOG:
            return chance.choice([*proxies, ALL])
        case Fault.KILL_BROKER | Fault.STOP_BROKER:
            return "broker"
        case _:
            return chance.choice(list(consumers))
