"""What the pipeline costs by size: journals of 1, 10 and 50 million events, and an offsets topic of 2 million records.

`python -m benchmarks.pipeline --events 1000000 10000000 --records 200000 2000000`. Each job runs in a process of
its own on local[2] with the same 2 GiB of heap whatever the size; the table tells events per second, what n log n would
cost from the smallest size on, and the most memory that all processes of the job held together. CPU seconds tell more
than seconds where other work shares the cores.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.readiness.cluster import Cluster, Topic
from pipeline.readiness.records import CAPTURED
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

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "bench-pipeline"
RESULTS = BUILD / "results.json"
MASTER, HEAP, HALF_HEAP = "local[2]", "2g", "1g"
CELL_ROUNDS = 100
RECORDS_A_GROUP = 100
_HOLD = ("group", "topic", "partition", "from_us", "until_us")
TABLES = {
    "overlaps": (*_HOLD, "first_event", "second_event"),
    "gaps": (*_HOLD, "from_event"),
    "intervals": (*_HOLD, "member", "from_event"),
}
"""What is compared, and what brings it in order."""
_LOOK_S = 0.5


def make_cell(cell: tuple[Path, int]) -> int:
    """The journals of one cell of the fleet."""
    folder, number = cell
    plan = Plan.large(seed=number, rounds=CELL_ROUNDS, prefix=f"c{number:05}-")
    return Migration(plan).save(folder / f"cell-{number:05}", disorder=50, per_file=50_000)


def journal(events: int) -> tuple[Path, int]:
    """A folder with at least so many events, made once, and how many they are."""
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
    """A capture with so many records, of one group for each hundred of them: old commits, new ones, tombstones."""
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
    """One group's history: it rebalances four times, and its members commit in between."""
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
    """One job; a cluster's driver and each of its executors have half of the heap of a local run."""
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
    """Run one job in a process of its own; seconds, and the most memory of it and its children in MiB."""
    out = BUILD / f"out-{job}"
    shutil.rmtree(out, ignore_errors=True)
    print(f"== {job}, {size:,}", file=sys.stderr)
    began = time.monotonic()
    with (BUILD / f"{job}-{size}.log").open("wb") as log:
        process = subprocess.Popen(command(job, source, out, MASTER), stdout=log, stderr=log, cwd=ROOT)
        most, worked = 0, dict[int, float]()
        while process.poll() is None:
            memory, cpu = _use(process.pid)
            most = max(most, memory)
            worked |= cpu
            time.sleep(_LOOK_S)
    seconds = time.monotonic() - began
    if process.returncode != 0:
        raise SystemExit(f"{job} of {size:,} ended with {process.returncode}: see {log.name}")
    cpu_s = sum(worked.values())
    return {
        "job": job,
        "size": size,
        "seconds": round(seconds, 1),
        "cpu_s": round(cpu_s, 1),
        "memory_mib": most // 1024,
    }


def same_on_a_cluster(source: Path, size: int) -> str:
    """Audit on a master and two workers what has just been audited here, and compare the tables row by row."""
    out = BUILD / "out-cluster"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    own = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    began = time.monotonic()
    with cluster(out, memory=HALF_HEAP) as master, (BUILD / f"cluster-{size}.log").open("wb") as log:
        subprocess.run(
            command("audit", source, out, master), stdout=log, stderr=log, cwd=ROOT, env=own, check=True
        )
    seconds = time.monotonic() - began
    counts = []
    for name, order in TABLES.items():
        here, there = (
            pq.read_table(at / name).sort_by([(one, "ascending") for one in order])
            for at in (BUILD / "out-audit", out)
        )
        if not here.equals(there):
            raise SystemExit(f"{name} of the cluster is another one: compare {BUILD / 'out-audit'} and {out}")
        counts.append(f"{here.num_rows:,} {name}")
    return f"{size:,} events, audited by two workers in {seconds:.0f} s: the same {', '.join(counts)}"


def _use(pid: int) -> tuple[int, dict[int, float]]:
    """Resident memory in KiB (shared pages counted in each) and CPU seconds of a process and its children."""
    total, cpu, waiting = 0, dict[int, float](), [pid]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{one}/status").read_text()
            total += next(
                (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0
            )
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            cpu[one] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total, cpu


def table(results: list[dict[str, Any]]) -> str:
    """The results for people; `n log n` is what the smallest size of the job would cost at this size."""
    lines = [
        "| job | size | seconds | per second | CPU, s | CPU, n log n from the smallest | memory, MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for job in dict.fromkeys(row["job"] for row in results):
        of_job = sorted((row for row in results if row["job"] == job), key=lambda row: row["size"])
        least = of_job[0]
        for row in of_job:
            growth = row["size"] * math.log(row["size"]) / (least["size"] * math.log(least["size"]))
            lines.append(
                f"| {job} | {row['size']:,} | {row['seconds']:.0f} | {row['size'] / row['seconds']:,.0f} | "
                f"{row['cpu_s']:.0f} | {least['cpu_s'] * growth:.0f} | {row['memory_mib']:,} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Make what is missing, run the jobs, print the table of all results so far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--records", type=int, nargs="*", default=[200_000, 2_000_000])
    parser.add_argument(
        "--cluster", action="store_true", help="audit on two workers too, and compare the tables"
    )
    chosen = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    os.nice(10)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    work = [("readiness", offsets, size) for size in chosen.records]
    work += [(job, journal, size) for size in chosen.events for job in ("audit", "progress")]
    for job, make, at_least in work:
        source, size = make(at_least)
        row = measured(job, source, size)
        results = [one for one in results if (one["job"], one["size"]) != (job, size)] + [row]
        RESULTS.write_text(json.dumps(results, indent=1))
        if job == "audit" and chosen.cluster:
            print(same_on_a_cluster(source, size))
    print(table(results))


if __name__ == "__main__":
    main()
