"""Share groups on the embedded broker, in virtual time: what waits, what ends, and where a group begins."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from coordinator.broker import EmbeddedCluster
from coordinator.broker.apis import share_acknowledge, share_fetch
from coordinator.broker.clock import Clock
from coordinator.broker.cluster import NodeAddress
from coordinator.broker.context import RequestScope
from coordinator.config import CoordinatorConfig
from coordinator.share_partitions import AcknowledgeType
from coordinator.share_state import SharePartition
from protocol_codecs import ErrorCode, Uuid
from protocol_codecs import all_messages as m
from protocol_codecs.records import Record, RecordBatch, encode_batch

GROUP = "g"
LOCK_MS = 20_000
NODES = 2


class Cluster:
    """An embedded cluster without sockets, a topic with two partitions, and the state of a group's partitions."""

    def __init__(self, nursery: trio.Nursery, config: CoordinatorConfig, folder: Path | None = None) -> None:
        self.broker = EmbeddedCluster(nodes=NODES, shards=1, coordinator=config, log_directory=folder)
        self.clock = Clock()
        addresses = [NodeAddress(node_id, "127.0.0.1", 9000 + node_id, None) for node_id in range(NODES)]
        self.broker.start(self.clock, addresses)
        for leader in self.broker.share_leaders.values():
            nursery.start_soon(leader.run)
        self.topic_id = self.broker.create_topic("t", 2)
        self.initialize(GROUP)
        self.settle(share_auto_offset_reset="earliest", lock=LOCK_MS)

    def initialize(self, group_id: str) -> None:
        starts = {SharePartition(group_id, self.topic_id, number): -1 for number in (0, 1)}
        self.broker.share_state.initialize(starts, 1, 0)

    def settle(self, *, share_auto_offset_reset: str = "earliest", lock: int = LOCK_MS) -> None:
        settings = {
            "share.auto.offset.reset": share_auto_offset_reset,
            "share.record.lock.duration.ms": str(lock),
        }
        self.broker.set_group_settings(GROUP, settings)

    def produce(self, count: int = 1, partition: int = 0) -> None:
        records = tuple(Record(None, b"x", offset_delta=delta) for delta in range(count))
        self.broker.topics["t"].logs[partition].append(encode_batch(RecordBatch(records)))
        self.broker.notify_records()

    def now(self) -> float:
        return trio.current_time()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with trio.open_nursery() as nursery:
        yield Cluster(nursery, CoordinatorConfig(share_max_sessions=3))
        nursery.cancel_scope.cancel()


class Member:
    """A member with a connection to one node, and its session."""

    connections = 0

    def __init__(
        self, cluster: Cluster, name: str, *, node: int = 0, group: str = GROUP, version: int = 2
    ) -> None:
        Member.connections += 1
        self._cluster = cluster
        self.name = name
        self.group = group
        self.connection = Member.connections
        self.epoch = 0
        self.context = RequestScope(cluster.broker, node, version, name, "/127.0.0.1", self.connection)

    async def fetch(
        self,
        *partitions: int,
        topic_id: Uuid | None = None,
        wait_ms: int = 0,
        min_bytes: int = 1,
        **others: Any,
    ) -> Any:
        topics = (
            m.ShareFetchRequestTopic(
                topic_id=topic_id or self._cluster.topic_id,
                partitions=tuple(m.ShareFetchRequestPartition(partition_index=one) for one in partitions),
            ),
        )
        request = m.ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_records=500,
            batch_size=500,
            topics=topics if partitions else (),
        )
        answer = await share_fetch.serve(self.context, msgspec.structs.replace(request, **others))
        if answer.error_code == ErrorCode.NONE:
            self.epoch += 1
        return answer

    async def acquire(self, *partitions: int, wait_ms: int = 0, **others: Any) -> list[tuple[int, int, int]]:
        """First offset, last offset and delivery count of what one fetch brings."""
        answer = await self.fetch(*partitions, wait_ms=wait_ms, **others)
        assert answer.error_code == ErrorCode.NONE, answer
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for topic in answer.responses
            for partition in topic.partitions
            for one in partition.acquired_records
        ]

    async def acknowledge(self, first: int, last: int, kind: AcknowledgeType, partition: int = 0) -> Any:
        batch = m.ShareAcknowledgeRequestBatch(
            first_offset=first, last_offset=last, acknowledge_types=(kind,)
        )
        request = m.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=(
                m.ShareAcknowledgeRequestTopic(
                    topic_id=self._cluster.topic_id,
                    partitions=(
                        m.ShareAcknowledgeRequestPartition(
                            partition_index=partition, acknowledgement_batches=(batch,)
                        ),
                    ),
                ),
            ),
        )
        answer = await share_acknowledge.serve(self.context, request)
        self.epoch += 1
        return answer

    def disconnect(self) -> None:
        self.context.share_leader.disconnected(self.connection)


