"""The report: one file that needs nothing beside it, with the numbers that the jobs found."""

import html
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.audit import job as audit
from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.progress import job as progress
from pipeline.readiness import job as readiness
from pipeline.readiness import records
from pipeline.report import facts, page
from pipeline.report import job as report
from protocol_codecs.records import GroupMetadataKey, GroupMetadataMember, GroupMetadataValue
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.test_bad_records import CLUSTER, Raw, classic, record
from tests.pipeline.test_share_partitions import share_group, write

pytestmark = pytest.mark.timeout(600)


def test_the_page_tells_what_was_found_and_needs_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    Migration(Plan(11, groups=3, violations=1)).save(tmp_path / "journal")
    found = audit.run(spark, events.from_files(spark, tmp_path / "journal"), tmp_path / "audit")
    progress.run(spark, progress.lines_of_files(spark, tmp_path / "journal"), tmp_path / "progress")

    report.run(spark, tmp_path / "report.html", progress=tmp_path / "progress", audit=tmp_path / "audit")

    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert found.violations == 1
    assert "<b>1</b><span>partition owned twice" in text
    assert text.count("<svg") == 4
    assert not re.search(r"<script|<link|src=|@import|url\((?!#)", text)
    assert set(re.findall(r'https?://[^"\s<]*', text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "group-0" in text


def test_groups_that_have_nothing_to_move_to_are_not_among_those_that_cannot(
    spark: SparkSession, tmp_path: Path
) -> None:
    workers = [
        of_type("connect-1", "connect", 2),
        of_type("connect-2", "connect", 1),
        of_type("registry", "sr", 1),
    ]
    consumers = [classic("app"), classic("broken", b"\xff")]
    raws = [(one.key, one.value) for one in (*workers, *consumers)]
    write(tmp_path, records.CAPTURED_RECORDS, [*raws, share_group("shared", 1)])
    summary = readiness.run(spark, records.captured(spark, tmp_path), CLUSTER, tmp_path / "out")

    found = facts.readiness(spark, tmp_path / "out")
    report.run(spark, tmp_path / "report.html", readiness=tmp_path / "out")

    assert summary.other_protocols == {"connect": 2, "share": 1, "sr": 1}
    assert summary.verdicts["not ready"] == 5
    assert found.others == [
        {"protocol": "connect", "groups": 2, "members": 3},
        {"protocol": "share", "groups": 1, "members": 0},
        {"protocol": "sr", "groups": 1, "members": 1},
    ]
    assert sum(row["count"] for row in found.verdicts) == len(consumers)
    assert [row["code"] for row in found.reasons] == ["embedded_unreadable"]
    text = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "<b>1</b><span>group can move" in text
    assert "<b>1</b><span>group can't move yet" in text
    assert "<b>4</b><span>groups of other protocols" in text


def of_type(group: str, protocol_type: str, members: int) -> Raw:
    """A classic group of members that are no consumers."""
    told = tuple(
        GroupMetadataMember(
            member_id=f"m{number}",
            client_id="c",
            client_host="/10.0.0.7",
            session_timeout=10_000,
            subscription=b"\x00\x00",
            assignment=b"",
        )
        for number in range(members)
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=1, protocol="v0", leader="m0", members=told
    )
    return record(GroupMetadataKey(group=group), value)


def test_a_folder_without_tables_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="has no table 'overlaps'"):
        report.run(spark, tmp_path / "report.html", audit=tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ms"),
        (0.25, "0.25 ms"),
        (12.4, "12 ms"),
        (1500, "1.5 s"),
        (150_000, "2.5 min"),
        (9_000_000, "2.5 h"),
    ],
)
def test_durations_are_told_in_the_unit_that_suits_them(value: float, text: str) -> None:
    assert page.milliseconds(value) == text
