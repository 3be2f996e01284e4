"""Share groups on a real broker: what readiness reads from its topics, against what the broker itself answers."""

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.describe_share_group_offsets.v0 import request as describe_offsets
from kio.schema.initialize_share_group_state.v0 import request as initialize
from kio.schema.read_share_group_state.v0 import request as read
from kio.schema.share_group_describe.v1 import request as describe
from kio.schema.write_share_group_state.v0 import request as write
from pyspark.sql import SparkSession
from support import find_broker
from support.broker import Kafka
from support.consumers import ConsumerProcess, Consumers
from support.raw import RawConnection
from support.share import SHARE_CONSUMER, acknowledged, configure_group, deliveries
from support.waiting import eventually

from pipeline import kafka_clients
from pipeline.capture import capture
from pipeline.readiness import cluster, job, records, share_partitions
from pipeline.readiness.output import GROUPS, MEMBERS, SHARE_PARTITIONS
from pipeline.readiness.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from protocol_codecs import uuid_from_text
from tests.skips import Need, without

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

UPDATES_A_SNAPSHOT = 5
WRITTEN = "written-by-the-test"
WITHIN_S = 60.0
Row = dict[str, Any]
Batches = list[tuple[int, int, int, int]]


class Scene:
    """A broker with a share group that consumers use, and one whose state the test writes as a leader would."""

    def __init__(self, kafka: Kafka, consumers: Consumers) -> None:
        self.kafka = kafka
        self.consumers = consumers
        self.topic = kafka.new_topic(partitions=2)
        self.topics = {one.name: one for one in cluster.ask(kafka.bootstrap).topics}
        self.topic_id = uuid.UUID(bytes=bytes(uuid_from_text(self.topics[self.topic].id)))
        self.connection = RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0])

    def start(self, group: str, name: str, mode: str) -> ConsumerProcess:
        spec = {"bootstrap": self.kafka.bootstrap, "group": group, "topic": self.topic, "client_id": name}
        return self.consumers.start(
            SHARE_CONSUMER, self.kafka.bootstrap, group, self.topic, name=name, only={**spec, "mode": mode}
        )

    def consume(self, group: str) -> None:
        """Have some records acknowledged, and others given back by a consumer that is killed."""
        configure_group(self.kafka, group, 15_000)
        first = self.kafka.produce(self.topic, 40)
        reader = self.start(group, "reader", "explicit")
        wanted = {(record.partition, record.offset) for record in first}
        self.consumers.wait_until(
            lambda: wanted <= acknowledged([reader]).keys(), "all are acknowledged", timeout_s=WITHIN_S
        )
        reader.close()
        self.kafka.produce(self.topic, 20)
        victim = self.start(group, "victim", "hold")
        victim.wait_for("records")
        assert list(deliveries([victim]))
        victim.kill()
        self.start(group, "holder", "hold").wait_for("records")

    def wait_until_one_is_left(self, group: str) -> None:
        """Until the killed consumer's session has ended, which moves the group's epoch, and the other one has its part.

        The broker assigns once a second at most, by ``group.share.assignment.interval.ms``.
        """
        asked = describe.ShareGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False)
        eventually(
            lambda: self.connection.call(asked).groups[0],
            lambda told: (
                len(told.members) == 1
                and told.assignment_epoch == told.group_epoch == told.members[0].member_epoch
            ),
            what="the killed consumer is no member any more, and the other has the assignment of the newest epoch",
        )

    def write_states(self, group: str) -> None:
        """Initialize both partitions and write dozens of changes with overlapping batches: several snapshots."""
        dice = random.Random(848)  # noqa: S311 - the same changes each time
        for partition in range(2):
            begin = initialize.PartitionData(partition=partition, state_epoch=3, start_offset=0)
            topic = initialize.InitializeStateData(topic_id=self.topic_id, partitions=(begin,))
            answer = self.connection.call(
                initialize.InitializeShareGroupStateRequest(group_id=group, topics=(topic,))
            )
            assert answer.results[0].partitions[0].error_code == 0, answer
            for number in range(33 + partition):
                batches = []
                for _ in range(dice.randrange(1, 4)):
                    first = 2 * number + dice.randrange(12)
                    batches.append(
                        write.StateBatch(
                            first_offset=first,
                            last_offset=first + dice.randrange(6),
                            delivery_state=dice.choice([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
                            delivery_count=dice.randrange(1, 6),
                        )
                    )
                change = write.PartitionData(
                    partition=partition,
                    state_epoch=3,
                    leader_epoch=0,
                    start_offset=dice.choice([-1, number]),
                    state_batches=tuple(batches),
                )
                answer = self.connection.call(
                    write.WriteShareGroupStateRequest(
                        group_id=group,
                        topics=(write.WriteStateData(topic_id=self.topic_id, partitions=(change,)),),
                    )
                )
                assert answer.results[0].partitions[0].error_code == 0, answer

    def state_of(self, group: str, partition: int, leader_epoch: int) -> tuple[int, int, Batches]:
        """State epoch, start offset and batches, as the broker's share coordinator has them."""
        asked = read.PartitionData(partition=partition, leader_epoch=leader_epoch)
        answer = self.connection.call(
            read.ReadShareGroupStateRequest(
                group_id=group, topics=(read.ReadStateData(topic_id=self.topic_id, partitions=(asked,)),)
            )
        )
        (found,) = answer.results[0].partitions
        assert found.error_code == 0, found
        batches = [
            (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in found.state_batches
        ]
        return found.state_epoch, found.start_offset, batches

    def start_offsets(self, group: str) -> dict[int, int]:
        """The start offset of each partition, as `kafka-share-groups.sh --describe` asks for it."""
        asked = describe_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        answer = self.connection.call(describe_offsets.DescribeShareGroupOffsetsRequest(groups=(asked,)))
        (found,) = answer.groups
        assert found.error_code == 0, found
        return {
            one.partition_index: one.start_offset
            for topic in found.topics
            if topic.topic_name == self.topic
            for one in topic.partitions
        }


@pytest.fixture(scope="module")
def scene(consumers: Consumers) -> Iterator[Scene]:
    overrides = {
        "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_A_SNAPSHOT),
        "group.share.min.session.timeout.ms": "15000",
        "group.share.session.timeout.ms": "15000",  # the killed consumer's session ends before anybody looks
    }
    try:
        with find_broker.own_cluster(f"share-{uuid.uuid4().hex[:8]}", overrides=overrides) as own:
            made = Scene(Kafka(own.bootstrap, source="maven", version=own.version), consumers)
            made.consume("used")
            made.wait_until_one_is_left("used")
            made.write_states(WRITTEN)
            yield made
            made.connection.close()
    except find_broker.NoBrokerError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")


@pytest.fixture(scope="module", params=["captured", "connector"])
def out(request: pytest.FixtureRequest, scene: Scene, spark: SparkSession, tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    at = scene.kafka.bootstrap
    if request.param == "captured":
        copied = capture(at, folder / "capture")
        assert copied.may_read_share_state
        assert (copied.share_records or 0) > 60
        rows, about = records.captured(spark, folder / "capture"), cluster.Cluster.load(folder / "capture")
        share = share_partitions.captured(spark, folder / "capture")
    else:
        about = cluster.ask(at)
        topic = cluster.SHARE_STATE_TOPIC
        assert kafka_clients.may_read(at, topic, {})
        rows = records.from_kafka(spark, at, about.partitions(cluster.OFFSETS_TOPIC))
        share = records.from_kafka(spark, at, about.partitions(topic), None, topic)
    assert job.run(spark, rows, about, folder, share_rows=share).quarantined == {}
    return folder


def rows(spark: SparkSession, table: Any, out: Path) -> list[Row]:
    return [row.asDict(recursive=True) for row in table.read(spark, str(out)).collect()]


def counts(batches: Batches, *, at_least: int = 0) -> dict[int, int]:
    found = dict.fromkeys((AVAILABLE, ACKNOWLEDGED, ARCHIVED), 0)
    for first, last, state, count in batches:
        found[state] += (last - first + 1) * (count >= at_least)
    return found


def test_share_partitions_are_what_the_share_coordinator_says(scene: Scene, out: Path, spark: SparkSession):
    found = {(row["group_id"], row["partition"]): row for row in rows(spark, SHARE_PARTITIONS, out)}

    assert found.keys() == {(group, number) for group in ("used", WRITTEN) for number in range(2)}
    given_back = 0
    for (group, partition), row in found.items():
        epoch, start, batches = scene.state_of(group, partition, row["leader_epoch"])
        by_state = counts(batches)
        assert (row["state_epoch"], row["start_offset"]) == (epoch, start), (group, partition)
        assert row["available"] == by_state[AVAILABLE], (group, partition, batches)
        assert row["acknowledged"] == by_state[ACKNOWLEDGED], (group, partition, batches)
        assert row["archived"] == by_state[ARCHIVED], (group, partition, batches)
        assert row["last_attempt"] == counts(batches, at_least=4)[AVAILABLE], (group, partition, batches)
        assert (row["topic"], row["unreadable_records"]) == (scene.topic, 0)
        assert 0 <= row["snapshot_age_ms"] < 600_000
        given_back += by_state[AVAILABLE] * (group == "used")
    assert given_back > 0, "the killed consumer has given nothing back, so nothing was compared"
    assert all(found[WRITTEN, number]["updates"] < UPDATES_A_SNAPSHOT for number in range(2))
    assert any(found[WRITTEN, number]["updates"] for number in range(2))


def test_start_offsets_are_what_the_groups_coordinator_describes(
    scene: Scene, out: Path, spark: SparkSession
):
    found = rows(spark, SHARE_PARTITIONS, out)

    ours = {row["partition"]: row["start_offset"] for row in found if row["group_id"] == "used"}

    assert ours == scene.start_offsets("used")
    assert any(ours.values())  # a start offset that has moved is written with the next change only


def test_the_group_and_its_members_are_what_the_broker_describes(
    scene: Scene, out: Path, spark: SparkSession
):
    answer = scene.connection.call(
        describe.ShareGroupDescribeRequest(group_ids=("used",), include_authorized_operations=False)
    )
    (told,) = answer.groups
    (group,) = [row for row in rows(spark, GROUPS, out) if row["group_id"] == "used"]
    members = {row["member_id"]: row for row in rows(spark, MEMBERS, out) if row["group_id"] == "used"}

    assert (group["kind"], group["state"], group["protocol"]) == (
        "share",
        told.group_state,
        told.assignor_name,
    )
    assert (group["epoch"], group["assignment_epoch"]) == (told.group_epoch, told.assignment_epoch)
    assert group["members"] == len(told.members) > 0
    assert members.keys() == {member.member_id for member in told.members}
    for member in told.members:
        ours = members[member.member_id]
        assert ours["member_epoch"] == member.member_epoch
        assert (ours["client_id"], ours["client_host"]) == (member.client_id, member.client_host)
        assert ours["subscription"] == sorted(member.subscribed_topic_names)
        assigned = {at.topic_name: sorted(at.partitions) for at in member.assignment.topic_partitions}
        assert {at["topic"]: at["partitions"] for at in ours["assignment"]} == assigned
