"""Measures a job of the pipeline by size, and beside another version of the code: CPU, memory, shuffle, spill by stage.

`python -m benchmarks.pipeline_scale readiness 1000000 10000000 --beside build/bench-pipeline/main` runs readiness of so
many offset records, nine of ten superseded, by both versions in turn, and compares their tables row by row. `audit` and
`progress` read a journal of so many events. `compacted` is readiness of what compaction would leave of those records:
what it costs when nothing is superseded.

Sizes may be far apart: the exponent of cost is told, log-log, with the start (a run of nearly nothing) taken off. CPU
seconds are those of the driver, the JVM and Python's workers together.
What earlier calls measured of the same job is kept (build/bench-pipeline/scale.json) and told with the rest.
"""

import argparse
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from benchmarks import newest_records
from benchmarks.lib.watched_command import ROOT, watched
from benchmarks.pipeline import BUILD, MASTER, command, journal
from pipeline.table_files import files_of_table

RESULTS = BUILD / "scale.json"
NOTHING = 1_000
COMPACTED = "compacted"
CAPTURES = {"readiness": "readiness", COMPACTED: "readiness"}
"""Jobs that read a capture, and the commands that do them."""
_MIB = 1 << 20
_METRICS = {
    "internal.metrics.executorCpuTime": "jvm_cpu_s",
    "internal.metrics.shuffle.write.bytesWritten": "shuffle_mib",
    "internal.metrics.diskBytesSpilled": "spill_mib",
}
"""Of Spark's event log. The CPU time is that of the JVM's threads, without Python's workers and the compiler."""


class Version(NamedTuple):
    """Code to run, by its name in the results."""

    name: str
    root: Path


def data(job: str, size: int) -> tuple[Path, int]:
    """Return what a job reads, made once, and how much it has."""
    if job in CAPTURES:
        return newest_records.capture(size, compacted=job == COMPACTED), size
    return journal(size)


def run(job: str, source: Path, size: int, version: Version) -> dict[str, Any]:
    """Run a job by one version of the code; return what it cost."""
    out, log = (BUILD / f"{what}-{job}-{version.name}" for what in ("out", "events"))
    for folder in (out, log):
        shutil.rmtree(folder, ignore_errors=True)
    log.mkdir(parents=True)
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": log.as_uri(),
    }
    arguments = command(CAPTURES.get(job, job), source, out, MASTER)
    arguments += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    environment = {**os.environ, "PYTHONPATH": str(version.root)}
    costs = watched(job, size, arguments, environment, BUILD, version.root)
    return costs | {"version": version.name, "stages": list(stages(log))}


