"""The journal as a topic of a real Kafka, which is stopped and comes back."""

import confluent_kafka
import msgspec
import pytest
import trio
from support.broker import Kafka
from support.waiting import eventually

from proxy.config.schema import Address
from proxy.journal.journal import Journal, JournalEvent
from proxy.journal.journal_topic import TopicSink
from proxy.metrics.registry import Metrics
from proxy.transport.tcp_stream import open_tcp
from translation.actions import Event, EventKind

LIMIT = 10
PARTITIONS = 3


def read(bootstrap: str, topic: str, wanted: int) -> list[tuple[bytes | None, int, JournalEvent]]:
    """Key, partition and event of each record."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "check.crcs": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    found = []
    while len(found) < wanted:
        record = consumer.poll(10)
        assert record is not None, f"{len(found)} of {wanted} records"
        event = msgspec.json.decode(record.value(), type=JournalEvent, strict=True)
        found.append((record.key(), record.partition(), event))
    assert consumer.poll(0.5) is None
    consumer.close()
    return found


@pytest.mark.kafka
async def test_a_broker_that_is_away_costs_events_and_nobody_waits(own_kafka):
    cluster = await trio.to_thread.run_sync(own_kafka)
    kafka = Kafka(cluster.bootstrap, source="own", version="")
    topic = await trio.to_thread.run_sync(lambda: kafka.new_topic("journal", partitions=PARTITIONS))
    metrics = Metrics()
    sink = TopicSink(topic, lambda: [Address.parse(cluster.bootstrap)], open_tcp)
    journal = Journal(
        [sink], replica="host", boot="b", queue_events=LIMIT, queue_max_bytes=2**30, metrics=metrics
    )

    def tell(count: int) -> None:
        for number in range(count):
            journal.record(
                Event(kind=EventKind.JOINED, group_id=f"g-{number % 4}", member_id="m"), "translate", 1
            )

    def count(name: str) -> float:
        return metrics.registry.get_sample_value(f"epochgate_journal_{name}_total", {"sink": "topic"})

    async def until(name: str, wanted: float) -> None:
        what = f"{wanted} {name}"
        await trio.to_thread.run_sync(
            lambda: eventually(lambda: count(name) >= wanted, what=what, timeout_s=90)
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        journal.record_marker("started", 1)
        tell(8)
        await until("events", 9)
        await trio.to_thread.run_sync(lambda: cluster.stop_broker(1))
        tell(LIMIT + 5)
        assert count("events_lost") == 5, "what does not fit is lost at once: nobody waits"
        await until("errors", 1)
        await trio.to_thread.run_sync(lambda: cluster.start_broker(1))
        await until("events", 9 + LIMIT + 1)
        nursery.cancel_scope.cancel()

    records = await trio.to_thread.run_sync(lambda: read(cluster.bootstrap, topic, 9 + LIMIT + 1))
    events = sorted((event for _, _, event in records), key=lambda event: event.seq)
    assert [event.seq for event in events] == [*range(1, 9 + LIMIT + 1), 9 + LIMIT + 5 + 1]
    assert (events[-1].kind, events[-1].reason) == ("lost", "5")
    homes: dict[bytes | None, set[int]] = {}
    for key, partition, event in records:
        assert key == (event.group.encode() or None)
        homes.setdefault(key, set()).add(partition)
    assert all(len(partitions) == 1 for partitions in homes.values()), "a group's events stay in order"
