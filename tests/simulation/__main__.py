"""``python -m tests.simulation --seeds 2000 --jobs 2``: runs seeds and prints each failure as a story.

``--seed N`` prints the story of one seed, even if it passes.
"""

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context

from tests.simulation import coverage
from tests.simulation.gate_kinds import KINDS
from tests.simulation.plan import ANY_GATE, POLICY_CHANGES_EVERY, make_plan
from tests.simulation.simulation import Result, run

_PROGRESS_EVERY = 500


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; the exit code is 0 if all invariants held."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument(
        "--seeds", default="200", help="how many, from 1 on; or the first and the last: 201-300"
    )
    parser.add_argument("--seed", type=int, help="print the story of this seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--keep-going", action="store_true", help="go on after a failure, and name all that fail"
    )
    parser.add_argument(
        "--moving", action="store_true", help="only the seeds in which the policy changes, every fifth"
    )
    parser.add_argument(
        "--fault", metavar="KIND", help='only the seeds with this fault: --fault "a topic is created again"'
    )
    parser.add_argument(
        "--hold-ups",
        type=int,
        default=0,
        metavar="MS",
        help="the network holds up what begins and what ends a membership, for at most so long",
    )
    parser.add_argument(
        "--fleet", action="store_true", help="the processes are two to four replicas with one member log"
    )
    parser.add_argument(
        "--old-state",
        action="store_true",
        help="with --fleet: producers commit through other replicas, also late; coordinators that were deposed go on "
        "answering; and half the brokers describe groups as Kafka before 4.3",
    )
    parser.add_argument(
        "--busy",
        action="store_true",
        help="most classic clients commit all the time without waiting for the answers, and heartbeat rarely",
    )
    parser.add_argument("--steps", action="store_true", help="the group is moved by steps, and held at some")
    parser.add_argument(
        "--gates",
        nargs="?",
        const=ANY_GATE,
        choices=(ANY_GATE, "none", *filter(None, KINDS)),
        help="with --steps: the move has gates, and this is planted (default: any)",
    )
    parser.add_argument(
        "--outage", action="store_true", help="the brokers and the member log go away for up to a minute"
    )
    options = parser.parse_args(arguments)
    if options.gates is not None and not options.steps:
        parser.error("--gates needs --steps")
    if options.old_state and not options.fleet:
        parser.error("--old-state needs --fleet")
    run_one = partial(
        run_seed,
        hold_ups_ms=options.hold_ups,
        fleet=options.fleet,
        old_state=options.old_state,
        steps=options.steps,
        gates="" if options.gates == "none" else options.gates,
        busy=options.busy,
        outage=options.outage,
    )
    if options.seed is not None:
        result = run_one(options.seed, always_story=True)
        print(result.story)
        return 0 if result.failure is None else 1
    seeds: Sequence[int] = seeds_of(options.seeds)
    if options.moving:
        seeds = [seed for seed in seeds if seed % POLICY_CHANGES_EVERY == 0]
    if options.fault:
        seeds = [seed for seed in seeds if _has_fault(seed, options.fault)]
    failed: list[Result] = []
    counts: Counter[str] = Counter()
    steps, done, began = 0, 0, time.monotonic()
    for result in _results(seeds, run_one, options.jobs):
        done += 1
        steps += result.steps
        counts.update(result.counts)
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
    print(coverage.table(counts))
    print(
        f"{done:,} seeds, {len(failed)} failed; {steps:,} steps in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return 1 if failed else 0


def seeds_of(text: str) -> range:
    """Parse a range of seeds: ``2000`` means 1 to 2000, ``201-300`` itself."""
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else range(1, int(first) + 1)


def run_seed(
    seed: int,
    *,
    hold_ups_ms: int = 0,
    fleet: bool = False,
    old_state: bool = False,
    steps: bool = False,
    gates: str | None = None,
    busy: bool = False,
    outage: bool = False,
    always_story: bool = False,
) -> Result:
    """Run the history of a seed, on the requested kind of network and of fleet."""
    plan = make_plan(
        seed,
        hold_ups_ms=hold_ups_ms,
        fleet=fleet,
        old_state=old_state,
        steps=steps,
        gates=gates,
        busy=busy,
        outage=outage,
    )
    return run(seed, plan, always_story=always_story)


def _has_fault(seed: int, kind: str) -> bool:
    return any(fault.kind == kind for fault in make_plan(seed).faults)


def _results(seeds: Sequence[int], run_one: Callable[[int], Result], jobs: int) -> Iterator[Result]:
    if jobs <= 1:
        yield from map(run_one, seeds)
        return
    gc.freeze()
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(run_one, seeds, chunksize=10)


if __name__ == "__main__":
    sys.exit(main())
