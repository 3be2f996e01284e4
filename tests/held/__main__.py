"""`python -m tests.held --minutes 60 --seed 1`: one run and its verdict."""

import argparse
import sys
from pathlib import Path

from support import ROOT
from support.clients import CONFLUENT

from tests.held import check, scene


def main() -> int:
    """Run once and judge it; return 0 if nothing was violated, 1 if something was."""
    parser = argparse.ArgumentParser(prog="python -m tests.held", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--assignor", choices=CONFLUENT.assignors, default="cooperative-sticky")
    parser.add_argument("--folder", type=Path, help="for the logs; build/held/<seed> if not given")
    options = parser.parse_args()
    folder = options.folder or ROOT / "build" / "held" / str(options.seed)
    scene.run(folder, seed=options.seed, seconds=60 * options.minutes, assignor=options.assignor)
    return check.main([str(folder)])


if __name__ == "__main__":
    sys.exit(main())
