"""Every command reads and writes where a URI says: in a file system that is not the local one, and by `file:`.

The other file system is Hadoop's viewfs, whose `/data` is a local folder: what takes a path of it for a local one finds
nothing there.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems, NotThereError
from pipeline.lease import Lease, Times
from pipeline.location import Location, of_path, parse
from pipeline.readiness import records
from pipeline.single_run import LOCK, single_run
from proxy.runtime.exit_codes import ExitCode
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.several_commands import run
from tests.pipeline.test_bad_records import CLUSTER, classic
from tests.pipeline.test_share_partitions import share_group, write

pytestmark = pytest.mark.timeout(600)

NAME = "a b%20ü"
"""A name in which something would change, if anybody decoded or encoded it."""
MOUNT = "spark.hadoop.fs.viewfs.mounttable.demo.link./data"
QUICK = Times(expires_s=1.5, renewed_every_s=0.2, settles_s=0.05, look_s=0.05)


def prepared(folder: Path) -> None:
    """A journal with one violation, and a capture."""
    Migration(Plan(11, groups=2, violations=1)).save(folder / "journal")
    ready = [(one.key, one.value) for one in (classic("app"), classic("web"))]
    write(folder / "capture", records.CAPTURED_RECORDS, [*ready, share_group("shared", 1)])
    CLUSTER.save(folder / "capture")


def test_a_command_reads_and_writes_where_its_uris_say(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    prepared(folder)
    at = f"viewfs://demo/data/{NAME}"

    audit, report = run(
        [
            ("audit", "--journal", f"{at}/journal/", "--out", f"{at}/audit"),
            ("report", "--audit", f"{at}/audit", "--out", f"file:{folder}/page.html"),
        ],
        {MOUNT: f"file:{tmp_path}"},
    )

    assert audit.code == ExitCode.PROBLEM_FOUND, audit.output
    assert report.code == ExitCode.SUCCESS, report.output
    assert "<b>1</b><span>partition owned twice" in (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("root", ["viewfs://demo/data", "file:{}"])
def test_every_command_takes_uris(tmp_path: Path, root: str) -> None:
    folder = tmp_path / NAME
    prepared(folder)
    at = f"{root.format(tmp_path)}/{NAME}"

    readiness, progress, again, audit, report = run(
        [
            ("readiness", "--capture", f"{at}/capture", "--journal", f"{at}/journal", "--out", f"{at}/ready"),
            ("progress", "--journal", f"{at}/journal", "--out", f"{at}/progress"),
            ("progress", "--journal", f"{at}/journal", "--out", f"{at}/progress", "-o", "json"),
            ("audit", "--journal", f"{at}/journal/", "--out", f"{at}/audit"),
            (
                *("report", "--readiness", f"{at}/ready", "--progress", f"{at}/progress"),
                *("--audit", f"{at}/audit", "--out", f"{at}/page.html"),
            ),
        ],
        {MOUNT: f"file:{tmp_path}"},
    )

    assert readiness.code == ExitCode.SUCCESS, readiness.output
    assert f"policy files in {at}/ready/policy" in readiness.output
    assert 'group: "app"' in (folder / "ready" / "policy" / "wave-01.yaml").read_text(encoding="utf-8")
    assert progress.code == ExitCode.SUCCESS, progress.output
    assert again.code == ExitCode.SUCCESS, again.output
    assert '"groups": 2' in again.output
    assert audit.code == ExitCode.PROBLEM_FOUND, audit.output
    assert "owned twice: 1" in audit.output
    assert report.code == ExitCode.SUCCESS, report.output
    assert "<b>1</b><span>partition owned twice" in (folder / "page.html").read_text(encoding="utf-8")
    assert sorted(one.name for one in tmp_path.iterdir()) == [NAME], "nothing was written elsewhere"


def test_an_error_of_a_file_system_is_one_line(tmp_path: Path) -> None:
    prepared(tmp_path)
    journal = tmp_path / "journal"
    cases = [
        ((f"s3a://bucket/{NAME}", "out"), r"error: s3a://bucket/a b%20ü: the file .*:hadoop-aws:3\.\d+\.\d+ "),
        (("abfss://c@account/x", "out"), r"error: .*packages=org\.apache\.hadoop:hadoop-azure:"),
        (("gs://bucket/x", "out"), r"error: .*packages=\S+(hadoop-gcp|gcs-connector):"),
        (("s3://bucket/x", "out"), r"error: s3://bucket/x: Hadoop has no file system for s3: here; write s3a:"),
        (("nonsense://x/y", "out"), r"error: nonsense://x/y: Hadoop has no file system for nonsense: here"),
        (("viewfs://demo/data/none", "out"), r"error: viewfs://demo/data/none is not a folder"),
        ((journal, "viewfs://demo/new"), r"error: viewfs://demo/new: permission denied: .*readonly"),
        ((journal, "hdfs://127.0.0.1:1/new"), r"error: hdfs://127\.0\.0\.1:1/new: cannot be reached: "),
    ]  # fmt: skip
    answers = run(
        [
            ("audit", "--journal", source, "--out", tmp_path / out if out == "out" else out)
            for (source, out), _ in cases
        ],
        {MOUNT: f"file:{tmp_path}", "spark.hadoop.ipc.client.connect.max.retries": "0"},
    )
    for (_, pattern), answer in zip(cases, answers, strict=True):
        assert answer.code == ExitCode.FAILED, answer.output
        (line,) = [one for one in answer.output.splitlines() if one.startswith("error")]
        assert re.match(pattern, line), line
        assert "Traceback" not in answer.output


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> Location:
    """A folder in a file system without locks: the local folder of this test."""
    host = tmp_path.name.replace("_", "-")  # of this test alone, since Hadoop keeps file systems
    spark.conf.set(f"fs.viewfs.mounttable.{host}.link./data", f"file:{tmp_path}")
    return parse(f"viewfs://{host}/data")


def test_small_files_are_read_and_written_in_both(
    spark: SparkSession, tmp_path: Path, elsewhere: Location
) -> None:
    files = FileSystems(spark)
    for folder in (of_path(tmp_path / "here"), elsewhere / "there"):
        assert not files.is_folder(folder)
        files.make_folder(folder / NAME)
        assert files.is_folder(folder / NAME)
        files.write(folder / "b.yaml", b"long\x00\xff")
        files.write(folder / "b.yaml", b"\xff")
        assert files.read(folder / "b.yaml") == b"\xff"
        assert [name for name in files.names(folder) if not name.endswith(".crc")] == [NAME, "b.yaml"]
        files.delete(folder / "b.yaml")
        files.delete(folder / "b.yaml")
        with pytest.raises(NotThereError, match=r"b\.yaml: not there"):
            files.read(folder / "b.yaml")
    assert not list((tmp_path / "here").rglob("*.crc")), (
        "local files have no checksum that an editor would break"
    )


def test_one_run_at_a_time_where_there_are_no_locks(spark: SparkSession, elsewhere: Location) -> None:
    with (
        single_run(spark, elsewhere, times=QUICK) as check,
        pytest.raises(PipelineError, match=r"another run writes to viewfs:.*: end it"),
        single_run(spark, elsewhere, patience_s=2 * QUICK.expires_s, times=QUICK),
    ):
        pytest.fail("two at once")
    check()
    assert LOCK not in FileSystems(spark).names(elsewhere)
    with single_run(spark, elsewhere, patience_s=0, times=QUICK):
        pass


def test_the_lock_of_a_killed_run_is_taken_when_it_does_not_change(
    spark: SparkSession, elsewhere: Location
) -> None:
    killed = Lease(FileSystems(spark), elsewhere / LOCK, QUICK)
    assert killed.try_take()
    with single_run(spark, elsewhere, times=QUICK) as check:
        check()
        with pytest.raises(PipelineError, match="another run has taken the folder, so this one ends"):
            killed.check()


def test_a_run_that_cannot_renew_its_lock_ends(spark: SparkSession, elsewhere: Location) -> None:
    lock = Lease(FileSystems(spark), elsewhere / LOCK, QUICK._replace(expires_s=0))
    assert lock.try_take()
    with pytest.raises(PipelineError, match="cannot be renewed, so another run may take the folder"):
        lock.check()


def test_a_run_whose_folder_another_has_taken_ends(spark: SparkSession, elsewhere: Location) -> None:
    files = FileSystems(spark)
    with single_run(spark, elsewhere, times=QUICK) as check:
        check()
        files.write(elsewhere / LOCK, b"another")
        with pytest.raises(PipelineError, match="another run has taken the folder"):
            _until_it_ends(check)
    assert files.read(elsewhere / LOCK) == b"another", "its lock stays"


def test_a_run_that_fails_since_another_has_taken_its_folder_says_so(
    spark: SparkSession, elsewhere: Location
) -> None:
    files = FileSystems(spark)

    def fail(*, taken: bool) -> None:
        with single_run(spark, elsewhere):  # whose renewals come later than this failure
            if taken:
                files.write(elsewhere / LOCK, b"another")
            raise FileNotFoundError("part-0.parquet")

    with pytest.raises(FileNotFoundError):
        fail(taken=False)
    assert LOCK not in files.names(elsewhere)
    with pytest.raises(PipelineError, match="another run has taken the folder, so this one ends") as told:
        fail(taken=True)
    assert isinstance(told.value.__cause__, FileNotFoundError)
    assert files.read(elsewhere / LOCK) == b"another", "its lock stays"


def _until_it_ends(check: Callable[[], None]) -> None:
    deadline = time.monotonic() + QUICK.expires_s / 2
    while time.monotonic() < deadline:
        check()
        time.sleep(QUICK.look_s)
    pytest.fail("it goes on")
