"""``python -m tests.coordinator.connect_groups.mixed --seeds 2000 --jobs 2``: runs seeds, and prints what fails."""

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context

from tests.coordinator.connect_groups.mixed.world import history
from tests.simulation.__main__ import seeds_of


def main() -> int:
    """Return 0 if no seed fails."""
    parser = argparse.ArgumentParser(prog="tests.coordinator.connect_groups.mixed", description=__doc__)
    parser.add_argument("--seeds", default="200", help="how many, or from 201-300")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds = seeds_of(options.seeds)
    began, failed = time.monotonic(), 0
    counts: Counter[str] = Counter()
    with get_context("fork").Pool(options.jobs) as pool:
        for seed, violation, happened in pool.imap_unordered(run, seeds, chunksize=4):
            counts += happened
            if violation is not None:
                failed += 1
                print(f"seed {seed}: {violation}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:>12,}  {what}")
    seconds = time.monotonic() - began
    print(f"{len(seeds)} seeds, {failed} fail, {seconds:.0f} s, {len(seeds) / seconds * 3600:,.0f} an hour")
    return 1 if failed else 0


def run(seed: int) -> tuple[int, str | None, Counter[str]]:
    """Run one history."""
    return seed, *history(seed)


if __name__ == "__main__":
    sys.exit(main())
