"""The tables of a run hold all at once; tables of older versions are read, and those of newer ones refused."""

import threading
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from pipeline import runs
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import of_path, parse
from pipeline.publish import Run, run_of
from pipeline.rules.lines import VERSION as JOURNAL_VERSION
from pipeline.tables import TEXT, Column, Table

pytestmark = pytest.mark.timeout(600)

MANIFEST = runs.Manifest(
    tables_version=runs.TABLES_VERSION,
    journal_version=JOURNAL_VERSION,
    run="a",
    command="audit",
    form="parquet",
    parts={"words": ("runs/a/words",)},
)
WORDS = Table("words", "", (Column("word", TEXT, ""),))


def words(spark: SparkSession, folder: Path) -> list[str]:
    return [row["word"] for row in WORDS.read(spark, str(folder)).collect()]


def write(spark: SparkSession, folder: str, *found: str) -> None:
    WORDS.write(spark.createDataFrame([(word,) for word in found], WORDS.ddl).coalesce(1), folder)


def test_a_run_holds_when_it_is_committed_and_its_predecessor_until_the_next_begins(
    spark: SparkSession, tmp_path: Path
) -> None:
    with run_of(spark, tmp_path, "words") as first:
        write(spark, first.folder, "first")
        first.commit([WORDS])
    opened = WORDS.read(spark, str(tmp_path))

    with run_of(spark, tmp_path, "words") as second:
        write(spark, second.folder, "second")
        assert words(spark, tmp_path) == ["first"]
        second.commit([WORDS])
    assert words(spark, tmp_path) == ["second"]
    assert [row["word"] for row in opened.collect()] == ["first"], "who had begun to read may end"

    with run_of(spark, tmp_path, "words"):
        assert [one.name for one in (tmp_path / runs.RUNS).iterdir()] == [second.id]


def test_what_a_killed_run_has_left_is_not_read_and_the_next_run_deletes_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    with run_of(spark, tmp_path, "words") as good:
        write(spark, good.folder, "good")
        good.commit([WORDS])
    write(spark, str(tmp_path / runs.RUNS / "killed"), "half")

    assert words(spark, tmp_path) == ["good"]
    with run_of(spark, tmp_path, "words") as following:
        assert sorted(one.name for one in (tmp_path / runs.RUNS).iterdir()) == [good.id]
        write(spark, following.folder, "following")
        following.commit([WORDS])
    assert words(spark, tmp_path) == ["following"]


def test_a_second_run_into_a_folder_without_real_locks_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("fs.viewfs.mounttable.drivers.link./data", f"file:{tmp_path}")
    folder = parse("viewfs://drivers/data")
    with (
        run_of(spark, folder, "words"),
        pytest.raises(PipelineError, match=r"another run writes to viewfs:.*: end it"),
        run_of(spark, folder, "words", patience_s=0),
    ):
        pytest.fail("two at once")


def test_a_run_whose_folder_another_has_taken_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def taken() -> None:
        raise PipelineError("another run has taken the folder")

    run = Run(spark, of_path(tmp_path), "words", runs.PARQUET, None, taken)
    write(spark, run.folder, "late")

    with pytest.raises(PipelineError, match="another run has taken the folder"):
        run.commit([WORDS])
    assert runs.current(FileSystems(spark), of_path(tmp_path)) is None


def test_the_tables_of_another_command_are_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    runs.replace(FileSystems(spark), of_path(tmp_path), MANIFEST)

    with (
        pytest.raises(PipelineError, match="has the tables of audit: choose another folder"),
        run_of(spark, tmp_path, "words"),
    ):
        pytest.fail("a run began")


def test_tables_that_an_older_version_left_in_the_folder_itself_are_read_until_a_run_replaces_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(spark, str(tmp_path), "old")
    assert words(spark, tmp_path) == ["old"]
    assert WORDS.is_in(spark, tmp_path)

    with run_of(spark, tmp_path, "words") as run:
        write(spark, run.folder, "new")
        run.commit([WORDS])

    assert words(spark, tmp_path) == ["new"]
    assert not (tmp_path / "words").exists(), "nobody takes it for the table that holds"


def test_a_column_that_an_older_version_did_not_write_is_null(spark: SparkSession, tmp_path: Path) -> None:
    with run_of(spark, tmp_path, "words") as run:
        write(spark, run.folder, "one")
        run.commit([WORDS])
    newer = WORDS._replace(columns=(*WORDS.columns, Column("language", TEXT, "")))

    assert [tuple(row) for row in newer.read(spark, str(tmp_path)).collect()] == [("one", None)]


@pytest.mark.parametrize(
    ("what", "version"), [("tables", runs.TABLES_VERSION + 1), ("journal", JOURNAL_VERSION + 1)]
)
def test_tables_of_a_newer_version_are_refused_in_one_line(what: str, version: int) -> None:
    newer = msgspec.structs.replace(MANIFEST, **{f"{what}_version": version})
    content = msgspec.json.encode(msgspec.to_builtins(newer) | {"form": "a form of the future"})

    with pytest.raises(
        PipelineError, match=rf"^at: written by a newer Epochgate \({what} version {version}, known here is"
    ) as told:
        runs.decoded(content, "at")
    assert "\n" not in str(told.value)


def test_a_newer_run_is_not_overwritten_by_an_older_version(spark: SparkSession, tmp_path: Path) -> None:
    newer = msgspec.structs.replace(MANIFEST, tables_version=runs.TABLES_VERSION + 1)
    runs.replace(FileSystems(spark), of_path(tmp_path), newer)

    with pytest.raises(PipelineError, match="newer Epochgate"), run_of(spark, tmp_path, "words"):
        pytest.fail("a run began")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"tables_version": 1, "journal_version": 1}'])
def test_a_manifest_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(PipelineError, match="at: no manifest of a run"):
        runs.decoded(content, "at")


def test_a_reader_of_the_manifest_sees_an_old_one_or_a_new_one(spark: SparkSession, tmp_path: Path) -> None:
    files, folder = FileSystems(spark), of_path(tmp_path)
    large = dict.fromkeys(map(str, range(200)), ("x" * 1000,))
    runs.replace(files, folder, MANIFEST)
    done = threading.Event()

    def replace() -> None:
        for number in range(100):
            runs.replace(files, folder, msgspec.structs.replace(MANIFEST, run=str(number), parts=large))
        done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    while not done.is_set():
        assert runs.current(files, folder) is not None
    writer.join()


def test_a_manifest_is_replaced_in_a_file_system_of_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("fs.viewfs.mounttable.runs.link./data", f"file:{tmp_path}")
    files, folder = FileSystems(spark), parse("viewfs://runs/data")

    for name in ("a", "b"):
        runs.replace(files, folder, msgspec.structs.replace(MANIFEST, run=name))
        found = runs.current(files, folder)
        assert found is not None
        assert found.run == name
    assert sorted(one.name for one in tmp_path.iterdir() if not one.name.startswith(".")) == [runs.MANIFEST]
