"""Measures what a task of readiness does with records: all decoded (as before), or superseded ones dropped first.

`python -m benchmarks.newest_records 1000000 3000000` makes an offsets topic of so many records, ten to each key, in the
order in which a capture writes them, and gives its files to both ways in turn, a Spark task's worth at once. It checks
that both leave the same newest and unreadable records, and prints CPU seconds without the reading. No Spark is needed.
"""

import argparse
import itertools
import random
import resource
import shutil
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline import BUILD, _metadata
from pipeline.readiness import records
from pipeline.readiness.cluster import Cluster, Topic
from pipeline.readiness.newest import newest_rows
from protocol_codecs.records import (
    CoordinatorRecord,
    GroupMetadataKey,
    OffsetCommitKey,
    encode_key,
    encode_value,
)

PARTITIONS, IN_A_ROW, ROWS_A_FILE = 50, 7_000, 500_000
FILES_A_TASK = 6
"""As many as Spark gives to one task: 32 MB of them."""
COMMITS, ROUNDS = 24, 10
"""Keys of a group beside its own record, and records of each key."""
_COMMIT = struct.Struct(">hqiHq")
_TIME_MS = 1_790_000_000_000

Row = tuple[int, int, int, bytes, bytes | None]


def capture(size: int) -> Path:
    """Return a capture of about so many records, made once."""
    folder = BUILD / f"superseded-{size}"
    if (folder / "cluster.json").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / records.CAPTURED.name).mkdir(parents=True)
    groups = size // ROUNDS // (COMMITS + 1)
    metadata = {}
    for members, generation in itertools.product(range(1, 13), range(1, ROUNDS + 1)):
        of_group = CoordinatorRecord(GroupMetadataKey(group=""), _metadata(members, generation))
        metadata[members, generation] = encode_value(of_group)
    partitions = [_partition(number, groups, metadata) for number in range(PARTITIONS)]
    rows: list[Row] = []
    files = 0
    while partitions or rows:
        for one in list(partitions):
            told = list(itertools.islice(one, IN_A_ROW))
            rows += told
            if not told:
                partitions.remove(one)
        while len(rows) >= ROWS_A_FILE or (rows and not partitions):
            table = pa.Table.from_batches([records.CAPTURED.batch(rows[:ROWS_A_FILE])])
            pq.write_table(
                table, folder / records.CAPTURED.name / f"part-{files:05}.parquet", compression="zstd"
            )
            del rows[:ROWS_A_FILE]
            files += 1
    Cluster((Topic("orders", "AAAAAAAAAAAAAAAAAAAAAQ", COMMITS),)).save(folder)
    return folder


def _partition(number: int, groups: int, metadata: dict[tuple[int, int], bytes | None]) -> Iterator[Row]:
    """Return a partition in which every key is written once a round, all groups mixed."""
    chance = random.Random(number)
    keys: list[tuple[bytes, int]] = []
    for group in range(number, groups, PARTITIONS):
        name = f"group-{group:06}"
        keys.append((encode_key(GroupMetadataKey(group=name)), chance.randint(1, 12)))
        commits = (OffsetCommitKey(group=name, topic="orders", partition=at) for at in range(COMMITS))
        keys += [(encode_key(key), 0) for key in commits]
    offset = 0
    for generation in range(1, ROUNDS + 1):
        chance.shuffle(keys)
        for key, members in keys:
            value: bytes | None = _COMMIT.pack(3, chance.randrange(10**9), -1, 0, _TIME_MS)
            if members:
                value = metadata[members, generation]
            elif chance.random() < 0.02:
                value = None
            yield number, offset, _TIME_MS, key, value
            offset += 1


def _decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode every record, as readiness did before it dropped superseded ones."""
    added = records.CHECKED.columns[len(records.CAPTURED.columns) :]
    for batch in batches:
        found = [
            records.check(key, value)
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
        ]
        by_column = list(zip(*found, strict=True)) or [(), (), ()]
        arrays = [batch[column.name].cast(column.kind) for column in records.CAPTURED.columns]
        arrays += [pa.array(values, column.kind) for values, column in zip(by_column, added, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=records.CHECKED.arrow)


Way = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def batches(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    """Return the records of files as Spark gives them to Python."""
    for file in files:
        yield from pq.ParquetFile(file).iter_batches(5_000)


def measured(way: Way, files: Sequence[Path]) -> tuple[pa.Table, float]:
    """Return what a way leaves of the records, and its CPU seconds without the reading."""
    began = time.process_time()
    for _ in batches(files):
        pass
    reading = time.process_time() - began
    left = pa.Table.from_batches(list(way(batches(files))), schema=records.CHECKED.arrow)
    return left, time.process_time() - began - 2 * reading


def judged(left: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the newest record of each key, and all unreadable ones, in order."""
    named = left.filter(left["group_id"].is_valid()).combine_chunks()
    newest = named.take(pa.array(newest_rows(named)))
    place = [("partition", "ascending"), ("offset", "ascending")]
    return newest.sort_by(place), left.filter(left["reason"].is_valid()).sort_by(place)


def row(size: int) -> str:
    """Measure one size, and return its row of the table."""
    folder = capture(size) / records.CAPTURED.name
    files = sorted(folder.glob("*.parquet"))
    before = now = 0.0
    rows = left_rows = 0
    for first in range(0, len(files), FILES_A_TASK):
        task = files[first : first + FILES_A_TASK]
        decoded, its_before = measured(_decode_batches, task)
        left, its_now = measured(records.check_batches, task)
        if judged(decoded) != judged(left):
            raise SystemExit(f"the two ways differ for {task}")
        before, now = before + its_before, now + its_now
        rows, left_rows = rows + len(decoded), left_rows + len(left)
        print(f"{rows:,} records: {before:.1f} and {now:.1f} CPU s", file=sys.stderr, flush=True)
    return f"| {rows:,} | {left_rows:,} | {before:.1f} | {now:.1f} | {before / now:.1f} |"


def main() -> None:
    """Make the captures, run both ways, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.newest_records", description=__doc__)
    parser.add_argument("records", type=int, nargs="*", default=[1_000_000, 3_000_000])
    chosen = parser.parse_args()
    pa.set_cpu_count(1)
    rows = [row(size) for size in chosen.records]
    print("| records | left to shuffle | all decoded, CPU s | superseded dropped, CPU s | ratio |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(rows))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory, with all that is compared: {memory:,} MiB", file=sys.stderr)


if __name__ == "__main__":
    main()
