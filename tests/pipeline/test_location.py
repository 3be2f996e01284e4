"""What a place may be called: a local path, or a URI of one of Hadoop's file systems, without secrets in it."""

from pathlib import Path

import pytest

from pipeline import location
from pipeline.errors import PipelineError

HERE = Path.cwd()


@pytest.mark.parametrize(
    ("text", "uri", "shown"),
    [
        ("journal", f"file:{HERE}/journal", "journal"),
        ("journal/", f"file:{HERE}/journal", "journal"),
        ("./a:/b", f"file:{HERE}/a:/b", "a:/b"),
        ("2026-11-26T10:00", f"file:{HERE}/2026-11-26T10:00", "2026-11-26T10:00"),
        ("/mnt/a b%20ü", "file:/mnt/a b%20ü", "/mnt/a b%20ü"),
        ("file:/mnt/a b%20ü/", "file:/mnt/a b%20ü", "file:/mnt/a b%20ü"),
        ("file:///mnt/x", "file:/mnt/x", "file:///mnt/x"),
        ("file://localhost/mnt/x", "file:/mnt/x", "file://localhost/mnt/x"),
        ("FILE:/x", "file:/x", "FILE:/x"),
        ("s3a://bucket/", "s3a://bucket", "s3a://bucket"),
        ("S3A://bucket/a//b/", "s3a://bucket/a//b", "s3a://bucket/a//b"),
        ("hdfs:/a", "hdfs:/a", "hdfs:/a"),
        ("hdfs:///a", "hdfs:/a", "hdfs:/a"),
        ("hdfs://[::1]:8020/a", "hdfs://[::1]:8020/a", "hdfs://[::1]:8020/a"),
        (
            "abfss://container@account.dfs/a",
            "abfss://container@account.dfs/a",
            "abfss://container@account.dfs/a",
        ),
    ],
)
def test_a_place_has_a_scheme_for_spark_and_is_shown_as_it_was_written(
    text: str, uri: str, shown: str
) -> None:
    place = location.parse(text)
    assert (place.uri, str(place)) == (uri, shown)
    assert (place / "t").uri == f"{uri}/t"
    assert str(place / "t") == f"{shown}/t"
    assert (place.local is None) == (not uri.startswith("file:"))


def test_the_root_of_a_file_system_is_a_place() -> None:
    assert location.parse("file:///").local == Path("/")
    assert [(location.parse(text) / "t").uri for text in ("/", "hdfs:/", "s3a://b")] == [
        "file:/t",
        "hdfs:/t",
        "s3a://b/t",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the place is empty"),
        (" ", "the place is empty"),
        ("a\0b", "not valid UTF-8, or has a NUL"),
        ("a\udcff", "not valid UTF-8, or has a NUL"),
        ("s3a:///folder", "names no bucket: expected s3a://BUCKET/folder"),
        ("abfss:///folder", "names no account"),
        ("file://mnt/x", "'mnt' stands where a host would"),
    ],
)
def test_what_is_no_place_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        location.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3a://KEY:SECRET@bucket/a",
        "s3a://SECRET@bucket",
        "hdfs://SECRET@namenode/a",
        "abfss://c:SECRET@account/a",
        "abfss://SECRET@c@account/a",
    ],
)
def test_a_secret_in_a_uri_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(PipelineError, match="does not belong into a URI") as raised:
        location.parse(text)
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize("character", "{}[]*?\\")
def test_what_spark_takes_for_a_pattern_is_no_folder_of_tables(character: str) -> None:
    with pytest.raises(PipelineError, match="for a pattern"):
        location.parse_folder(f"/a{character}b")


def test_commands_without_spark_know_local_places_only() -> None:
    assert location.parse_local("capture/") == Path("capture")
    assert location.parse_local("file:///mnt/a%20b") == Path("/mnt/a%20b")
    with pytest.raises(PipelineError, match=r"s3a://bucket/x: this command works without Spark"):
        location.parse_local("s3a://bucket/x")
