"""From a capture to a moved fleet: readiness judges live groups of many clients, and the policy that is made of it
moves each group that it names, wave after wave, and no other. test_waves_of_live_groups.py is short."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from support import find_broker
from support.broker import Kafka
from support.clients import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON, ClientKind
from support.consumers import Consumers
from support.entry import Proxy, running_proxy
from support.other_clients import FRANZ_GO, KAFKA_GO, KAFKAJS, SARAMA
from support.ownership import overlaps
from support.waiting import eventually
from typer.testing import CliRunner

from pipeline.capture import capture
from pipeline.readiness import cluster, job, records
from pipeline.readiness.output import NOT_READY, VERDICTS, WAVES
from pipeline.readiness.waves import Limits
from proxy.cli import command_line
from tests.skips import Need, without

PARTITIONS = 2


class Clients(NamedTuple):
    """A group of two: which clients, and whether brokers convert it only while it is empty."""

    group: str
    kind: ClientKind
    assignor: str
    moves: bool = True
    at_once: bool = False


FEW = (
    Clients("of-librdkafka", CONFLUENT, "range"),
    Clients("no", KAFKA_PYTHON, "range"),
    Clients("custom", KAFKA_PYTHON, "look-alike", moves=False),
)
MANY = (
    *FEW,
    Clients("of-java", JAVA, "range"),
    Clients("of-java-cooperative", JAVA, "cooperative-sticky"),
    Clients("sticky", KAFKA_PYTHON, "sticky"),
    Clients("of-aiokafka", AIOKAFKA, "roundrobin"),
    Clients("of-kafkajs", KAFKAJS, "RoundRobinAssigner"),
    Clients("of-franz-go", FRANZ_GO, "cooperative-sticky"),
    Clients("of-sarama", SARAMA, "sticky", at_once=True),
    Clients("of-kafka-go", KAFKA_GO, "rack-affinity", at_once=True),
    Clients("custom-with-data", KAFKA_PYTHON, "with-user-data", moves=False),
)


@pytest.fixture
def own_kafka() -> Iterator[Kafka]:
    """A broker that has no other groups than those of the test."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(find_broker.from_maven())
        except find_broker.NoBrokerError as reason:
            without(Need.KAFKA, f"no Kafka: {reason}")
        yield broker


class Fleet:
    """Live groups behind a proxy, as the broker has them."""

    def __init__(self, kafka: Kafka, proxy: Proxy, consumers: Consumers, groups: tuple[Clients, ...]) -> None:
        self.kafka = kafka
        self._consumers = consumers
        self._members = {
            one.group: [
                consumers.start(
                    one.kind, proxy.bootstrap, one.group, kafka.new_topic(partitions=PARTITIONS), one.assignor
                )
                for _ in range(1)
            ]
            for one in groups
        }
        for one in groups:
            (first,) = self._members[one.group]
            consumers.wait_until(first.owned, f"{one.group} has begun", timeout_s=120)
            topic = next(iter(first.owned())).topic
            second = consumers.start(one.kind, proxy.bootstrap, one.group, topic, one.assignor)
            self._members[one.group].append(second)
        self.wait_until_shared()

    def wait_until_shared(self) -> None:
        """Each group's partitions have an owner, and each member has one of them."""
        for group, members in self._members.items():
            self._consumers.wait_until(
                lambda members=members: [len(one.owned()) for one in members] == [1, 1],
                f"{group} shares its partitions",
                timeout_s=120,
            )

    def is_moved(self, group: str) -> bool:
        """Whether all its members are of the new protocol, at the broker."""
        described = self.kafka.describe(group)
        return described is not None and [one.member_type for one in described.members] == ["consumer"] * 2

    def has_begun(self, group: str) -> bool:
        """Whether any is."""
        described = self.kafka.describe(group)
        return described is not None and any(one.member_type == "consumer" for one in described.members)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("groups", [FEW, MANY], ids=["few", "many"])
@pytest.mark.timeout(600)
def test_each_group_of_a_generated_wave_is_moved_and_no_other(
    groups: tuple[Clients, ...], own_kafka: Kafka, spark: SparkSession, tmp_path: Path
) -> None:
    policy = tmp_path / "proxy" / "policy"
    policy.mkdir(parents=True)
    consumers = Consumers(tmp_path)
    with (
        running_proxy(own_kafka.bootstrap, tmp_path / "proxy", policy_file="policy") as proxy,
        contextlib.closing(_ends(consumers)),
    ):
        fleet = Fleet(own_kafka, proxy, consumers, groups)
        waves = plan(own_kafka, spark, tmp_path, groups)
        assert {group for wave in waves for group in wave} == {one.group for one in groups if one.moves}
        assert len(waves) > 1
        answer = CliRunner().invoke(
            command_line(),
            [
                *("policy", "from-readiness", str(tmp_path / "readiness"), "--out", str(policy)),
                *("--steps", "1,100%", "--hold-s", "0"),
            ],
        )
        assert answer.exit_code == 0, answer.output
        for number, wave in enumerate(waves):
            eventually(
                lambda number=number, wave=wave: follow(fleet, waves, number, wave),
                what=f"wave {number + 1} is moved: {', '.join(wave)}",
                timeout_s=240,
                between_s=0.5,
            )
        fleet.wait_until_shared()
        assert not [one.group for one in groups if not one.moves and fleet.has_begun(one.group)]
        shown = {one["id"]: one for one in api_groups(proxy)}
        moved = {group for wave in waves for group in wave}
        assert {group: shown[group]["why_not"] for group in moved} == dict.fromkeys(moved)
        assert {shown[group]["mode"] for group in moved} == {"translate"}
        assert overlaps(consumers.logs) == []


def follow(fleet: Fleet, waves: list[list[str]], number: int, wave: list[str]) -> bool:
    """Whether a wave is moved. None of a later one has begun before each of this one is translated."""
    began = [group for later in waves[number + 1 :] for group in later if fleet.has_begun(group)]
    is_moved = all(map(fleet.is_moved, wave))
    assert is_moved or not began, f"{began} began before wave {number + 1} was over"
    return is_moved


def plan(kafka: Kafka, spark: SparkSession, folder: Path, groups: tuple[Clients, ...]) -> list[list[str]]:
    """Readiness of a real capture; return the groups of each wave."""
    assert capture(kafka.bootstrap, folder / "capture").records > 0
    rows = records.captured(spark, folder / "capture")
    about = cluster.Cluster.load(folder / "capture")
    half = job.Options(limits=Limits(groups=max(1, len(groups) // 3)))
    job.run(spark, rows, about, folder / "readiness", half)
    tables = str(folder / "readiness")
    found = {row["group_id"]: row["verdict"] for row in VERDICTS.read(spark, tables).collect()}
    assert {group for group, verdict in found.items() if verdict != NOT_READY} == {
        one.group for one in groups if one.moves
    }
    table = sorted(WAVES.read(spark, tables).collect(), key=lambda row: row["position"])
    assert {row["group_id"] for row in table if row["at_once"]} == {
        one.group for one in groups if one.at_once
    }
    waves: list[list[str]] = []
    for row in table:
        if row["wave"] > len(waves):
            waves.append([])
        waves[-1].append(row["group_id"])
    return waves


def api_groups(proxy: Proxy) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{proxy.admin}/api/groups", timeout=30) as answer:  # noqa: S310  the proxy's own
        groups: list[dict[str, Any]] = json.load(answer)["groups"]
    return groups


class _ends:  # noqa: N801  reads as what it does
    """Ends consumers when it is closed."""

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers

    def close(self) -> None:
        self._consumers.end()
