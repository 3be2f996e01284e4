"""Small inputs for every job of the pipeline, with something of each kind that they treat in a way of its own."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from pipeline.audit import incremental
from pipeline.audit import job as audit
from pipeline.journal import events
from pipeline.location import of_path
from pipeline.progress import job as progress
from pipeline.progress.streams import Audit, Options
from pipeline.readiness import job as readiness
from pipeline.readiness import records, share_partitions
from pipeline.report import job as report
from pipeline.watch import step
from protocol_codecs import Uuid
from protocol_codecs.records import (
    CoordinatorRecord,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareSnapshotKey,
    ShareSnapshotValue,
    encode_share_state_key,
    encode_share_state_value,
)
from tests.pipeline import other_groups
from tests.pipeline.journal_lines import BAD
from tests.pipeline.migration import MS, Migration, Plan
from tests.pipeline.test_bad_records import CLUSTER, Raw, classic, commit, consumer_group, record

BEFORE = "a run before"
"""The last step of what only prepares a job."""
_PLAN = Plan(3, groups=4, rounds=6, violations=1, duplicated=0.03, lost=0.005, skewed_us=250 * MS)


class Inputs(NamedTuple):
    """What jobs read, and where they write."""

    capture: Path
    journal: Path
    growing: Path
    """The same journal, whose last files come later."""
    out: Path


def made(folder: Path) -> Inputs:
    """Write the inputs into a folder."""
    inputs = Inputs(*(folder / name for name in Inputs._fields))
    shared = record(ShareGroupMetadataKey(group_id="shared"), ShareGroupMetadataValue(epoch=1))
    groups = [classic("app"), *consumer_group("new"), shared]
    commits = [commit("app"), commit("app"), commit("simple"), Raw(commit("broken").key, b"")]
    _write(inputs.capture / records.CAPTURED_RECORDS, [*groups, *commits])
    _write(inputs.capture / share_partitions.CAPTURED_SHARE_RECORDS, [_snapshot()])
    Migration(_PLAN).save(inputs.journal, per_file=100)
    other_groups.Journal(6, steps=60).save(inputs.journal)
    (inputs.journal / "bad.b.1.jsonl").write_text("\n".join(BAD) + "\n", encoding="utf-8")
    return inputs


def _write(folder: Path, raws: list[Raw]) -> None:
    """Write a file as `epochgate capture` does: one partition, offsets from 0 on."""
    rows = [(0, offset, 1_790_000_000_000, raw.key, raw.value) for offset, raw in enumerate(raws)]
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_batches([records.CAPTURED.batch(rows)]), folder / "part-00000.parquet")


def _snapshot() -> Raw:
    """Return the state of a share partition."""
    key = ShareSnapshotKey(group_id="shared", topic_id=Uuid(bytes(range(16))), partition=0)
    value = ShareSnapshotValue(
        snapshot_epoch=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=()
    )
    made = CoordinatorRecord(key, value)
    return Raw(encode_share_state_key(made.key), encode_share_state_value(made))


def _readiness(spark: SparkSession, inputs: Inputs) -> None:
    rows = records.captured(spark, inputs.capture)
    share = share_partitions.captured(spark, inputs.capture)
    journal = events.from_files(spark, inputs.journal)
    readiness.run(spark, rows, CLUSTER, inputs.out / "readiness", journal=journal, share_rows=share)


def _audit(spark: SparkSession, inputs: Inputs) -> None:
    audit.run(spark, events.from_files(spark, inputs.journal), inputs.out / "audit")


def _incremental(spark: SparkSession, inputs: Inputs) -> None:
    """Run twice, as on two days. Some files of the first day come on the second: groups are replayed."""
    inputs.growing.mkdir()
    out = inputs.out / "incremental"
    files = sorted(inputs.journal.iterdir())
    for file in files[::2]:
        shutil.copy(file, inputs.growing)
    incremental.run(spark, inputs.growing, out, settle_us=0)
    with step(spark, BEFORE):
        spark.range(1).collect()
    for file in files[1::2]:
        shutil.copy(file, inputs.growing)
    incremental.run(spark, inputs.growing, out, settle_us=0)


def _progress(spark: SparkSession, inputs: Inputs) -> None:
    lines = progress.lines_of_files(spark, inputs.journal)
    options = Options(audit=Audit(shards=2, delay_s=60))
    progress.run(spark, lines, inputs.out / "progress", options, source=of_path(inputs.journal).uri)


def _report(spark: SparkSession, inputs: Inputs) -> None:
    folders = (inputs.out / name for name in ("readiness", "progress", "audit"))
    report.run(spark, inputs.out / "report.html", *folders)


JOBS: dict[str, Callable[[SparkSession, Inputs], None]] = {
    "readiness": _readiness,
    "audit": _audit,
    "incremental audit": _incremental,
    "progress": _progress,
    "report": _report,
}
"""The commands, in the order in which one reads what another wrote."""
