"""Clients of the member log that librdkafka leaves without a broker: each is replaced. On its own mock cluster."""

from collections import defaultdict
from collections.abc import Iterator

import pytest
import trio
from confluent_kafka import Producer
from support.metadata_relay import MetadataRelay

from proxy.config.fleet import Fleet
from proxy.member_log import log_client, reader_watch
from proxy.member_log.driver import FleetDriver
from proxy.member_log.log_events import LogEvent, RecordRead
from proxy.metrics.registry import Metrics
from translation.member_log.formats import FORMAT_HEADER, FORMATS
from translation.member_log.outputs import Health, JoinTerms, ServeDecision
from translation.member_log.records import member_key

KEY = member_key("payments", "epochgate-1")
TOPIC = "members"
PARTITIONS = 4
PATIENCE_S = 2.0


@pytest.fixture
def relay() -> Iterator[MetadataRelay]:
    """A relay to a mock cluster, which lives as long as the producer that runs it."""
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced", "log_level": 0})
    (broker,) = cluster.list_topics(timeout=30).brokers.values()
    producer = Producer({"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0})
    for partition in range(PARTITIONS):
        header = {FORMAT_HEADER: FORMATS[1].header}
        producer.produce(TOPIC, b"invalid", partition=partition, headers=header)
    assert producer.flush(30) == 0
    with MetadataRelay((broker.host, broker.port)) as relay:
        yield relay


class Watched:
    """A driver, and the offsets that it has read."""

    def __init__(self, relay: MetadataRelay) -> None:
        # With `none` it always happens that librdkafka, once told of no broker, connects to nobody any more. By default
        # it begins at bootstrap.servers again, but for a race (issue 5301).
        kafka = {
            "bootstrap.servers": relay.bootstrap,
            "metadata.recovery.strategy": "none",
            "topic.metadata.refresh.interval.ms": 300,
        }
        fleet = Fleet(topic=TOPIC, partitions=PARTITIONS, replication=1, kafka=kafka)
        self.metrics = Metrics()
        self.driver = FleetDriver(fleet, dict(kafka), self.metrics)
        self.offsets: defaultdict[int, list[int]] = defaultdict(list)
        self._heard = trio.Event()
        self._client = self.driver._client
        self._hand_on = self._client._handle
        self._client._handle = self._hear

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        await self.driver.run(*[lambda _: None] * 3, task_status=task_status)

    def _hear(self, events: list[LogEvent]) -> None:
        for event in events:
            if isinstance(event, RecordRead):
                self.offsets[event.partition].append(event.offset)
        self._hand_on(events)
        self._heard.set()

    async def until(self, holds, within_s: float = 30.0) -> None:
        with trio.fail_after(within_s):
            while not holds():
                self._heard = trio.Event()
                with trio.move_on_after(0.2):
                    await self._heard.wait()

    @property
    def ready(self) -> int:
        return sum(self.driver.log.health(number) is Health.READY for number in range(PARTITIONS))

    @property
    def replacements(self) -> float | None:
        return self.metrics.registry.get_sample_value("epochgate_fleet_reader_replacements_total")


async def test_clients_that_were_told_of_no_broker_are_replaced(relay, monkeypatch):
    monkeypatch.setattr(reader_watch, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(log_client, "MODULE", "tests.integration.support.mock_cluster_log_child")
    watched = Watched(relay)
    async with trio.open_nursery() as nursery:
        await nursery.start(watched.run)
        await watched.until(lambda: watched.ready == PARTITIONS)
        assert watched.replacements == 0
        relay.names_brokers = False
        await watched.until(lambda: relay.reading_or_writing == 0)
        relay.names_brokers = True
        assert watched.driver.log.claim(KEY, 1, trio.current_time(), JoinTerms()) is ServeDecision.PENDING
        watched.driver.carry_out()
        await watched.until(lambda: watched.ready < PARTITIONS)
        await watched.until(lambda: watched.ready == PARTITIONS)
        assert watched.replacements > 0
        for offsets in watched.offsets.values():
            assert offsets == list(range(1, 1 + len(offsets)))
        nursery.cancel_scope.cancel()
