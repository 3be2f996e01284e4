"""Measures the pipeline by size: journals of 1, 10 and 50 million events, and an offsets topic of 2 million records.

`python -m benchmarks.pipeline --records 200000 2000000 --events 1000000 10000000 --progress 1000000`. Each job runs in
its own processes on local[2] with the same 2 GiB of heap whatever the size. The table shows events per second, the CPU
seconds and the peak memory of all processes of the job together, and n log n extrapolated from the smallest size; CPU
seconds are more reliable where other work shares the cores. All results so far go into docs/evidence/pipeline-cost.md.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.lib.watched_command import ROOT, watched
from pipeline.readiness.cluster import Cluster, Topic
from pipeline.readiness.records import CAPTURED
from pipeline.table_files import files_of_table
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.records import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.standalone import cluster

BUILD = ROOT / "build" / "bench-pipeline"
RESULTS = BUILD / "results.json"
PAGE = ROOT / "docs" / "evidence" / "pipeline-cost.md"
BEGIN, END = "<!-- costs -->\n", "<!-- /costs -->\n"
MASTER, HEAP, HALF_HEAP = "local[2]", "2g", "1g"
CELL_ROUNDS = 100
RECORDS_A_GROUP = 100
_HOLD = ("group", "topic", "partition", "from_us", "until_us")
TABLES = {
    "overlaps": (*_HOLD, "first_event", "second_event"),
    "gaps": (*_HOLD, "from_event"),
    "intervals": (*_HOLD, "member", "from_event"),
}
"""The tables that are compared, and the columns that sort them."""
ON_A_CLUSTER = "audit on two workers"


def make_cell(cell: tuple[Path, int]) -> int:
    """Write the journals of one cell of the fleet."""
    folder, number = cell
    plan = Plan.large(seed=number, rounds=CELL_ROUNDS, prefix=f"c{number:05}-")
    return Migration(plan).save(folder / f"cell-{number:05}", disorder=50, per_file=50_000)


def journal(events: int) -> tuple[Path, int]:
    """Return a folder with at least so many events, written once, and their number."""
    folder = BUILD / f"journal-{events}"
    if (folder / "DONE").exists():
        return folder, int((folder / "DONE").read_text())
    shutil.rmtree(folder, ignore_errors=True)
    made = number = 0
    with multiprocessing.Pool(2) as pool:
        for count in pool.imap(make_cell, ((folder, number) for number in range(10**6))):
            made += count
            number += 1
            if number % 10 == 0:
                print(f"\rmaking events: {made:,} of {events:,}", end="", file=sys.stderr)
            if made >= events:
                break
        pool.terminate()
    print(file=sys.stderr)
    for late in folder.glob("cell-*"):  # what the pool had begun beyond the number
        if int(late.name.split("-")[1]) >= number:
            shutil.rmtree(late)
    (folder / "DONE").write_text(str(made))
    return folder, made


def offsets(records: int) -> tuple[Path, int]:
    """Return a capture with so many records, one group per hundred: old commits, new ones, tombstones."""
    folder = BUILD / f"capture-{records}"
    if (folder / "cluster.json").exists():
        return folder, records
    shutil.rmtree(folder, ignore_errors=True)
    (folder / CAPTURED.name).mkdir(parents=True)
    chance = random.Random(records)
    rows: list[tuple[Any, ...]] = []
    next_offset = dict.fromkeys(range(50), 0)
    files = 0
    for group in range(records // RECORDS_A_GROUP):
        for record in _group(group, chance):
            partition = group % 50
            rows.append(
                (
                    partition,
                    next_offset[partition],
                    1_790_000_000_000,
                    encode_key(record.key),
                    encode_value(record),
                )
            )
            next_offset[partition] += 1
        if len(rows) >= 200_000:
            files = _flush(rows, folder, files)
    _flush(rows, folder, files)
    Cluster((Topic("orders", "AAAAAAAAAAAAAAAAAAAAAQ", 12),)).save(folder)
    return folder, records


def _flush(rows: list[tuple[Any, ...]], folder: Path, files: int) -> int:
    pq.write_table(
        pa.Table.from_batches([CAPTURED.batch(rows)]), folder / CAPTURED.name / f"part-{files:05}.parquet"
    )
    rows.clear()
    return files + 1


def _group(number: int, chance: random.Random) -> Iterator[CoordinatorRecord]:
    """Return one group's history: it rebalances four times, and its members commit in between."""
    name, size = f"group-{number:06}", chance.randint(1, 12)
    for generation in range(1, 5):
        for _ in range(RECORDS_A_GROUP // 4 - 1):
            key = OffsetCommitKey(group=name, topic="orders", partition=chance.randrange(12))
            value = OffsetCommitValue(
                offset=chance.randrange(10**9), metadata="", commit_timestamp=1_790_000_000_000
            )
            yield CoordinatorRecord(key, value if chance.random() > 0.02 else None)
        yield CoordinatorRecord(GroupMetadataKey(group=name), _metadata(size, generation))


def _metadata(size: int, generation: int) -> GroupMetadataValue:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=("orders",)), 1)
    members = []
    for number in range(size):
        own = ConsumerProtocolTopicPartition(topic="orders", partitions=tuple(range(number, 12, size)))
        members.append(
            GroupMetadataMember(
                member_id=f"member-{number}",
                client_id="app",
                client_host="/10.0.0.7",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=subscription,
                assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=(own,)), 1),
            )
        )
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader="member-0",
        current_state_timestamp=1_790_000_000_000,
        members=tuple(members),
    )


