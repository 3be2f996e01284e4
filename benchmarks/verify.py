"""Measures `epochgate verify` by a journal of a million events, beside a plain read of the same lines.

`python -m benchmarks.verify` (`make bench-verify`). The journal is that of a simulated fleet, 84 processes and 700
groups, written once. Each round verifies it in a process of its own, and another process parses each line by msgspec
and forgets it: nothing can be known of a journal for less. The figure is the CPU time of the process, which is what it
takes on a core that nobody else uses; other work on the machine disturbs it less than the seconds, but does (caches,
hyperthreads), so the round with the least counts, and the ratio of the two. Memory is the highest resident set (VmHWM).
"""

import argparse
import json
import multiprocessing
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.pipeline.migration import Migration, Plan

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "bench-verify"
RESULTS = ROOT / "build" / "bench-verify.json"
ROUNDS = 100
MOST_SECONDS, MOST_MIB = 10.0, 200.0
"""The aim for a million events, in seconds of one core."""

PLAIN = """
import sys
from pathlib import Path
import msgspec
decode = msgspec.json.Decoder().decode
for path in Path(sys.argv[1]).rglob("*.jsonl"):
    with path.open("rb") as file:
        for line in file:
            decode(line)
"""
PEAK = """
import atexit, sys
def told():
    text = open("/proc/self/status").read()
    sys.stderr.write("\\npeak " + text.split("VmHWM:")[1].split()[0])
atexit.register(told)
"""
VERIFY = f"{PEAK}\nfrom proxy.cli import main\nsys.argv[0] = 'epochgate'\nmain()"


class Run(NamedTuple):
    """What a process took: seconds, CPU seconds, and its peak memory in MiB."""

    seconds: float
    cpu_s: float
    mib: float


def make_cell(number: int) -> int:
    """Write the journals of one cell of the fleet: three processes, 50 groups."""
    plan = Plan.large(seed=number, rounds=ROUNDS, prefix=f"c{number:05}-")
    return Migration(plan).save(BUILD / "journal" / f"cell-{number:05}", per_file=50_000)


def journal(events: int) -> tuple[Path, int]:
    """The folder of a journal with at least so many events, written once, and how many lines it has."""
    done = BUILD / f"DONE-{events}"
    if not done.exists():
        shutil.rmtree(BUILD, ignore_errors=True)
        BUILD.mkdir(parents=True)
        count, number = 0, 0
        with multiprocessing.Pool(2, maxtasksperchild=1) as pool:
            while count < events:
                count += sum(pool.map(make_cell, range(number, number + 2)))
                number += 2
        done.write_text(str(count))
    return BUILD / "journal", int(done.read_text())


def measured(program: str, *arguments: str) -> Run:
    """Run a program in a process of its own."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if "Traceback" in done.stderr:
        raise RuntimeError(done.stderr)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = done.stderr.rpartition("peak ")[2]
    return Run(seconds, cpu_s, int(peak) / 1024 if peak.isdigit() else 0.0)


def main() -> int:
    """0 if the aim is met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verify", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    folder, count = journal(options.events)
    rounds = []
    print(f"{count} lines, {sum(path.stat().st_size for path in folder.rglob('*.jsonl')) / 2**20:.0f} MiB")
    print("| round | verify, s | events/s | CPU s | peak MiB | plain read, CPU s | ratio |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for number in range(1, options.rounds + 1):
        ours = measured(VERIFY, "verify", "--journal", str(folder), "-o", "json")
        plain = measured(PLAIN, str(folder))
        rounds.append((ours, plain))
        print(
            f"| {number} | {ours.seconds:.1f} | {count / ours.seconds:,.0f} | {ours.cpu_s:.1f} | {ours.mib:.0f} "
            f"| {plain.cpu_s:.2f} | {ours.cpu_s / plain.cpu_s:.1f} |",
            flush=True,
        )
    cpu_s = min(ours.cpu_s for ours, _ in rounds) * 1_000_000 / count
    mib = max(ours.mib for ours, _ in rounds)
    ratio = statistics.median(ours.cpu_s / plain.cpu_s for ours, plain in rounds)
    met = cpu_s <= MOST_SECONDS and mib <= MOST_MIB
    print(
        f"at least {cpu_s:.1f} CPU s for a million events, {ratio:.1f} times a plain read (median); "
        f"at most {mib:.0f} MiB; the aim (a million in {MOST_SECONDS:g} CPU s and {MOST_MIB:g} MiB) "
        f"is {'met' if met else 'missed'}"
    )
    RESULTS.write_text(
        json.dumps(
            {"lines": count, "rounds": [[ours._asdict(), plain._asdict()] for ours, plain in rounds]},
            indent=2,
        )
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
