"""Histories that once broke an invariant, kept as whole plans so that changes to plan generation do not alter them.

``regressions.json`` has one per line: the plan, what it showed, and what showed it (a bug that was fixed, or a mutation
of :mod:`tests.simulation.mutations`).

``python -m tests.simulation.regressions add SEED "what it shows" "what showed it" [HOLD_UPS_MS]`` adds one, with a
member log, with what is out of date, and with steps, if a mutation of that is what showed it. ``... renew`` is for
changes of the translation after which plans run differently: if no kept history catches a mutation any more, or one
fails by itself, it keeps the plan with another seed for its random choices.
"""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.simulation.by_hand import BY_HAND
from tests.simulation.mutations import (
    BUSY_MUTATIONS,
    FLEET_MUTATIONS,
    GATE_MUTATIONS,
    MUTATIONS,
    OLD_STATE_MUTATIONS,
    STEP_MUTATIONS,
    Mutation,
)
from tests.simulation.plan import ANY_GATE, Plan, make_plan
from tests.simulation.simulation import run

FILE = Path(__file__).with_name("regressions.json")


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """One kept history. ``shown_by`` names the mutation that it catches, or the bug that was fixed."""

    shows: str
    shown_by: str
    plan: Plan

    @property
    def name(self) -> str:
        """Return a short name for the tests."""
        return f"{self.plan.seed} {self.shown_by}"


def read() -> list[Regression]:
    """Return all kept histories, in the order of the file."""
    return [msgspec.json.decode(line, type=Regression) for line in FILE.read_bytes().splitlines() if line]


def write(kept: Sequence[Regression]) -> None:
    """Write the file."""
    FILE.write_bytes(b"".join(msgspec.json.encode(one, order="deterministic") + b"\n" for one in kept))


def is_caught(mutation: Mutation, kept: Regression) -> bool:
    """Whether the mutation breaks an invariant in this history."""
    with mutation():
        return bool(run(kept.plan.seed, kept.plan).invariant)


def renew(kept: Sequence[Regression]) -> list[Regression]:
    """Return the histories with another seed for one of each mutation that none of its histories catches any more.

    Prints what it found, and the mutations without a history.
    """
    renewed = list(kept)
    for mutation in MUTATIONS:
        if mutation.__name__ in BY_HAND:
            continue
        histories = [one for one in kept if one.shown_by == mutation.__name__]
        if any(is_caught(mutation, one) for one in histories) and all(map(_holds, histories)):
            continue
        found = _find_anew(mutation, histories)
        if found is None:
            print(f"{mutation.__name__}: none of these plans catches it, whatever the seed")
            continue
        older, newer = found
        print(f"{mutation.__name__}: {older.plan.seed} -> {newer.plan.seed}")
        renewed[renewed.index(older)] = newer
    return renewed


def _holds(kept: Regression) -> bool:
    """Whether the real code keeps every invariant in this history."""
    return run(kept.plan.seed, kept.plan).failure is None


def _find_anew(mutation: Mutation, histories: Sequence[Regression]) -> tuple[Regression, Regression] | None:
    """Return one of these, and it with another seed with which it holds on the real code and catches the mutation.

    A plan of seed 9 becomes one of 9001, 9002, .... Returns None if there is none among a thousand.
    """
    for turn, older in itertools.product(range(1, 1_000), histories):
        plan = msgspec.structs.replace(older.plan, seed=older.plan.seed * 1_000 + turn)
        newer = msgspec.structs.replace(older, plan=plan)
        if is_caught(mutation, newer) and _holds(newer):
            return older, newer
    return None


def main(arguments: Sequence[str]) -> int:
    """Add the plan of a seed, or renew those that no longer work."""
    match arguments:
        case ["add", seed, shows, shown_by, *hold_ups_ms]:
            fleet = shown_by in {mutation.__name__ for mutation in FLEET_MUTATIONS}
            old_state = shown_by in {mutation.__name__ for mutation in OLD_STATE_MUTATIONS}
            steps = shown_by in {mutation.__name__ for mutation in STEP_MUTATIONS}
            has_gates = shown_by in {mutation.__name__ for mutation in GATE_MUTATIONS}
            plan = make_plan(
                int(seed),
                hold_ups_ms=int(*hold_ups_ms),
                fleet=fleet,
                old_state=old_state,
                steps=steps,
                gates=ANY_GATE if has_gates else None,
                busy=shown_by in {mutation.__name__ for mutation in BUSY_MUTATIONS},
            )
            write([*read(), Regression(shows=shows, shown_by=shown_by, plan=plan)])
        case ["renew"]:
            write(renew(read()))
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
