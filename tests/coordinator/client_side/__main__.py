"""``python -m tests.coordinator.client_side --seeds 1-20000``: client-side assignors in many histories.

``--seed N`` prints the story of one.
"""

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context

from tests.coordinator.client_side.world import play

_PROGRESS_EVERY = 1_000


def main() -> int:
    """Play the seeds; the exit code is 0 if everything held in all."""
    parser = argparse.ArgumentParser(prog="python -m tests.coordinator.client_side", description=__doc__)
    parser.add_argument("--seeds", default="1-200", help="the first and the last")
    parser.add_argument("--seed", type=int, help="print the story of this one")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    if options.seed is not None:
        result = play(options.seed)
        print("\n".join(result.story), result.failure or "everything held", sep="\n")
        return 1 if result.failure else 0
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    counts: Counter[str] = Counter()
    failed, steps, began = [], 0, time.monotonic()
    with get_context("fork").Pool(options.jobs) as pool:
        for done, result in enumerate(pool.imap_unordered(play, seeds, chunksize=20), start=1):
            counts.update(result.counts)
            steps += result.steps
            if result.failure:
                failed.append(result.seed)
                print(f"seed {result.seed}: {result.failure}", flush=True)
            if done % _PROGRESS_EVERY == 0:
                print(f"{done:,} of {len(seeds):,} seeds, {len(failed)} failed", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:>10,}  {what}")
    print(f"{len(seeds):,} seeds, {len(failed)} failed; {steps:,} steps in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