async def test_a_fetch_waits_until_there_are_records(autojump_clock: MockClock, cluster: Cluster):
    member = Member(cluster, "a")
    began = cluster.now()

    async def produce_later() -> None:
        await trio.sleep(2)
        cluster.produce()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce_later)
        assert await member.acquire(0, wait_ms=5_000) == [(0, 0, 1)]
    assert cluster.now() - began == pytest.approx(2)


async def test_a_fetch_waits_no_longer_than_it_says(autojump_clock: MockClock, cluster: Cluster):
    began = cluster.now()
    assert await Member(cluster, "a").acquire(0, wait_ms=3_000) == []
    assert cluster.now() - began == pytest.approx(3)


async def test_a_fetch_waits_for_its_least_bytes_and_takes_fewer_in_the_end(
    autojump_clock: MockClock, cluster: Cluster
):
    cluster.produce()
    began = cluster.now()
    assert await Member(cluster, "a").acquire(0, wait_ms=3_000, min_bytes=1_000) == [(0, 0, 1)]
    assert cluster.now() - began == pytest.approx(3)


async def test_a_fetch_waits_for_locks_to_end(autojump_clock: MockClock, cluster: Cluster):
    cluster.produce(3)
    holder, heir = Member(cluster, "a"), Member(cluster, "b")
    began = cluster.now()
    assert await holder.acquire(0) == [(0, 2, 1)]
    assert await heir.acquire(0, wait_ms=60_000) == [(0, 2, 2)]
    assert cluster.now() - began == pytest.approx(LOCK_MS / 1000, abs=0.01)


async def test_a_fetch_waits_for_what_another_releases(autojump_clock: MockClock, cluster: Cluster):
    cluster.produce(3)
    holder, heir = Member(cluster, "a"), Member(cluster, "b")
    await holder.acquire(0)
    found: list[tuple[int, int, int]] = []

    async def inherit() -> None:
        found.extend(await heir.acquire(0, wait_ms=10_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(inherit)
        await trio.sleep(1)
        await holder.acknowledge(1, 2, AcknowledgeType.RELEASE)
    assert found == [(1, 2, 2)]


async def test_a_fetch_waits_for_a_connection_to_end(autojump_clock: MockClock, cluster: Cluster):
    cluster.produce(3)
    holder, heir = Member(cluster, "a"), Member(cluster, "b")
    await holder.acquire(0)
    found: list[tuple[int, int, int]] = []

    async def inherit() -> None:
        found.extend(await heir.acquire(0, wait_ms=10_000))

    began = cluster.now()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inherit)
        await trio.sleep(1)
        holder.disconnect()
    assert found == [(0, 2, 2)]
    assert cluster.now() - began == pytest.approx(1)


async def test_a_renewed_lock_ends_later(autojump_clock: MockClock, cluster: Cluster):
    cluster.produce(1)
    holder, heir = Member(cluster, "a"), Member(cluster, "b")
    await holder.acquire(0)
    began = cluster.now()
    await trio.sleep(10)
    request = m.ShareFetchRequestAcknowledgementBatch(
        first_offset=0, last_offset=0, acknowledge_types=(AcknowledgeType.RENEW,)
    )
    partition = m.ShareFetchRequestPartition(partition_index=0, acknowledgement_batches=(request,))
    topic = m.ShareFetchRequestTopic(topic_id=cluster.topic_id, partitions=(partition,))
    none = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    answer = await holder.fetch(topics=(topic,), is_renew_ack=True, **none)
    assert answer.responses[0].partitions[0].acknowledge_error_code == ErrorCode.NONE
    assert await heir.acquire(0, wait_ms=60_000) == [(0, 0, 2)]
    assert cluster.now() - began == pytest.approx(10 + LOCK_MS / 1000, abs=0.01)


async def test_who_renews_fetches_nothing(autojump_clock: MockClock, cluster: Cluster):
    answer = await Member(cluster, "a").fetch(0, is_renew_ack=True)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_a_group_begins_with_what_comes_unless_it_says_otherwise(
    autojump_clock: MockClock, cluster: Cluster
):
    cluster.produce(2)
    cluster.settle(share_auto_offset_reset="latest")
    member = Member(cluster, "a")
    assert await member.acquire(0) == []
    cluster.produce(1)
    assert await member.acquire() == [(2, 2, 1)]


async def test_a_group_may_begin_with_what_is_there(autojump_clock: MockClock, cluster: Cluster):
    cluster.produce(2)
    cluster.settle(share_auto_offset_reset="earliest")
    assert await Member(cluster, "a").acquire(0) == [(0, 1, 1)]


async def test_a_node_names_the_leader_of_a_partition_that_is_not_its_own(
    autojump_clock: MockClock, cluster: Cluster
):
    answer = await Member(cluster, "a").fetch(1)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 0)
    assert [(node.node_id, node.port) for node in answer.node_endpoints] == [(1, 9001)]


