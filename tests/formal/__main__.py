"""``python -m tests.formal`` checks the model of the translation; with ``--mutants``, that its rules are needed.

``--replay`` plays traces of the model on the code; with ``--mutants``, on code that is broken on purpose.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.formal.replay import ACTIONS, play_all
from tests.formal.replay_mutants import MUTANTS as CODE_MUTANTS
from tests.formal.replay_mutants import first_failure
from tests.formal.traces import SETTINGS, Setting, Trace, draw
from tests.formal.translation_model import LONG, MUTANTS, SHORT, explore


def main() -> int:
    """Print a line for each scope or setting; 1 if one is not as it has to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.formal", description=__doc__)
    parser.add_argument("--long", action="store_true", help="the larger scopes too (minutes)")
    parser.add_argument("--mutants", action="store_true", help="leave out one rule at a time instead")
    parser.add_argument("--replay", action="store_true", help="play traces of the model on the code instead")
    parser.add_argument("--traces", type=int, default=100, help="how many traces in each setting")
    parser.add_argument("--seed", type=int, default=1, help="by which TLC chooses the traces")
    options = parser.parse_args()
    if options.replay:
        return _replay(options.traces, options.seed, mutants=options.mutants)
    return _explore(long=options.long, mutants=options.mutants)


def _explore(*, long: bool, mutants: bool) -> int:
    wrong = 0
    for scope in MUTANTS if mutants else (*SHORT, *(LONG if long else ())):
        with tempfile.TemporaryDirectory() as folder:
            checked = explore(scope, Path(folder))
        wrong += (checked.violated is None) is mutants
        if mutants:
            told = " > ".join(checked.story[1:])
            print(f"{scope.mutation}: {checked.violated or 'NOT MISSED'}\n    {told}", flush=True)
        else:
            outcome = "all hold" if checked.violated is None else f"VIOLATED: {checked.violated}"
            print(f"{scope}: {checked.distinct:,} states, depth {checked.depth}: {outcome}", flush=True)
    return 1 if wrong else 0


def _drawn(setting: Setting, traces: int, seed: int) -> list[Trace]:
    with tempfile.TemporaryDirectory() as folder:
        return draw(setting, traces=traces, seed=seed, folder=Path(folder))


def _replay(traces: int, seed: int, *, mutants: bool) -> int:
    drawn = {setting: _drawn(setting, traces, seed) for setting in SETTINGS}
    if mutants:
        failures = [first_failure(mutant, drawn) for mutant in CODE_MUTANTS]
        for mutant, failure in zip(CODE_MUTANTS, failures, strict=True):
            print(f"{mutant.__name__}: {failure or 'NOT NOTICED'}", flush=True)
        return 1 if None in failures else 0
    steps: Counter[str] = Counter()
    failed = False
    for setting, of_setting in drawn.items():
        replayed = play_all(setting, of_setting)
        steps += replayed.steps
        failed |= replayed.failure is not None
        count = f"{replayed.traces} traces, {replayed.steps.total():,} steps, longest {replayed.longest}"
        print(f"{setting}: {count}: {replayed.failure or 'as the model'}", flush=True)
    print(", ".join(f"{action} {steps[action]:,}" for action in sorted(ACTIONS)))
    missing = sorted(ACTIONS - steps.keys())
    if missing:
        print(f"NOT PLAYED: {', '.join(missing)}")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
