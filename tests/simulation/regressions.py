"""Histories that once broke an invariant, kept as whole plans, so that they stay what they are when plans change.

``regressions.json`` holds one a line: the plan, what it showed, and what showed it (a bug that was fixed, or a
mutation of :mod:`tests.simulation.mutations`).

``python -m tests.simulation.regressions add SEED "what it shows" "what showed it"`` adds one.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.simulation.plan import Plan, make_plan

FILE = Path(__file__).with_name("regressions.json")


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """One kept history. ``shown_by`` names the mutation that it catches, or says what was fixed."""

    shows: str
    shown_by: str
    plan: Plan

    @property
    def name(self) -> str:
        """A short name for the tests."""
        return f"{self.plan.seed} {self.shown_by}"


def read() -> list[Regression]:
    """All that are kept, in the order of the file."""
    return [msgspec.json.decode(line, type=Regression) for line in FILE.read_bytes().splitlines() if line]


def write(kept: Sequence[Regression]) -> None:
    """Write the file anew."""
    FILE.write_bytes(b"".join(msgspec.json.encode(one, order="deterministic") + b"\n" for one in kept))


def main(arguments: Sequence[str]) -> int:
    """Add the plan of a seed."""
    _, seed, shows, shown_by = arguments
    write([*read(), Regression(shows=shows, shown_by=shown_by, plan=make_plan(int(seed)))])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
