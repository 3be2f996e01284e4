"""A real migration with faults: the audit finds what the plain checker finds, and exactly what was planted."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.journal import events
from pipeline.readiness import software
from tests.pipeline.real_journal import KEPT, PLANTS, audited, checked, kept, save

pytestmark = pytest.mark.timeout(600)


def test_it_has_a_migration_there_and_back_and_faults() -> None:
    written = kept()
    protocols = [event["protocol"] for event in written if event["kind"] == "joined"]
    first, last = protocols.index("translated"), len(protocols) - protocols[::-1].index("translated")
    assert "classic" in protocols[:first]
    assert "classic" in protocols[last:]
    boots = {(event["replica"], event["boot"]) for event in written}
    ended = {(event["replica"], event["boot"]) for event in written if event["kind"] == "stopped"}
    assert len(boots - ended) >= 5, "proxies were killed"
    kinds = Counter(event["kind"] for event in written)
    assert min(kinds[kind] for kind in ("adopted", "session_expired", "revoked", "left", "call_refused")) >= 5
    assert KEPT.stat().st_size < 300_000


def test_it_tells_the_software_of_the_clients(spark: SparkSession, tmp_path: Path) -> None:
    (group,) = software.of_groups(events.from_files(spark, save(kept(), tmp_path / "journal"))).collect()
    assert group["group_id"].startswith("jepsen-")
    assert [name.split("/")[0] for name in group["software"]] == [
        "apache-kafka-java",
        "confluent-kafka-python",
        "kafka-python",
    ]


@pytest.mark.parametrize("fault", PLANTS)
def test_audit_and_checker_find_what_was_planted_and_nothing_else(
    fault: str, spark: SparkSession, tmp_path: Path
) -> None:
    planted, expected = PLANTS[fault](kept())
    source = save(planted, tmp_path / "journal")

    ours, plain = audited(spark, source, tmp_path / "out"), checked(source)

    assert ours == plain
    assert ours.violations == expected
    assert len(ours.gaps) > 200
    assert ("clock" in {one[-1] for one in ours.overlaps}) == (fault == "skewed clock")
