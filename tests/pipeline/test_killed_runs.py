"""A command whose driver is killed leaves the tables of the run before, and a second run ends with the same tables."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import delta, runs
from pipeline.file_systems import FileSystems
from pipeline.location import of_path
from proxy.console.exit_codes import ExitCode
from tests.pipeline.command_line import pipeline
from tests.pipeline.conftest import without
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.several_commands import run
from tests.pipeline.test_incremental_audit import plan, tables
from tools.delta_lake.jars import DeltaUnavailableError, ensure_delta

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.long]

LOOK_S = 0.02
TIMEOUT_S = 600.0
FORMS = (runs.PARQUET, runs.DELTA)


def jars() -> str:
    try:
        return ",".join(map(str, ensure_delta()))
    except DeltaUnavailableError as error:
        without(str(error))
        raise


def killed_when(command: list[str], reached: Callable[[], bool]) -> None:
    """Start a command and kill its driver, Python and Java, as soon as it has come so far."""
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not reached():
            assert process.poll() is None, "it ended before it came so far"
            assert time.monotonic() < deadline, "it does not come so far"
            time.sleep(LOOK_S)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def new_run(out: Path) -> Path | None:
    """The folder of a run that is not the one that holds."""
    held = json.loads((out / runs.MANIFEST).read_bytes())["run"]
    return next((one for one in (out / runs.RUNS).glob("*") if one.name != held), None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("at", ["writing", "committing"])
def test_an_audit_that_is_killed_is_repeated(
    spark: SparkSession, tmp_path: Path, form: runs.Form, at: str
) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    Migration(Plan(1, groups=2, rounds=3)).save(journal)
    settings = {"spark.jars": jars()}
    options = ("--journal", journal, "--format", form, "--incremental")
    assert [one.code for one in run([("audit", *options, "--out", out)], settings)] == [ExitCode.SUCCESS]
    first = tables(spark, out)
    files = FileSystems(spark)
    before = runs.current(files, of_path(out))
    assert before is not None
    Migration(plan(2)._replace(prefix="b-")).save(journal / "more", per_file=100)

    def is_writing() -> bool:
        folder = new_run(out)
        return folder is not None and (folder / "groups").is_dir()

    def is_committing() -> bool:
        folder = new_run(out)
        if form == runs.PARQUET:  # the manifest is all that is left
            return folder is not None and (folder / "quality" / "_SUCCESS").exists()
        at = of_path(out) / "intervals"
        return delta.latest_version(files, at) != before.versions["intervals"]

    reached = is_writing if at == "writing" else is_committing
    killed_when(pipeline("audit", *options, "--out", out, spark_jars=settings["spark.jars"]), reached)

    after = runs.current(files, of_path(out))
    if after == before:
        assert tables(spark, out) == first
    else:  # the manifest was written before the signal came
        assert form == runs.PARQUET
        assert at == "committing"
    again, whole = run(
        [("audit", *options, "--out", out), ("audit", "--journal", journal, "--out", tmp_path / "whole")],
        settings,
    )
    assert again.code == whole.code == ExitCode.PROBLEM_FOUND, again.output + whole.output
    assert tables(spark, out) == tables(spark, tmp_path / "whole")
    assert len(tables(spark, out)["intervals"]) > len(first["intervals"])


def test_the_commands_write_and_read_delta_lake(tmp_path: Path) -> None:
    journal, out = tmp_path / "journal", tmp_path / "audit"
    Migration(Plan(11, groups=2, rounds=4, violations=1)).save(journal)
    settings = {"spark.jars": jars()}

    audit, again, show, compact, vacuum, report, plain = run(
        [
            ("audit", "--journal", journal, "--out", out, "--format", "delta"),
            ("audit", "--journal", journal, "--out", out, "--format", "delta", "--incremental"),
            ("tables", "show", out),
            ("tables", "compact", out),
            ("tables", "vacuum", out, "--keep-hours", "168"),
            ("report", "--audit", out, "--out", tmp_path / "page.html"),
            ("tables", "show", tmp_path / "nothing"),
        ],
        settings,
    )
    assert audit.code == again.code == ExitCode.PROBLEM_FOUND, audit.output + again.output
    assert "owned twice: 1" in again.output
    assert show.code == ExitCode.SUCCESS, show.output
    assert "good: events" in show.output
    assert "intervals version 1" in show.output
    assert compact.code == vacuum.code == ExitCode.SUCCESS, compact.output + vacuum.output
    assert report.code == ExitCode.SUCCESS, report.output
    assert "<b>1</b><span>partitions owned twice" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert plain.code == ExitCode.FAILED
    assert "no run of readiness or audit has written tables there" in plain.output

    (without_jars,) = run([("report", "--audit", out, "--out", tmp_path / "other.html")])
    assert without_jars.code == ExitCode.FAILED
    assert "error: Delta Lake is not in this Spark session: add --conf spark.jars.packages=io.delta:" in (
        without_jars.output
    )
