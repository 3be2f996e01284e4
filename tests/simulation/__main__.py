"""``python -m tests.simulation --seeds 1-2000 --jobs 2``: run seeds, print what fails as a story."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context

from tests.simulation.simulation import Result, run

_PROGRESS_EVERY = 500


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; the exit code says whether all invariants held."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-200", help="one seed, or the first and the last: 1-2000")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--story", action="store_true", help="print the story of each seed, also if all went well"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="name failing seeds, and print one story at the end"
    )
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if options.story:
        for seed in seeds:
            print(run(seed, always_story=True).story)
        return 0
    failed: list[Result] = []
    counts: Counter[str] = Counter()
    done = 0
    for result in _results(seeds, options.jobs):
        done += 1
        counts.update(result.counts)
        counts.update({"steps": result.steps, "virtual seconds": round(result.virtual_s)})
        if result.failure is not None:
            failed.append(result)
            print(f"seed {result.seed}: {result.failure}", flush=True)
            if not options.keep_going:
                break
        if done % _PROGRESS_EVERY == 0:
            print(f"{done} of {len(seeds)} seeds, {len(failed)} failed", flush=True)
    if failed:
        shortest = min(failed, key=lambda result: len(result.story))
        print(f"\nThe story of seed {shortest.seed}:\n\n{shortest.story}\n")
    print(
        f"{done} seeds, {len(failed)} failed; {', '.join(f'{n} {what}' for what, n in sorted(counts.items()))}"
    )
    return 1 if failed else 0


def _results(seeds: range, jobs: int) -> Iterator[Result]:
    if jobs <= 1:
        yield from map(run, seeds)
        return
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(run, seeds, chunksize=10)


if __name__ == "__main__":
    sys.exit(main())
