"""Several versions of Epochgate beside each other: what each adds to a request, before one broker and in turn.

    python -m benchmarks.versions COMMIT [COMMIT ...] [--rounds 4000] [--runs 2] [--throughput 10]

Each commit is taken from the repository and installed without its dependencies, which are those of this environment.
The code that is checked out comes last as "now". A second run turns the order round, because whoever comes later in a
round finds colder caches. ``--throughput`` compares the throughput too, in so many runs of each.
``build/versions.json`` has all figures.
"""

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks import throughput
from benchmarks.latency import (
    DIRECT,
    PROXIED,
    ROUNDS_FOR_A_JOIN,
    heartbeat_of_new_member,
    in_turn,
    joins,
    leader,
    quantiles,
    small_request,
)
from benchmarks.lib.test_bed import BUILD, Gateway, kafka
from benchmarks.lib.wire import ClassicMember, Line, NativeMember

REPOSITORY = Path(__file__).resolve().parents[1]
REPORT = BUILD / "versions.json"
NOW = "now"


class Version(Gateway):
    """`epochgate run` of an installed version."""

    def __init__(self, installed: Path, bootstrap: str, folder: Path, *, more: str = "") -> None:
        super().__init__(bootstrap, folder, more=more)
        self._installed = installed

    def command(self, config: Path) -> list[str]:
        """See :class:`Gateway`; ``-P`` keeps the working directory's code out."""
        path = f"PYTHONPATH={self._installed}"
        return ["env", path, sys.executable, "-P", "-m", "proxy", "run", "--config", str(config)]


def installed(commit: str) -> Path:
    """A folder with the packages of this commit and their entry points.

    :raises subprocess.CalledProcessError: there is no such commit, or it can't be built.
    """
    folder = BUILD / "bench" / "versions" / commit
    if not (folder / "installed").exists():
        archive = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, check=True, capture_output=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder / "source", filter="data")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"),
                *("--target", str(folder / "installed"), str(folder / "source")),
            ],
            check=True,
        )
    return folder / "installed"


def throughputs(trees: dict[str, Path], runs: int) -> dict[str, Any]:
    """See :func:`benchmarks.throughput.measure`; "proxied" is the code that is checked out."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(kafka())
        ways = {DIRECT: throughput.Way(cluster.bootstrap)}
        for name, tree in trees.items():
            version = Version(tree, cluster.bootstrap, BUILD / "bench" / f"version-{name}")
            version.start()
            stack.callback(version.stop)
            ways[PROXIED if name == NOW else name] = throughput.Way(version.bootstrap, version.process.pid)
        return throughput.measure(ways, runs=runs)


def measure(trees: dict[str, Path], rounds: int) -> dict[str, Any]:
    """What -> way -> median and p99 in microseconds; the ways are "direct" and the names of the trees."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(kafka())
        sole: dict[str, str] = {}
        several: dict[str, str] = {}
        for name, tree in trees.items():
            for running, more in ((sole, ""), (several, "sole_process: false\n")):
                folder = BUILD / "bench" / f"version-{name}{'-several' if more else ''}"
                version = Version(tree, cluster.bootstrap, folder, more=more)
                version.start()
                stack.callback(version.stop)
                running[name] = version.bootstrap
        return _compared(cluster.bootstrap, sole, several, rounds)


def _compared(bootstrap: str, sole: dict[str, str], several: dict[str, str], rounds: int) -> dict[str, Any]:
    topic = f"versions-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)

    def by_way(
        what: str, addresses: dict[str, str], exchange: Callable[[str, str], Callable[[], None]]
    ) -> dict[tuple[str, str], Callable[[], None]]:
        return {(what, way): exchange(way, address) for way, address in addresses.items()}

    def translated(way: str, address: str) -> Callable[[], None]:
        kind = NativeMember if way == DIRECT else ClassicMember
        return heartbeat_of_new_member(address, kind, f"translated-{way}-{uuid4().hex[:4]}-{topic}", topic)

    def passing(way: str, address: str) -> Callable[[], None]:
        return heartbeat_of_new_member(address, ClassicMember, f"passing-{way}-{topic}", topic)

    def request(_: str, address: str) -> Callable[[], None]:
        return small_request(Line(leader(address)), topic)

    direct = {DIRECT: bootstrap}
    times: dict[tuple[str, str], list[float]] = {}
    # The members join just before they are measured: one that waited for its turn would be expired.
    for what, addresses, exchange in (
        ("100-byte request", direct | sole, request),
        ("translated Heartbeat", direct | sole, translated),
        ("translated Heartbeat, one of several processes", direct | several, translated),
        ("Heartbeat that passes through", direct | sole, passing),
    ):
        times |= in_turn(by_way(what, addresses, exchange), rounds)
    times |= joins(direct | sole, topic, rounds // ROUNDS_FOR_A_JOIN)
    found: dict[str, Any] = {}
    for (what, way), taken in times.items():
        found.setdefault(what, {})[way] = quantiles(taken)
    return found


def show(runs: list[dict[str, Any]], names: list[str], speeds: dict[str, Any]) -> None:
    """Added to the median of a direct exchange, in each run; and the median ratio of the throughput."""
    table = Table("added to the median, us", *names, title="Versions beside each other")
    for what in runs[0]:
        cells = [
            ", ".join(f"{run[what][name]['p50'] - run[what][DIRECT]['p50']:+.0f}" for run in runs)
            for name in names
        ]
        table.add_row(what.replace("_", " "), *cells)
    for what, one in speeds.items():
        ways = [PROXIED if name == NOW else name for name in names]
        cells = ["{} ({} to {})".format(one[f"{way}_ratio"], *one[f"{way}_quartiles"]) for way in ways]
        table.add_row(f"{what}, ratio of MB/s to direct", *cells)
    Console(width=150).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--throughput", type=int, default=0, metavar="RUNS")
    options = parser.parse_args()
    trees = {commit: installed(commit) for commit in options.commits} | {NOW: REPOSITORY}
    names, runs = list(trees), []
    for run in range(options.runs):
        print(f"== run {run + 1} of {options.runs}", flush=True)
        order = names if run % 2 == 0 else names[::-1]
        runs.append(measure({name: trees[name] for name in order}, options.rounds))
    speeds = throughputs(trees, options.throughput) if options.throughput else {}
    REPORT.write_text(json.dumps({"latency": runs, "throughput": speeds}, indent=2) + "\n")
    show(runs, names, speeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