def stages(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what stages cost, those of one step together, as Spark's event log in a folder tells it."""
    found: dict[str, dict[str, Any]] = {}
    steps: dict[int, str] = {}
    for line in _lines(folder):
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            step = _step(event["Properties"].get("spark.job.description", ""))
            steps |= dict.fromkeys(event["Stage IDs"], step)
        if event["Event"] != "SparkListenerStageCompleted":
            continue
        info = event["Stage Info"]
        step = steps.get(info["Stage ID"], "")
        own = found.setdefault(
            step, {"step": step, "stages": 0, "tasks": 0, **dict.fromkeys(_METRICS.values(), 0.0)}
        )
        own["stages"] += 1
        own["tasks"] += info["Number of Tasks"]
        for one in info["Accumulables"]:
            if (name := _METRICS.get(one.get("Name"))) is not None:
                own[name] += int(one["Value"]) / (1e9 if name.endswith("_s") else _MIB)
    for own in found.values():
        yield own | {name: round(own[name], 1) for name in _METRICS.values()}


def _step(description: str) -> str:
    """Return the name of a step or stream; Spark tells a stream's batches, and which files it lists, behind it."""
    return description.partition("\n")[0].partition(" for ")[0]


def _lines(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.name.startswith((".", "appstatus")):
            with file.open(encoding="utf-8") as lines:
                yield from lines


def differences(job: str, one: Version, other: Version) -> list[str]:
    """Return which tables of the last runs of two versions have other rows."""
    found = []
    folder, beside = (BUILD / f"out-{job}-{version.name}" for version in (one, other))
    names = json.loads((folder / "_run.json").read_text())["parts"]
    for name in names:
        theirs = files_of_table(beside, name).folder
        if not theirs.exists():
            print(f"{other.name} has no table {name!r}", file=sys.stderr)
            continue
        here, there = _rows(files_of_table(folder, name).folder), _rows(theirs)
        if here != there:
            found.append(f"{name}: {len(here):,} rows and {len(there):,}")
    return found


def _rows(folder: Path) -> list[str]:
    return sorted(map(repr, pq.read_table(folder).to_pylist()))


def exponent(costs: Sequence[tuple[int, float]]) -> float:
    """Return the slope of the line through sizes and costs, both as logarithms."""
    points = [(math.log(size), math.log(cost)) for size, cost in costs]
    middle = [sum(one) / len(points) for one in zip(*points, strict=True)]
    above = sum((x - middle[0]) * (y - middle[1]) for x, y in points)
    return float(above / sum((x - middle[0]) ** 2 for x, _ in points))


def told(results: Sequence[dict[str, Any]]) -> str:
    """Return the results as tables: costs by size, and by step."""
    lines = [
        "| job | version | size | seconds | CPU s | without start | memory, MiB | shuffle, MiB | spill, MiB | load |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in results:
        shuffle, spill = (sum(one[what] for one in row["stages"]) for what in ("shuffle_mib", "spill_mib"))
        lines.append(
            f"| {row['job']} | {row['version']} | {row['size']:,} | {row['seconds']:,.0f} | {row['cpu_s']:,.0f} | "
            f"{row['cpu_s'] - row['start_cpu_s']:,.0f} | {row['memory_mib']:,} | {shuffle:,.0f} | {spill:,.0f} | "
            f"{row['load']:.1f} |"
        )
    kinds = list(results[0]["cpu_s_of"])
    lines += ["", f"| version | size | {' | '.join(f'{kind}, CPU s' for kind in kinds)} |"]
    lines.append(f"| --- | ---: |{' ---: |' * len(kinds)}")
    for row in results:
        of = (f"{row['cpu_s_of'][kind]:,.0f}" for kind in kinds)
        lines.append(f"| {row['version']} | {row['size']:,} | {' | '.join(of)} |")
    lines += ["", "| version | size | step | stages | tasks | JVM's CPU s | shuffle, MiB | spill, MiB |"]
    lines.append("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    lines += [
        f"| {row['version']} | {row['size']:,} | {one['step']} | {one['stages']} | {one['tasks']} | "
        f"{one['jvm_cpu_s']:,.1f} | {one['shuffle_mib']:,.0f} | {one['spill_mib']:,.0f} |"
        for row in results
        for one in row["stages"]
    ]
    return "\n".join(lines)


def main() -> None:
    """Make missing data, run the job by each version and size, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline_scale", description=__doc__)
    parser.add_argument("job", choices=(*CAPTURES, "audit", "progress"))
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--beside", type=Path, help="another checkout of this repository, to compare with")
    chosen = parser.parse_args()
    versions = [Version("now", ROOT)]
    if chosen.beside is not None:
        versions.append(Version("before", chosen.beside.resolve()))
    BUILD.mkdir(parents=True, exist_ok=True)
    nothing = data(chosen.job, NOTHING)
    starts = {version: run(chosen.job, *nothing, version)["cpu_s"] for version in versions}
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for size in chosen.sizes:
        source, number = data(chosen.job, size)
        for version in versions:
            row = run(chosen.job, source, number, version) | {"start_cpu_s": starts[version]}
            results = [one for one in results if _what(one) != _what(row)] + [row]
            RESULTS.write_text(json.dumps(results, indent=1))
        if len(versions) > 1 and (other := differences(chosen.job, *versions)):
            raise SystemExit(f"of {number:,} the versions have other rows: {'; '.join(other)}")
    of_job = sorted((row for row in results if row["job"] == chosen.job), key=_what)
    print(told(of_job))
    for version in versions:
        costs = [
            (row["size"], row["cpu_s"] - row["start_cpu_s"])
            for row in of_job
            if row["version"] == version.name
        ]
        if len(costs) > 1:
            print(
                f"{chosen.job}, {version.name}: CPU s without start grow with size to the {exponent(costs):.2f}"
            )


def _what(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["job"], row["version"], row["size"]


if __name__ == "__main__":
    main()
