"""Share and streams groups and those of Kafka Connect, in progress and report: beside the rest, and as they are."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from pipeline.audit import job as audit
from pipeline.audit.output import GAPS, OVERLAPS
from pipeline.journal import events
from pipeline.progress import job as progress
from pipeline.progress.output import OTHER_GROUPS, OTHER_MEMBERS
from pipeline.report import facts, page
from pipeline.report.others import names
from tests.pipeline import other_groups
from tests.pipeline.checker import read
from tests.pipeline.migration import Migration, Plan

pytestmark = pytest.mark.timeout(600)

SEEDS = (0, 1)
MIGRATION = Plan(21, groups=3, rounds=6, violations=1)


def rows(spark: SparkSession, table: Any, out: Path) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.read(spark, str(out)).collect()]


def followed(spark: SparkSession, journal: Path, out: Path) -> progress.Summary:
    return progress.run(spark, progress.lines_of_files(spark, journal), out)


def audited(spark: SparkSession, journal: Path, out: Path) -> tuple[list[str], list[str]]:
    """Overlaps and gaps."""
    audit.run(spark, events.from_files(spark, journal), out)
    overlaps, gaps = (sorted(map(str, rows(spark, table, out))) for table in (OVERLAPS, GAPS))
    return overlaps, gaps


class Run(NamedTuple):
    """A run over a journal of such groups alone."""

    journal: Path
    out: Path
    summary: progress.Summary


@pytest.fixture(scope="module", params=SEEDS)
def run(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: Any) -> Run:
    folder = tmp_path_factory.mktemp("others")
    other_groups.Journal(request.param).save(folder / "journal")
    summary = followed(spark, folder / "journal", folder / "out")
    return Run(folder / "journal", folder / "out", summary)


def test_groups_and_members_are_what_the_plain_checker_finds(spark: SparkSession, run: Run) -> None:
    written = read(run.journal)
    found = {row.pop("group"): row for row in rows(spark, OTHER_GROUPS, run.out)}
    assert found == other_groups.groups(written)
    assert (run.summary.groups, run.summary.other_groups) == (0, {"share": 2, "streams": 1, "connect": 2})
    told = ("protocol", "state", "updated_us", "url", "config_offset", "is_leader")
    members = {
        (row["group"], row["member"]): {name: row[name] for name in told}
        | {
            "assignment": [
                (one["topic"], number, one["role"])
                for one in row["assignment"]
                for number in one["partitions"]
            ]
        }
        for row in rows(spark, OTHER_MEMBERS, run.out)
    }
    assert members == other_groups.members(written)
    assert {row["protocol"] for row in members.values()} == other_groups.OTHERS


def test_the_figures_of_the_migration_are_those_without_such_groups(
    spark: SparkSession, tmp_path: Path
) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        Migration(MIGRATION).save(folder)
    other_groups.Journal(4).save(together)

    summaries = [followed(spark, folder, tmp_path / f"{folder.name}-out") for folder in (alone, together)]
    before, after = (facts.progress(spark, tmp_path / f"{folder.name}-out") for folder in (alone, together))

    assert summaries[0].groups == summaries[1].groups == MIGRATION.groups
    assert (summaries[0].other_groups, before.others.groups) == ({}, [])
    assert sum(row["groups"] for row in after.others.totals) == len(other_groups.GROUPS)
    for part in ("fleet", "pauses", "quantiles", "worst", "convergence"):
        assert getattr(after, part) == getattr(before, part), part
    audits = [audited(spark, folder, tmp_path / f"{folder.name}-audit") for folder in (alone, together)]
    assert audits[0] == audits[1]
    assert any("violation" in overlap for overlap in audits[0][0])


def test_the_page_lists_groups_and_members(spark: SparkSession, run: Run) -> None:
    found = facts.progress(spark, run.out)

    text = page.rendered(None, found, None)
    assert "<b>5</b><span>groups of other protocols" in text
    for group in found.others.groups:
        assert f"<code>{group['group']}</code>" in text
        assert (group["leader_url"] or "") in text
    for member in found.others.members:
        assert f"<code>{member['member']}</code>" in text
        assert member["has"] in text
        assert (member["url"] or "") in text
    assert any(member["is_leader"] for member in found.others.members)
    assert "(leader)" in text
    assert "Not all are listed here" not in text


@pytest.mark.parametrize(
    ("topic", "role", "numbers", "expected"),
    [
        ("orders", None, [1, 0], ["orders-0", "orders-1"]),
        ("", None, [3], ["id-3"]),
        ("0", "active", [1], ["0_1"]),
        ("0", "warm_up", [1], ["0_1 (warm-up)"]),
        ("sink", "connect", [-1, 0], ["sink", "sink-0"]),
    ],
)
def test_what_a_member_has_is_named_as_kafka_names_it(
    topic: str, role: str | None, numbers: list[int], expected: list[str]
) -> None:
    assert names([{"topic": topic, "id": "id", "partitions": numbers, "role": role}]) == expected


def test_nothing_is_named_of_what_is_not_known() -> None:
    assert names(None) == []