async def test_partitions_that_do_not_exist(autojump_clock: MockClock, cluster: Cluster):
    codes = [
        (await Member(cluster, name).fetch(number, topic_id=topic_id)).responses[0].partitions[0].error_code
        for name, number, topic_id in (("a", 7, None), ("b", 0, Uuid(b"x" * 16)))
    ]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


async def test_a_share_partition_without_state_can_not_be_read(autojump_clock: MockClock, cluster: Cluster):
    answer = await Member(cluster, "a", group="another").fetch(0)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_no_more_sessions_than_are_allowed(autojump_clock: MockClock, cluster: Cluster):
    for name in ("a", "b", "c"):
        await Member(cluster, name).acquire(0)
    began = cluster.now()
    answer = await Member(cluster, "d").fetch(0, wait_ms=500)
    assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert cluster.now() - began == pytest.approx(0.5)


@pytest.mark.parametrize("change", [{"group_id": None}, {"member_id": ""}, {"member_id": "m" * 37}])
async def test_who_asks_has_to_be_named(
    autojump_clock: MockClock, cluster: Cluster, change: dict[str, object]
):
    answer = await Member(cluster, "a").fetch(0, **change)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_records_of_a_deleted_topic_are_gone(autojump_clock: MockClock, cluster: Cluster):
    cluster.produce(3)
    member = Member(cluster, "a")
    await member.acquire(0)
    cluster.broker.delete_topic("t")
    answer = await member.fetch()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert cluster.broker.share_state.partitions == {}


async def test_who_fetches_while_the_topic_is_deleted_hears_of_it_next_time(
    autojump_clock: MockClock, cluster: Cluster
):
    member = Member(cluster, "a")

    async def delete_later() -> None:
        await trio.sleep(1)
        cluster.broker.delete_topic("t")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(delete_later)
        assert await member.acquire(0, wait_ms=2_000) == []
    answer = await member.fetch()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_state_that_somebody_has_replaced_fences_the_share_partition(
    autojump_clock: MockClock, cluster: Cluster
):
    cluster.produce(3)
    member = Member(cluster, "a")
    await member.acquire(0)
    key = SharePartition(GROUP, cluster.topic_id, 0)
    cluster.broker.share_state.initialize({key: 1}, 2, 0)

    answer = await member.acknowledge(0, 2, AcknowledgeType.ACCEPT)

    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await member.acquire() == [(1, 2, 1)]


async def test_settings_of_a_group_hold_from_the_next_fetch_on(autojump_clock: MockClock, cluster: Cluster):
    cluster.produce(1)
    member, heir = Member(cluster, "a"), Member(cluster, "b")
    await member.acquire(0)
    await member.acknowledge(0, 0, AcknowledgeType.ACCEPT)
    cluster.settle(lock=15_000)
    cluster.produce(1)
    began = cluster.now()
    answer = await member.fetch()
    assert answer.acquisition_lock_timeout_ms == 15_000
    assert await heir.acquire(0, wait_ms=60_000) == [(1, 1, 2)]
    assert cluster.now() - began == pytest.approx(15, abs=0.01)


async def test_what_was_acknowledged_survives_a_restart(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
):
    async with trio.open_nursery() as nursery:
        first = Cluster(nursery, CoordinatorConfig(), tmp_path)
        first.produce(4)
        member = Member(first, "a")
        await member.acquire(0)
        await member.acknowledge(0, 0, AcknowledgeType.ACCEPT)
        await member.acknowledge(2, 2, AcknowledgeType.RELEASE)
        first.broker.stop()
        nursery.cancel_scope.cancel()

    again = EmbeddedCluster(nodes=NODES, shards=1, log_directory=tmp_path)
    again.start(
        Clock(), [NodeAddress(node_id, "127.0.0.1", 9000 + node_id, None) for node_id in range(NODES)]
    )
    assert again.cluster_id == first.broker.cluster_id
    assert again.topics["t"].image == first.broker.topics["t"].image
    assert again.group_settings == first.broker.group_settings
    led = again.share_leaders[0].led(SharePartition(GROUP, first.topic_id, 0))
    assert (led.in_flight.start_offset, led.in_flight.next_fetch_offset()) == (1, 1)
    assert led.log.next_offset == 4
    again.stop()
