"""The pipeline on a real S3 server: the tables in a bucket are those of a local run, and of two drivers one goes on."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from pipeline import runs
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.lease import Lease, Times
from pipeline.location import Location, parse
from pipeline.publish import Run, run_of
from pipeline.single_run import LOCK, single_run
from proxy.runtime.exit_codes import ExitCode
from tests.pipeline.on_disk import rows, tables
from tests.pipeline.s3 import S3
from tests.pipeline.several_commands import run
from tests.pipeline.test_file_systems import prepared
from tests.pipeline.test_runs import MANIFEST, WORDS
from tests.pipeline.test_runs import write as write_words
from tests.skips import Need, not_here, without
from tools.delta_lake.jars import DeltaUnavailableError, ensure_delta
from tools.maven import MavenError
from tools.s3_server import built
from tools.spark_s3.jars import ensure_s3

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def jars() -> dict[str, str]:
    try:
        return {"spark.jars": ",".join(map(str, [*ensure_s3(), *ensure_delta()]))}
    except (MavenError, DeltaUnavailableError) as reason:
        without(Need.KAFKA, f"no jars for S3 or Delta Lake: {reason}")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    program = built.program()
    if program is None:
        not_here("versitygw is not built: python -m tools.s3_server.built")
    server = S3(program, tmp_path_factory.mktemp("s3"))
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.kill()


@pytest.fixture
def bucket(spark: SparkSession, s3: S3, tmp_path: Path) -> Location:
    """A folder of the bucket, for the tests' own session."""
    key, secret = s3.environment.values()
    settings = {name.removeprefix("spark.hadoop."): value for name, value in s3.settings.items()}
    for name, value in (settings | {"fs.s3a.access.key": key, "fs.s3a.secret.key": secret}).items():
        spark.conf.set(name, value)
    return parse(f"s3a://{s3.bucket.name}/{tmp_path.name}")


def test_of_two_writers_one_passes(spark: SparkSession, bucket: Location) -> None:
    files, at = FileSystems(spark), bucket / "file"
    assert files.has_tags(at)
    passed = list[int]()

    def write(number: int) -> None:
        if files.write_over(at, str(number).encode(), None):
            passed.append(number)

    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [str(number).encode() for number in passed] == [files.read(at)]
    assert not files.write_new(at, b"late")

    tag = files.tag(at)
    assert files.write_over(at, b"next", tag)
    assert not files.write_over(at, b"late", tag), "it is not what it was"
    assert files.read(at) == b"next"
    assert files.tag(bucket / "none") is None


def test_a_lock_is_renewed_only_over_what_its_run_has_seen(spark: SparkSession, bucket: Location) -> None:
    files, at = FileSystems(spark), bucket / LOCK
    at_once = Times(expires_s=0, settles_s=0)
    asleep, other = Lease(files, at, at_once), Lease(files, at, at_once)
    assert asleep.try_take()
    seen = files.read(at)
    assert other.try_take(), "it has been the same for long enough"

    assert not asleep._replace(seen)
    assert files.read(at) != seen


def test_a_run_that_slept_while_another_took_its_folder_changes_nothing(
    spark: SparkSession, bucket: Location
) -> None:
    folder = bucket.uri

    def holds_it() -> None:
        """It looked at its lock just before it fell asleep."""

    slept = Run(spark, bucket, "words", runs.PARQUET, None, holds_it)
    write_words(spark, slept.folder, "slept")
    with run_of(spark, bucket, "words") as other:
        write_words(spark, other.folder, "other")
        with (
            pytest.raises(PipelineError, match=r"another run writes to s3a:.*: end it"),
            single_run(spark, bucket, patience_s=0),
        ):
            pytest.fail("two at once")
        other.commit([WORDS])

    with pytest.raises(PipelineError, match=r"_run\.json: another run has replaced it, so this one ends"):
        slept.commit([WORDS])
    assert [row["word"] for row in WORDS.read(spark, folder).collect()] == ["other"]


def test_a_manifest_that_was_written_although_the_answer_was_lost_is_not_refused(
    spark: SparkSession, bucket: Location
) -> None:
    files, after = FileSystems(spark), msgspec.structs.replace(MANIFEST, run="b")
    runs.replace_if(files, bucket, after, None)
    runs.replace_if(files, bucket, after, MANIFEST)  # the call is repeated
    assert runs.current(files, bucket) == after


def test_the_audit_of_a_bucket_is_that_of_a_folder(s3: S3, jars: dict[str, str], tmp_path: Path) -> None:
    prepared(tmp_path)
    source = s3.put(tmp_path, "short")
    local, there = run(
        [("audit", "--journal", f"{at}/journal", "--out", f"{at}/audit") for at in (str(tmp_path), source)],
        s3.settings | jars,
    )
    assert (local.code, there.code) == (ExitCode.PROBLEM_FOUND, ExitCode.PROBLEM_FOUND), there.output
    assert tables(s3.bucket / "short", "audit") == tables(tmp_path, "audit")


def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    """The comparison itself: rows that differ, and windows of which the newest counts."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as parquet  # noqa: PLC0415

    for batch, count in ((2, 5), (10, 7)):
        folder = tmp_path / "windows" / f"batch={batch}"
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"group": ["a"], "from_us": [1], "n": [count]}), folder / "p.parquet")
    assert rows(tmp_path / "windows") == ["{'group': 'a', 'from_us': 1, 'n': 7}"]
