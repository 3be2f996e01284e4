"""Tests which history catches which mutation; prints the table of docs/evidence/simulation.md.

``python -m tests.simulation.mutants`` replays, under each mutation, the history that is kept for it
(:mod:`tests.simulation.regressions`), or the test by hand (:mod:`tests.simulation.by_hand`). With ``--search N`` it
tries the first N seeds instead, one after another, and explores for mutations that no seed catches. ``--only`` prints
the rows of some.
"""

import argparse
import sys
from functools import partial
from multiprocessing import get_context
from textwrap import shorten

import msgspec

from tests.simulation import regressions
from tests.simulation.by_hand import BY_HAND, fails_by_hand
from tests.simulation.explore.search import explore
from tests.simulation.explore.three_members import SCOPES
from tests.simulation.mutations import (
    BUSY_MUTATIONS,
    FLEET_MUTATIONS,
    GATE_MUTATIONS,
    MUTATIONS,
    OLD_STATE_MUTATIONS,
    STEP_MUTATIONS,
    Mutation,
)
from tests.simulation.plan import ANY_GATE, make_plan
from tests.simulation.simulation import run

_LONGEST_FAILURE = 140
_BY_NAME = {mutation.__name__: mutation for mutation in MUTATIONS}


class Caught(msgspec.Struct, frozen=True, kw_only=True):
    """How a mutation was caught. ``seed`` 0 is the exploration; ``steps`` are the events of the failing history.

    ``test`` is the name of the one that fails, if no history does.
    """

    what: str
    seed: int = 0
    test: str = ""
    failure: str = ""
    steps: int = 0

    @property
    def is_caught(self) -> bool:
        """Whether anything noticed it."""
        return bool(self.failure or self.test)

    def row(self) -> str:
        """Return its line of the table."""
        if self.test:
            return f"| {self.what} | `{self.test}` fails | by hand | |"
        by = f"seed {self.seed}" if self.seed else "exploration"
        failure = shorten(self.failure, _LONGEST_FAILURE, placeholder=" ...")
        caught = f"{failure} | {by} | {self.steps:,}" if self.failure else "**not caught** | |"
        return f"| {self.what} | {caught} |"


def what_it_breaks(mutation: Mutation) -> str:
    """Return the first line of the mutation's docstring."""
    return (mutation.__doc__ or "").splitlines()[0].rstrip(".")


def replay(mutation: Mutation) -> Caught:
    """Replay the histories kept for this mutation until one fails, or play the one by hand."""
    what = what_it_breaks(mutation)
    if mutation.__name__ in BY_HAND:
        return Caught(what=what, test=BY_HAND[mutation.__name__].name if fails_by_hand(mutation) else "")
    with mutation():
        for kept in regressions.read():
            if kept.shown_by == mutation.__name__:
                result = run(kept.plan.seed, kept.plan)
                if result.invariant:
                    return Caught(
                        what=what, seed=result.seed, failure=result.failure or "", steps=result.steps
                    )
    return Caught(what=what)


def search(mutation: Mutation, seeds: range) -> Caught:
    """Try seeds, then the exploration without faults, until one fails. That has no member log, and no steps."""
    what = what_it_breaks(mutation)
    fleet = mutation in FLEET_MUTATIONS
    with mutation():
        for seed in seeds:
            plan = make_plan(
                seed,
                fleet=fleet,
                old_state=mutation in OLD_STATE_MUTATIONS,
                steps=mutation in STEP_MUTATIONS,
                gates=ANY_GATE if mutation in GATE_MUTATIONS else None,
                busy=mutation in BUSY_MUTATIONS,
            )
            result = run(seed, plan)
            if result.invariant:
                return Caught(what=what, seed=seed, failure=result.failure or "", steps=result.steps)
        for scope in () if fleet or mutation in STEP_MUTATIONS else SCOPES:
            found = explore(msgspec.structs.replace(scope, faults=0))
            if found.failure is not None:
                return Caught(what=what, failure=found.failure, steps=found.steps)
    return Caught(what=what)


def _catch(seeds: int, name: str) -> Caught:
    mutation = _BY_NAME[name]
    return search(mutation, range(1, seeds + 1)) if seeds else replay(mutation)


def main() -> int:
    """Print the table; the exit code is 0 if all were caught."""
    parser = argparse.ArgumentParser(prog="tests.simulation.mutants", description=__doc__)
    parser.add_argument("--search", type=int, default=0, help="try so many seeds instead of what is kept")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--only", default=",".join(_BY_NAME), metavar="NAME,NAME", help="some of the mutations"
    )
    options = parser.parse_args()
    names = options.only.split(",")
    if not set(names) <= _BY_NAME.keys():
        parser.error(f"--only: no mutation {', '.join(set(names) - _BY_NAME.keys())}")
    print("| what is broken | caught as | by | steps |\n| --- | --- | --- | --- |", flush=True)
    all_caught = True
    with get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
        for caught in pool.imap(partial(_catch, options.search), names):
            print(caught.row(), flush=True)
            all_caught = all_caught and caught.is_caught
    return 0 if all_caught else 1


if __name__ == "__main__":
    sys.exit(main())
