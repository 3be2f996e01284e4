"""``python -m tests.formal`` checks the model of the translation; with ``--mutants``, that its rules are needed."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.formal.translation_model import LONG, MUTANTS, SHORT, explore


def main() -> int:
    """Print a line for each scope; 1 if one is not as it has to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.formal", description=__doc__)
    parser.add_argument("--long", action="store_true", help="the larger scopes too (minutes)")
    parser.add_argument("--mutants", action="store_true", help="leave out one rule at a time instead")
    options = parser.parse_args()
    wrong = 0
    for scope in MUTANTS if options.mutants else (*SHORT, *(LONG if options.long else ())):
        with tempfile.TemporaryDirectory() as folder:
            checked = explore(scope, Path(folder))
        wrong += (checked.violated is None) is options.mutants
        if options.mutants:
            told = " > ".join(checked.story[1:])
            print(f"{scope.mutation}: {checked.violated or 'NOT MISSED'}\n    {told}", flush=True)
        else:
            outcome = "all hold" if checked.violated is None else f"VIOLATED: {checked.violated}"
            print(f"{scope}: {checked.distinct:,} states, depth {checked.depth}: {outcome}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
