"""`python -m tests.jepsen --minutes 10 --seed 7`: one run and its verdict."""

import argparse
import sys
from pathlib import Path

from support import ROOT

from tests.jepsen import arena, check


def main() -> int:
    """Run once and judge it; return 0 if nothing was violated, 1 if something was."""
    parser = argparse.ArgumentParser(prog="python -m tests.jepsen", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for the logs; build/jepsen/<seed> if not given")
    parser.add_argument("--migrate", action="store_true", help="one assignor; observe, translate, observe")
    parser.add_argument(
        "--fleet", action="store_true", help="three replicas with a member log, and more faults"
    )
    options = parser.parse_args()
    if options.fleet and options.migrate:
        parser.error("--fleet and --migrate are two different runs")
    folder = options.folder or ROOT / "build" / "jepsen" / str(options.seed)
    arena.run(
        folder, seed=options.seed, seconds=60 * options.minutes, migrates=options.migrate, fleet=options.fleet
    )
    return check.main([str(folder)])


if __name__ == "__main__":
    sys.exit(main())
