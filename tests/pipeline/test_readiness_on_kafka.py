"""Readiness on a real broker: captured and through the connector, against what Kafka's own admin client says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.broker import Kafka
from support.consumers import Consumers
from typer.testing import CliRunner

from pipeline.capture import capture
from pipeline.readiness import cluster, job, records
from pipeline.readiness.output import GROUPS, MEMBERS, NOT_READY, OFFSETS, READY, REMARK, VERDICTS, WAVES
from proxy.cli import command_line
from tests.pipeline.fleet import DELETED, Fleet
from tools.java_admin import dump

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

ROW = dict[str, Any]


@pytest.fixture(scope="module")
def told(
    kafka: Kafka, consumers: Consumers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ROW]]:
    """What the Java admin client says of a fleet in which nothing moves any more."""
    fleet = Fleet(kafka, consumers)
    yield dump.groups(kafka.bootstrap, tmp_path_factory.mktemp("java") / "log", kafka.version)
    fleet.close()


@pytest.fixture(scope="module", params=["captured", "connector"])
def out(
    request: pytest.FixtureRequest,
    told: dict[str, ROW],
    kafka: Kafka,
    spark: SparkSession,
    tmp_path_factory: Any,
) -> Path:
    """The tables of readiness, from files and through Spark's connector."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "captured":
        assert capture(kafka.bootstrap, folder / "capture").records > 0
        rows = records.captured(spark, folder / "capture")
        about = cluster.Cluster.load(folder / "capture")
    else:
        about = cluster.ask(kafka.bootstrap)
        rows = records.from_kafka(spark, kafka.bootstrap, about.partitions(cluster.OFFSETS_TOPIC))
    summary = job.run(spark, rows, about, folder)
    assert summary.quarantined == {}
    return folder


def rows(spark: SparkSession, table: Any, out: Path) -> list[ROW]:
    return [row.asDict(recursive=True) for row in table.read(spark, str(out)).collect()]


def test_there_are_enough_groups_of_every_kind(told: dict[str, ROW]) -> None:
    assert len(told) >= 30
    assert {one["protocol_type"] for one in told.values()} == {"consumer", "connect", ""}
    assert {one["type"] for one in told.values()} == {"Classic", "Consumer"}
    assert {one["state"] for one in told.values()} == {"Stable", "Empty"}


def test_groups_equal_what_the_admin_client_says(
    told: dict[str, ROW], out: Path, spark: SparkSession
) -> None:
    found = {row["group_id"]: row for row in rows(spark, GROUPS, out)}

    assert found.keys() == told.keys()
    assert not found.keys() & set(DELETED)
    for group, said in told.items():
        ours = found[group]
        assert ours["kind"] == ("simple" if not said["protocol_type"] else said["type"].lower()), group
        for name in ("protocol_type", "state", "protocol"):
            assert ours[name] == said[name], (group, name)
        assert ours["state"] == said["listed_state"], group
        assert ours["members"] == len(said["members"]), group
        assert ours["partitions"] == len(said["offsets"]), group
        if said["type"] == "Consumer":
            assert ours["epoch"] == said["epoch"], group
            assert ours["assignment_epoch"] == said["assignment_epoch"], group


def test_members_equal_what_the_admin_client_says(
    told: dict[str, ROW], out: Path, spark: SparkSession
) -> None:
    found = {(row["group_id"], row["member_id"]): row for row in rows(spark, MEMBERS, out)}

    assert found.keys() == {
        (group, one["member_id"]) for group, said in told.items() for one in said["members"]
    }
    for group, said in told.items():
        for member in said["members"]:
            ours = found[group, member["member_id"]]
            for name in ("instance_id", "client_id", "client_host", "member_epoch"):
                assert ours[name] == member[name], (group, name)
            if said["type"] == "Consumer":
                assert ours["rack"] == member["rack"], group
                assert ours["reconciled"], group
                assert (ours["protocol"] == "consumer") == member["upgraded"], group
                assert by_topic(ours["target"]) == member["target"], group
            if said["protocol_type"] == "consumer":
                assert by_topic(ours["assignment"]) == member["assignment"], group


def by_topic(partitions: list[ROW]) -> dict[str, list[int]]:
    return {at["topic"]: at["partitions"] for at in partitions}


def test_offsets_equal_what_the_admin_client_says(
    told: dict[str, ROW], out: Path, spark: SparkSession
) -> None:
    names = ("topic", "partition", "committed_offset", "leader_epoch", "metadata")
    found = {(row["group_id"], *(row[name] for name in names)) for row in rows(spark, OFFSETS, out)}

    assert found == {
        (group, *(offset[name] for name in names))
        for group, said in told.items()
        for offset in said["offsets"]
    }


def test_verdicts_tell_each_kind_apart(told: dict[str, ROW], out: Path, spark: SparkSession) -> None:
    found = {row["group_id"]: row for row in rows(spark, VERDICTS, out)}

    def verdict(group: str) -> tuple[str, list[str]]:
        return found[group]["verdict"], [reason["code"] for reason in found[group]["reasons"]]

    assert found.keys() == told.keys()
    beyond_the_brokers = (REMARK, ["session_timeout"])  # which is 6 s on a broker for tests
    assert verdict("range-0") == beyond_the_brokers
    assert verdict("static-1") == beyond_the_brokers
    assert verdict("java-cooperative") == (REMARK, ["racks", "session_timeout"])
    assert verdict("emptied") == (READY, [])
    assert verdict("connect-0") == (NOT_READY, ["connect", "session_timeout"])
    assert verdict("new-1") == (REMARK, ["already_new"])
    assert verdict("simple-2") == (REMARK, ["simple"])
    assert verdict("patient") == beyond_the_brokers
    assert verdict("sticky-0") == beyond_the_brokers


def test_the_proxy_takes_the_policy_of_each_wave(out: Path, spark: SparkSession) -> None:
    waves = rows(spark, WAVES, out)
    assert len({row["wave"] for row in waves}) > 1
    for wave in {row["wave"] for row in waves}:
        count = sum(row["wave"] <= wave for row in waves)
        answer = CliRunner().invoke(
            command_line(), ["policy", "check", str(out / job.POLICY / f"wave-{wave:02}.yaml")]
        )
        assert answer.exit_code == 0, answer.output
        assert f"good, {count} rules, default observe" in answer.output
