"""The report: one file that needs nothing beside it, with the numbers that the jobs found."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.audit import job as audit
from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.progress import job as progress
from pipeline.report import job as report
from pipeline.report import page
from tests.pipeline.migration import Migration, Plan

pytestmark = pytest.mark.timeout(600)


def test_the_page_tells_what_was_found_and_needs_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    Migration(Plan(11, groups=3, violations=1)).save(tmp_path / "journal")
    found = audit.run(spark, events.from_files(spark, tmp_path / "journal"), tmp_path / "audit")
    progress.run(spark, progress.lines_of_files(spark, tmp_path / "journal"), tmp_path / "progress")

    report.run(spark, tmp_path / "report.html", progress=tmp_path / "progress", audit=tmp_path / "audit")

    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<b>{found.violations}</b><span>partitions owned twice" in text
    assert text.count("<svg") == 3
    assert not re.search(r"<script|<link|src=|@import|url\((?!#)", text)
    assert set(re.findall(r'https?://[^"\s<]*', text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "group-0" in text


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
