"""`python -m tests.natives --rounds 300 --seed 7`: one script, straight at the broker and through the proxy."""

import argparse
import sys
import time
from pathlib import Path

from support import ROOT, find_broker
from support.native_group import Outcome

from tests.natives.rounds import script
from tests.natives.run import WAYS, run


def main() -> int:
    """0 if both come to the same outcome, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tests.natives", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for the logs; build/natives/<seed> if not given")
    options = parser.parse_args()
    folder = options.folder or ROOT / "build" / "natives" / str(options.seed)
    steps = script(options.seed, options.rounds)
    outcomes: dict[str, Outcome] = {}
    with find_broker.any_broker() as kafka:
        for way in WAYS:
            began = time.monotonic()
            outcomes[way] = run(kafka, way, steps, folder / way, say=lambda line, way=way: print(way, line))
            print(f"{way}: {len(steps)} steps in {(time.monotonic() - began) / 60:.0f} minutes")
    for way, outcome in outcomes.items():
        print(f"{way:>9}: {outcome}")
    return 0 if len(set(outcomes.values())) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
