"""What may change between runs in one folder of progress, and what needs a new checkpoint and a replay."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import of_path
from pipeline.progress import checkpoint
from pipeline.progress.checkpoint import Form

FORM = Form(state=1, pyspark="4.1.1", source="topic journal", window="1 minute", lateness="1 hour")
AUDITED = structs.replace(FORM, skew_us=100_000, delay_s=15.0, shards=4)
FILES = FileSystems(None)  # type: ignore[arg-type]  # local folders need no session


def checked(folder: Path, *forms: Form) -> None:
    for form in forms:
        checkpoint.check(FILES, of_path(folder), form)


@pytest.mark.parametrize(
    "change", [{}, {"pyspark": "4.1.2"}, {"pyspark": "4.2.0"}, {"source": None}, {"shards": 8, "skew_us": 1}]
)
def test_what_may_change(tmp_path: Path, change: dict[str, Any]) -> None:
    checked(tmp_path, FORM, structs.replace(FORM, **change))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"window": "5 minutes"}, "--window was 1 minute and is 5 minutes"),
        ({"lateness": "2 hours"}, "--lateness was 1 hour and is 2 hours"),
        ({"source": "topic other"}, "the journal was topic journal and is topic other"),
        ({"state": 2}, "what the streams keep is of another version of epochgate"),
        ({"pyspark": "4.0.1"}, "it was written by PySpark 4.1.1, and this is 4.0.1"),
        ({"shards": 8}, "--audit-shards was 4 and is 8"),
        ({"skew_us": 1}, "--skew-ms"),
        ({"delay_s": 1.0}, "--audit-delay-s"),
    ],
)
def test_what_needs_a_replay_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(PipelineError, match="--replay") as refused:
        checked(tmp_path, AUDITED, structs.replace(AUDITED, **change))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_audit_that_begins_later_is_compared_from_then_on(tmp_path: Path) -> None:
    """A run without it forgets nothing."""
    checked(tmp_path, FORM, AUDITED, FORM)
    with pytest.raises(PipelineError, match="--audit-shards was 4 and is 5"):
        checked(tmp_path, structs.replace(AUDITED, shards=5))


def test_what_a_killed_run_left_of_a_stream_without_an_offset_is_deleted_and_nothing_else(
    tmp_path: Path,
) -> None:
    """Spark refuses to begin beside an offset that was not renamed yet."""
    unbegun, begun = tmp_path / "windows" / "offsets", tmp_path / "audit" / "offsets"
    for offsets in (unbegun, begun):
        offsets.mkdir(parents=True)
        for name in (".1.c0ffee.tmp", "..1.c0ffee.tmp.crc"):
            (offsets / name).touch()
    (begun / "0").touch()
    (unbegun.parent / "metadata").touch()
    (tmp_path / "form.json").touch()
    checkpoint.forget_unbegun(FILES, of_path(tmp_path))
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()) == [
        "audit/offsets/..1.c0ffee.tmp.crc",
        "audit/offsets/.1.c0ffee.tmp",
        "audit/offsets/0",
        "form.json",
        "windows/metadata",
    ]
    checkpoint.forget_unbegun(FILES, of_path(tmp_path / "not-there"))


def test_a_replay_moves_checkpoints_and_tables_aside_and_nothing_else(tmp_path: Path) -> None:
    for name in ("_checkpoints", "windows", "notes"):
        (tmp_path / name).mkdir()
    aside = checkpoint.set_aside(FILES, of_path(tmp_path), ("_checkpoints", "windows", "pauses"))
    assert aside is not None
    assert aside.local is not None
    assert sorted(one.name for one in aside.local.iterdir()) == ["_checkpoints", "windows"]
    assert sorted(one.name for one in tmp_path.iterdir()) == [aside.local.name, "notes"]
    assert checkpoint.set_aside(FILES, of_path(tmp_path), ("_checkpoints",)) is None
