"""``python -m tests.coordinator --seeds 0-199``: random scenarios of each kind on a real Kafka and on the embedded
coordinator.

What Kafka did is kept below ``build/``. A run that is started again goes on after the last scenario, and compares the
kept ones with the coordinator as it is by then. ``--record`` puts what came out into docs/evidence/, from which
``python -m tools.recorded_tables`` writes docs/reference/embedded-coordinator.md.
"""

import argparse
import gzip
import hashlib
import multiprocessing
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.coordinator.comparison import check, compare
from tests.coordinator.conftest import own_cluster
from tests.coordinator.random_kinds import ALL_KINDS, player
from tests.coordinator.trace import Recording
from tools.coordinator_random_table import RUNS
from tools.kafka import jars
from tools.recorded import of_code

HERE = Path(__file__).parent
KEPT = jars.BUILD.parent / "coordinator-random"
PROGRESS_EVERY = 50
SHAPE = re.compile(r"\bm\d+\b|\(.*")
"""What is left out of a line to compare kinds of differences: who did it, and the fields of records."""


@dataclass
class Outcome:
    """One scenario, on both."""

    kind: str
    seed: int
    steps: int = 0
    records: int = 0
    was_played: bool = False
    """Whether Kafka played it in this run."""
    difference: str = ""


def main() -> int:
    """Play the seeds; the exit code says whether all agree."""
    parser = argparse.ArgumentParser(prog="python -m tests.coordinator", description=__doc__)
    parser.add_argument(
        "--seeds", default="0-32", help="one seed of each kind, or the first and the last: 0-199"
    )
    parser.add_argument("--kinds", nargs="+", default=ALL_KINDS, choices=ALL_KINDS)
    parser.add_argument("--bootstrap", help="a Kafka that runs already; otherwise one is started")
    parser.add_argument("--kept", action="store_true", help="only compare what was kept; no Kafka is needed")
    parser.add_argument(
        "--jobs", type=int, default=16, help="scenarios at once; most of their time is waiting"
    )
    parser.add_argument("--minutes", type=float, help="begin no scenario after so long")
    parser.add_argument("--record", action="store_true", help=f"put the result into {RUNS.file.name}")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    todo = [(kind, seed) for seed in range(int(first), int(last or first) + 1) for kind in options.kinds]
    if options.kept or options.bootstrap:
        return play(todo, options.bootstrap, options)
    cluster = own_cluster()
    try:
        cluster.save(owner_pid=os.getpid())
        cluster.start()
        return play(todo, cluster.bootstrap, options)
    except jars.KafkaUnavailableError as reason:
        print(f"no Kafka: {reason}", file=sys.stderr)
        return 1
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()


def play(todo: list[tuple[str, int]], bootstrap: str | None, options: argparse.Namespace) -> int:
    """Play them, some at once; what differs is printed."""
    began = time.monotonic()
    end = began + options.minutes * 60 if options.minutes else None
    outcomes: list[Outcome] = []
    with multiprocessing.Pool(options.jobs, maxtasksperchild=200) as pool:
        for outcome in pool.imap_unordered(partial(one, bootstrap=bootstrap, end=end), todo):
            if outcome is None:
                continue
            outcomes.append(outcome)
            if outcome.difference:
                print(f"{outcome.kind} {outcome.seed}: {outcome.difference}\n", flush=True)
            if len(outcomes) % PROGRESS_EVERY == 0:
                print(summary(outcomes), f"{time.monotonic() - began:.0f} s", flush=True)
    seconds = KEPT / "seconds"
    if any(outcome.was_played for outcome in outcomes):
        spent = [
            *(seconds.read_text().split() if seconds.exists() else ()),
            f"{time.monotonic() - began:.0f}",
        ]
        seconds.write_text("\n".join(spent))
    print(summary(outcomes))
    if options.record:
        RUNS.keep(result(outcomes, hours=sum(map(int, seconds.read_text().split())) / 3600))
    return int(any(outcome.difference for outcome in outcomes))


def one(which: tuple[str, int], bootstrap: str | None, end: float | None) -> Outcome | None:
    """Compare one scenario; None if Kafka has not played it and shall not."""
    kind, seed = which
    steps = player(kind, seed)
    name = f"random-{kind}-{seed}"
    path = folder(kind) / f"{name}.json.gz"
    outcome = Outcome(kind, seed)
    runs = [Recording.of(gzip.decompress(path.read_bytes()).decode())] if path.exists() else []
    try:
        outcome.difference = (
            difference_of(lambda: check(steps, name, runs[0], is_shared=True)) if runs else "?"
        )
        if outcome.difference and bootstrap and (end is None or time.monotonic() < end):
            outcome.was_played = True
            play = partial(compare, steps, name, bootstrap, runs.append, is_shared=True)
            outcome.difference = difference_of(play)
    except OSError as error:  # of a connection to Kafka: nothing can be said
        print(f"{name}: {error!r}", flush=True)
        return None
    if not runs:
        return None
    outcome.steps, outcome.records = len(runs[-1].transcript), len(runs[-1].log)
    if outcome.was_played:
        path.write_bytes(gzip.compress(runs[-1].text().encode(), mtime=0))
    return outcome


def difference_of(comparison: Callable[[], object]) -> str:
    """What it finds; empty if there is none."""
    try:
        comparison()
    except AssertionError as difference:
        return str(difference) or "a step that the script does not expect"
    return ""


def folder(kind: str) -> Path:
    """Where Kafka's runs are: those of one way to make random steps, and one version of Kafka."""
    made = HERE / ("random_share.py" if kind == "share" else "random_scenarios.py")
    sources = [made, *sorted((HERE / "script").glob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:10]
    version = os.environ.get("KAFKA_VERSION", jars.DEFAULT_VERSION)
    path = KEPT / f"{version}-{digest}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def summary(outcomes: list[Outcome]) -> str:
    """How many there were, in one line."""
    failed = sum(bool(outcome.difference) for outcome in outcomes)
    played = sum(outcome.was_played for outcome in outcomes)
    steps, records = (sum(getattr(o, name) for o in outcomes) for name in ("steps", "records"))
    return f"{len(outcomes)} scenarios ({played} new), {failed} differ; {steps} steps and {records} records"


def result(outcomes: list[Outcome], hours: float) -> dict[str, Any]:
    """What the evidence says of a run."""
    kinds = Counter(outcome.kind for outcome in outcomes)
    differ = Counter(outcome.kind for outcome in outcomes if outcome.difference)
    differences: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.difference:
            named = differences.setdefault(kind_of_difference(outcome.difference), [])
            named.append(f"{outcome.kind} {outcome.seed}")
    return {
        "command": f"python -m tests.coordinator {' '.join(sys.argv[1:])}",
        **of_code(HERE),
        "kafka": os.environ.get("KAFKA_VERSION", jars.DEFAULT_VERSION),
        "scenarios": {kind: {"played": kinds[kind], "differ": differ[kind]} for kind in ALL_KINDS},
        "steps": sum(outcome.steps for outcome in outcomes),
        "records": sum(outcome.records for outcome in outcomes),
        "scenarios_an_hour": round(len(outcomes) / hours),
        "differences": differences,
    }


def kind_of_difference(difference: str) -> str:
    """What differs, without ids and numbers: the types of two records, or a step."""
    lines = [line for line in difference.splitlines() if line.startswith(("  Kafka:", "  embedded:"))]
    shapes = [SHAPE.sub("", line).split("{")[0].split("[")[0].strip() for line in lines]
    return " | ".join(shapes) or re.sub(r"\d+", "N", difference.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
