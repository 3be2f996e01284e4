"""The live audit as a stream: the shards of the groups are Spark's state, and the driver judges what they tell.

Each part of the journal that a task reads is split once; a shard gets a row of each. A shard's state is one row of
Spark's state store. No timers are needed, since processes write events every few seconds.

``transformWithState`` would write the groups that have events only. It starts a Python worker beside the driver at each
start of a stream, and gives it ten seconds, which is no setting: on a busy machine ten starts of ten failed.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.progress.output import LIVE_OVERLAPS
from pipeline.rules.classes import VIOLATION
from pipeline.rules.judge import Judge, Judged
from pipeline.rules.shard import Key, Shard, Told, split
from pipeline.tables import BYTES, INT, TEXT, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

    Frame = Any  # of Pandas, which has no types of its own

PARTS = Table("parts", "", (Column("shard", INT, ""), Column("source", TEXT, ""), Column("part", BYTES, "")))
"""What a part of the journal has for a shard."""

TOLD = Table("told", "", (Column("shard", INT, ""), Column("told", BYTES, "")))
"""What a shard tells, encoded."""

STATE = "shard binary, groups binary"
"""A shard's state: what it knows of all processes, and its groups."""

JUDGES = "judge"
"""Folder beside the checkpoints with what is known of clocks, a file for each of the newest batches."""

_KEPT_FILES = 20
_TOLD = msgspec.msgpack.Decoder(Told)
_GROUPS = msgspec.msgpack.Decoder(dict[str, bytes])
_FILE = ".jsonl"


class Rules(NamedTuple):
    """What the shards go by."""

    shards: int
    skew_us: int
    delay_us: int
    files_at_once: int | None = None
    """Files that a batch has at most; one that has so many may leave others for the next."""


def told(lines: "DataFrame", rules: Rules) -> "DataFrame":
    """Return what the shards tell of a stream of lines: a row for each shard and batch."""
    parts = lines.select("source", "at_partition", "line").mapInArrow(_splitting(rules.shards), PARTS.ddl)
    return parts.groupBy("shard").applyInPandasWithState(
        _taking(rules), TOLD.ddl, STATE, "append", "NoTimeout"
    )


def place_of(source: str, partition: int | None) -> str:
    """Return where a line comes from: a partition of the topic, or the process whose files these are."""
    if partition is not None:
        return f"{source}/{partition}"
    return source.removesuffix(_FILE).rpartition(".")[0] or source


def _splitting(shards: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places: dict[tuple[str, str], list[bytes | None]] = {}
            columns = (batch[name].to_pylist() for name in ("source", "at_partition", "line"))
            for source, partition, line in zip(*columns, strict=True):
                file = source if partition is None else ""
                places.setdefault((file, place_of(source, partition)), []).append(line)
            for (file, place), lines in places.items():
                parts = split(place, lines, shards)
                yield PARTS.batch((shard, file, part) for shard, part in enumerate(parts))

    return split_batches


def _taking(rules: Rules) -> "Callable[[Any, Iterable[Frame], GroupState], Iterator[Frame]]":
    def take(key: Any, frames: "Iterable[Frame]", state: "GroupState") -> "Iterator[Frame]":
        yield take_parts(key[0], frames, state, rules)

    return take


def take_parts(number: int, frames: "Iterable[Frame]", state: "GroupState", rules: Rules) -> "Frame":
    """Take the parts of a batch through a shard; return what it tells, as one row."""
    import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415 - executors alone need it here

    parts: list[bytes] = []
    files: set[str] = set()
    for frame in frames:
        parts += map(bytes, frame["part"])
        files |= set(frame["source"])
    more = rules.files_at_once is not None and len(files) >= rules.files_at_once
    saved = state.getOption
    groups = _Groups() if saved is None else _Groups(_GROUPS.decode(saved[1]))
    before = None if saved is None else bytes(saved[0])
    shard = Shard(before, groups, skew_us=rules.skew_us, delay_us=rules.delay_us)
    content = msgspec.msgpack.encode(shard.take(parts, more=more))
    state.update((shard.save(), msgspec.msgpack.encode(dict(groups))))
    return pd.DataFrame({"shard": [number], "told": [content]})


class _Groups(dict[str, bytes]):
    """The groups of a shard while it takes a batch."""

    def put(self, group: str, content: bytes) -> None:
        self[group] = content

    def remove(self, group: str) -> None:
        self.pop(group, None)


class LiveAudit:
    """Judges on the driver what the shards told, and writes it. A batch that is repeated replaces itself."""

    def __init__(self, spark: "SparkSession", out: Location, checkpoints: Location, *, skew_us: int) -> None:
        self._spark = spark
        self._files = FileSystems(spark)
        self._out = out
        self._judges = checkpoints / JUDGES
        self._skew_us = skew_us
        self._told_of: dict[Key, str] = {}
        """The class of what was told in this run."""
        self.counts: dict[str, int] = {}
        """How often a class was told or counted, of all the time."""
        self.standing: dict[str, int] = {}
        """Violations that hold by now, by what may still change that."""
        self.told: dict[int, Told] = {}
        """What each shard told last."""
        self._files.make_folder(self._judges)

    @property
    def violations(self) -> int:
        """Return how many were told in this run and not taken back."""
        return sum(known == VIOLATION for known in self._told_of.values())

    def write(self, batch: "DataFrame", number: int) -> None:
        """Take one batch of :func:`told`. There are as many rows as shards."""
        told_now = {row["shard"]: _TOLD.decode(bytes(row["told"])) for row in batch.collect()}
        judge = Judge(self._judge_before(number), skew_us=self._skew_us)
        found = judge.judge(told_now.values())
        if found:
            told_us = time.time_ns() // 1000
            rows = self._spark.createDataFrame([_row(one, told_us) for one in found], LIVE_OVERLAPS.ddl)
            rows.coalesce(1).write.mode("overwrite").parquet(
                f"{self._out.uri}/{LIVE_OVERLAPS.name}/batch={number}"
            )
        self._files.write(self._judges / str(number), judge.save())
        self._files.delete(self._judges / str(number - _KEPT_FILES))
        self.told |= told_now
        self.counts, self.standing = dict(judge.counts), judge.violations
        self._told_of |= {one.key: one.overlap_class for one in found}

    def _judge_before(self, number: int) -> bytes | None:
        """Return what was known before this batch; of batches that were written but not finished nothing counts."""
        written = [int(name) for name in self._files.names(self._judges) if name.isdigit()]
        before = max((one for one in written if one < number), default=None)
        return None if before is None else self._files.read(self._judges / str(before))


def _row(judged: Judged, told_us: int) -> tuple[Any, ...]:
    values = judged.about | {
        "group": judged.group,
        "class": judged.overlap_class,
        "pending": judged.pending,
        "until_us": None if judged.is_open else judged.about["until_us"],
        "told_us": told_us,
    }
    return tuple(values[name] for name in LIVE_OVERLAPS.names)
