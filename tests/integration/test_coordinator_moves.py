"""Coordinators that move: while members are converted in place, and when aiokafka asks for committed offsets."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v2.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v3.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.offset_fetch.v3.response import OffsetFetchResponse
from support.broker import Kafka
from support.entry import Entry, running_proxy
from support.leaders import coordinator_of, move_coordinators
from support.moved_group import HELPER, behind_relay
from support.raw import RawConnection
from support.waiting import eventually

from protocol_codecs import ApiKey

pytestmark = pytest.mark.kafka

COMMITTED = 5
PARTITIONS = 6


@pytest.fixture(scope="module")
def kafka(own_kafka_of_module) -> Kafka:
    cluster = own_kafka_of_module(brokers=3)
    return Kafka(cluster.bootstrap, source="coordinators", version=cluster.version)


def move_coordinator(kafka: Kafka, group: str, topic: str) -> None:
    """To the next node, as all others; returns when the one before answers NOT_COORDINATOR, and the next the offset.

    That one answers, without an error, that there is none for as long as it doesn't know the record to be replicated
    (Kafka 4.3.1; half of 25 moves under load). It hears of a new high watermark only once it has loaded the partition
    (CoordinatorRuntime registers its listener then). One that came between that and the last record read stays unknown
    until something else is written there, so this commits another topic's offset until it is known.
    """
    before = coordinator_of(kafka, group)
    move_coordinators(kafka)
    at = OffsetFetchRequestTopic(name=topic, partition_indexes=(0,))
    with RawConnection(before) as connection:
        eventually(
            lambda: connection.call(OffsetFetchRequest(group_id=group, topics=(at,))),
            lambda answer: (answer.error_code, answer.topics) == (ErrorCode.not_coordinator, ()),
            what=f"{before} is the coordinator of {group} no more",
        )
    after = eventually(
        lambda: coordinator_of(kafka, group),
        lambda now: now != before,
        what=f"{group} has another coordinator",
    )
    other = OffsetCommitRequestTopic(
        name=kafka.new_topic(partitions=1),
        partitions=(
            OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=""),
        ),
    )
    with RawConnection(after) as connection:

        def fetched() -> OffsetFetchResponse:
            connection.call(OffsetCommitRequest(group_id=group, member_id="", topics=(other,)))
            return connection.call(OffsetFetchRequest(group_id=group, topics=(at,)))

        eventually(
            fetched,
            lambda answer: answer.topics and answer.topics[0].partitions[0].committed_offset == COMMITTED,
            what=f"the next coordinator of {group} has its offset",
        )


async def offset_before_and_after(kafka: Kafka, entry: Entry) -> tuple[int | None, int | None]:
    """What aiokafka says is committed, before its coordinator moves and afterwards."""
    topic, group = kafka.new_topic(partitions=1), entry.new_group()
    at = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=entry.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([at])
        await consumer.commit({at: COMMITTED})
        before = await consumer.committed(at)
        await asyncio.to_thread(move_coordinator, kafka, group, topic)
        return before, await consumer.committed(at)
    finally:
        await consumer.stop()


def test_aiokafka_takes_a_coordinator_that_has_moved_for_one_without_offsets(kafka):
    """Straight at the brokers: from here on it reads everything again, or what is new only."""
    entry = Entry("direct", kafka.bootstrap)
    assert asyncio.run(offset_before_and_after(kafka, entry)) == (COMMITTED, None)


@pytest.mark.parametrize(("mode", "found"), [("observe", None), ("translate", COMMITTED)])
def test_in_a_translated_group_aiokafka_finds_its_offsets_after_the_coordinator_moved(
    kafka, folder, mode, found
):
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        entry = Entry(mode, proxy.bootstrap)
        assert asyncio.run(offset_before_and_after(kafka, entry)) == (COMMITTED, found)


# -- in the middle of a conversion -----------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["the helper", "a member"])
def test_the_coordinator_moves_while_a_heartbeat_that_converts_is_on_its_way(kafka, folder, group, of):
    """The one before refuses it, the next one has loaded a classic group, or one that is converted by half."""
    with behind_relay(kafka, folder, group, PARTITIONS) as moved, ThreadPoolExecutor(1) as beside:
        clients = moved.group.form(session_timeout_ms=30_000, rebalance_timeout_ms=60_000)
        words = HELPER if of == "the helper" else clients[-1].member_id
        before = coordinator_of(kafka, group)
        hold = moved.relay.hold(ApiKey.CONSUMER_GROUP_HEARTBEAT, words)
        moved.policy("translate")
        moved.until_held(hold)
        moving = beside.submit(move_coordinators, kafka)
        moved.group.until(moving.done, "the coordinators have moved", timeout_s=90)
        moving.result()
        assert coordinator_of(kafka, group) != before
        hold.release()
        moved.group.until_translated()
        moved.group.ensure_no_harm()
