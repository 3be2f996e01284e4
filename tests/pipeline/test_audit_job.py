"""The audit on Spark: the same findings as the independent checker's, and nothing that cannot be read is dropped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import upkeep
from pipeline.audit import job
from pipeline.audit.output import GAPS, LOSSES, OVERLAPS, PROCESSES, TABLES
from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.location import of_path
from pipeline.quality import QUALITY
from pipeline.quarantine import QUARANTINE
from pipeline.readiness.output import GROUPS
from tests.pipeline.checker import Check, read
from tests.pipeline.command_line import JAVA_OPTIONS, pipeline
from tests.pipeline.journal_lines import BAD, BAD_SNAPSHOT, GOOD
from tests.pipeline.migration import MS, Migration, Plan
from tests.pipeline.standalone import cluster

pytestmark = pytest.mark.timeout(1_200)

SKEW_US = 100 * MS
FAULTY = Plan(3, violations=3, duplicated=0.03, lost=0.005, skewed_us=250 * MS, prefix="host.domain-")


def test_findings_equal_the_checkers(spark: SparkSession, tmp_path: Path) -> None:
    migration = Migration(FAULTY)
    migration.save(tmp_path / "journal", disorder=30, per_file=400)
    check = Check(read(tmp_path / "journal"), SKEW_US)

    lines = events.from_files(spark, tmp_path / "journal")
    summary = job.run(spark, lines, tmp_path / "out", skew_us=SKEW_US)

    names = ("group", "topic", "partition", "first_member", "second_member", "from_us", "until_us", "class")
    out = str(tmp_path / "out")
    assert {
        tuple(row[name] for name in names) for row in OVERLAPS.read(spark, out).collect()
    } == check.overlaps
    gap_names = ("group", "topic", "partition", "from_us", "until_us")
    assert {tuple(row[name] for name in gap_names) for row in GAPS.read(spark, out).collect()} == check.gaps
    assert summary.violations >= 1
    assert summary.quarantined == {}
    events_here = len(read(tmp_path / "journal"))
    assert summary.events == events_here
    assert summary.lost == sum(row["last_seq"] for row in PROCESSES.read(spark, out).collect()) - events_here
    assert LOSSES.read(spark, out).count() > 0
    verdicts = quality(spark, tmp_path / "out")
    assert (verdicts["events"], verdicts["unknown_versions"]) == ("good", "good")
    assert (verdicts["lost_events"], verdicts["clocks_apart_us"]) == ("look", "look")
    held = upkeep.show(spark, of_path(tmp_path / "out"))
    assert {check["check"]: check["verdict"] for check in held.quality} == verdicts


def quality(spark: SparkSession, out: Path) -> dict[str, str]:
    """The verdict of each check."""
    return {row["check"]: row["verdict"] for row in QUALITY.read(spark, str(out)).collect()}


def test_bad_lines_are_set_aside_with_their_reason(spark: SparkSession, tmp_path: Path) -> None:
    future_field = json.dumps({**GOOD, "new_field": [1]})
    (tmp_path / "r.b.1.jsonl").write_text(
        "\n".join([future_field, *BAD, BAD_SNAPSHOT]) + "\n", encoding="utf-8"
    )
    (tmp_path / "_r.b.2.jsonl").write_text("being written", encoding="utf-8")

    summary = job.run(spark, events.from_files(spark, tmp_path), tmp_path / "out")

    found = QUARANTINE.read(spark, str(tmp_path / "out")).collect()
    reasons = {(bytes(row["content"]).decode(), row["reason"]) for row in found}
    assert reasons >= set(BAD.items())
    ((left),) = reasons - set(BAD.items())
    assert "owned" in left[1]
    assert sum(summary.quarantined.values()) == len(BAD) + 1
    assert summary.events == 2
    verdicts = quality(spark, tmp_path / "out")
    assert (verdicts["unknown_versions"], verdicts["quarantined"]) == ("bad", "bad")
    assert all(table.is_in(spark, tmp_path / "out") for table in TABLES)
    assert not GROUPS.is_in(spark, tmp_path / "out")
    with pytest.raises(PipelineError, match="has no table 'groups'"):
        GROUPS.read(spark, str(tmp_path / "out"))


def test_a_cluster_of_two_workers_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    Migration(FAULTY).save(tmp_path / "journal", disorder=30, per_file=400)
    here = job.run(spark, events.from_files(spark, tmp_path / "journal"), tmp_path / "here", skew_us=SKEW_US)

    with cluster(tmp_path, memory="1g", java_options=JAVA_OPTIONS) as master:
        command = pipeline(
            "audit", "--journal", tmp_path / "journal", "--out", tmp_path / "there",
            master=master, spark_executor_memory="512m", spark_driver_host="127.0.0.1", spark_ui_enabled="false",
        )  # fmt: skip
        own = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env=own)

    assert answer.returncode == 3, answer.stderr[-3000:]
    assert f"owned twice: {here.violations}\n" in answer.stdout
    for table in (OVERLAPS, GAPS):
        ours, theirs = (
            sorted(map(str, table.read(spark, str(tmp_path / at)).collect())) for at in ("here", "there")
        )
        assert ours == theirs