def command(job: str, source: Path, out: Path, master: str) -> list[str]:
    """Return the command of one job; a cluster's driver and each executor get half of the heap of a local run."""
    local = master == MASTER
    conf = {"spark.driver.memory": HEAP if local else HALF_HEAP, "spark.executor.memory": HALF_HEAP}
    if not local:
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
    return [
        sys.executable, "-m", "proxy.cli", "pipeline", job, "--out", str(out), "--master", master,
        "--capture" if job == "readiness" else "--journal", str(source),
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
    ]  # fmt: skip


def measured(job: str, source: Path, size: int) -> dict[str, Any]:
    """Run one job in its own processes, on this machine."""
    out = BUILD / f"out-{job}"
    shutil.rmtree(out, ignore_errors=True)
    return watched(job, size, command(job, source, out, MASTER), os.environ, BUILD)


def same_on_a_cluster(source: Path, size: int) -> dict[str, Any]:
    """Repeat the last audit on a master and two workers, and compare the tables row by row."""
    out = BUILD / "out-cluster"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    own = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with cluster(out, memory=HALF_HEAP) as master:
        row = watched(ON_A_CLUSTER, size, command("audit", source, out, master), own, BUILD)
    counts = []
    for name, order in TABLES.items():
        here, there = (
            pq.read_table(files_of_table(at, name).folder).sort_by([(one, "ascending") for one in order])
            for at in (BUILD / "out-audit", out)
        )
        if not here.equals(there):
            raise SystemExit(f"{name} of the cluster is another one: compare {BUILD / 'out-audit'} and {out}")
        counts.append(f"{here.num_rows:,} {name}")
    return row | {"same": f"the same {', '.join(counts)} as on `{MASTER}`"}


def table(results: list[dict[str, Any]]) -> str:
    """Format the results; `n log n` is the smallest size's result extrapolated to this size."""
    lines = [
        "| job | size | seconds | per second | CPU s | CPU s for a million | n log n, CPU s | memory, MiB | load |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for job in dict.fromkeys(row["job"] for row in results):
        of_job = sorted((row for row in results if row["job"] == job), key=lambda row: row["size"])
        least = of_job[0]
        for row in of_job:
            size = row["size"]
            growth = size * math.log(size) / (least["size"] * math.log(least["size"]))
            lines.append(
                f"| {job} | {size:,} | {row['seconds']:,.0f} | {size / row['seconds']:,.0f} | {row['cpu_s']:,.0f} | "
                f"{row['cpu_s'] / size * 1e6:,.0f} | {least['cpu_s'] * growth:,.0f} | {row['memory_mib']:,} | "
                f"{row['load']:.1f} |"
            )
    return "\n".join(lines)


def page(before: str, results: list[dict[str, Any]]) -> str:
    """Return docs/evidence/pipeline-cost.md with these results."""
    head, rest = before.split(BEGIN)
    _, tail = rest.split(END)
    same = [f"- {row['job']}, {row['size']:,} events: {row['same']}" for row in results if "same" in row]
    text = "\n\n".join([table(results), *same])
    return f"{head}{BEGIN}{text}\n{END}{tail}"


def main() -> None:
    """Create missing data, run the jobs, print the table of all results so far and write it into the docs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=[200_000, 2_000_000], help="for readiness")
    parser.add_argument("--events", type=int, nargs="*", default=[1_000_000, 10_000_000], help="for audit")
    parser.add_argument("--progress", type=int, nargs="*", default=[1_000_000], help="for progress")
    parser.add_argument(
        "--cluster", action="store_true", help="audit on two workers too, and compare the tables"
    )
    chosen = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    work: list[tuple[str, Callable[[int], tuple[Path, int]], int]]
    work = [("readiness", offsets, size) for size in chosen.records]
    work += [("audit", journal, size) for size in chosen.events]
    work += [("progress", journal, size) for size in chosen.progress]
    for job, make, at_least in work:
        source, size = make(at_least)
        rows = [measured(job, source, size)]
        if job == "audit" and chosen.cluster:
            rows.append(same_on_a_cluster(source, size))
        for row in rows:
            same = (row["job"], row["size"])
            results = [one for one in results if (one["job"], one["size"]) != same] + [row]
            RESULTS.write_text(json.dumps(results, indent=1))
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
