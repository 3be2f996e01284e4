"""``python -m tests.coordinator.connect_groups.simulation --seeds 2000 --jobs 2``: runs seeds, and prints what fails.

``--mutants`` looks for a seed that notices each mutation instead (:mod:`mutations`).
"""

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context

from tests.coordinator.connect_groups.simulation.mutations import MUTATIONS
from tests.coordinator.connect_groups.simulation.world import Outcome, World
from tests.simulation.__main__ import seeds_of


def main() -> int:
    """Return 0 if no seed fails, or if all mutations are noticed."""
    parser = argparse.ArgumentParser(prog="tests.coordinator.connect_groups.simulation", description=__doc__)
    parser.add_argument("--seeds", default="200", help="how many, or from 201-300")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--mutants", action="store_true")
    options = parser.parse_args()
    seeds = seeds_of(options.seeds)
    if options.mutants:
        missed = [mutation.__name__ for mutation in MUTATIONS if not _find(mutation, seeds)]
        print(f"{len(MUTATIONS) - len(missed)} of {len(MUTATIONS)} noticed")
        return 1 if missed else 0
    began = time.monotonic()
    counts: Counter[str] = Counter()
    failed, longest_ms = 0, 0
    with get_context("fork").Pool(options.jobs) as pool:
        for seed, outcome in pool.imap_unordered(run, seeds, chunksize=4):
            counts += outcome.counts
            longest_ms = max(longest_ms, outcome.longest_turn_ms)
            if outcome.violation is not None:
                failed += 1
                print(f"seed {seed}: {outcome.violation}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:>12,}  {what}")
    print(
        f"{len(seeds)} seeds, {failed} fail, {longest_ms} ms the longest turn, {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


def run(seed: int) -> tuple[int, Outcome]:
    """Run one history."""
    return seed, World(seed).run()


def _find(mutation, seeds) -> bool:
    for seed in seeds:
        with mutation():
            violation = World(seed).run().violation
        if violation is not None:
            print(f"{mutation.__name__}: seed {seed}: {violation[:100]}", flush=True)
            return True
    print(f"{mutation.__name__}: no seed", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
