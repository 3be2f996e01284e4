"""Makes offsets topics of which nine of ten records are superseded: `python -m benchmarks.pipeline_scale readiness`.

Ten records to each key, in the order in which a capture writes them; one record in twenty-five is a group's own. The
same topic after compaction has the newest record of each key only.
"""

import itertools
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline import BUILD, _metadata
from pipeline.readiness import records
from pipeline.readiness.cluster import Cluster, Topic
from protocol_codecs.records import (
    CoordinatorRecord,
    GroupMetadataKey,
    OffsetCommitKey,
    encode_key,
    encode_value,
)

PARTITIONS, IN_A_ROW, ROWS_A_FILE = 50, 7_000, 500_000
COMMITS, ROUNDS = 24, 10
"""Keys of a group beside its own record, and records of each key."""
_COMMIT = struct.Struct(">hqiHq")
_TIME_MS = 1_790_000_000_000

Row = tuple[int, int, int, bytes, bytes | None]


def capture(size: int, *, compacted: bool = False) -> Path:
    """Return a capture of about so many records, made once; ``compacted``: what compaction leaves of them."""
    folder = BUILD / f"{'compacted' if compacted else 'superseded'}-{size}"
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
            rows += [row for row, newest in told if newest or not compacted]
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


def _partition(
    number: int, groups: int, metadata: dict[tuple[int, int], bytes | None]
) -> Iterator[tuple[Row, bool]]:
    """Return a partition in which every key is written once a round, all groups mixed, and what is newest there."""
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
            yield (number, offset, _TIME_MS, key, value), generation == ROUNDS
            offset += 1
