"""The journal on a topic that the account of the member log writes: made, refused at first, replaced, and killed."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator

import confluent_kafka
import msgspec
import pytest
import trio
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, ResourceType
from support import ROOT
from support.broker import Kafka
from support.clients import CONFLUENT
from support.entry import Proxy
from support.secured import TlsFiles, allow, secret, secured_cluster
from support.waiting import eventually

from proxy.journal.journal import Journal, JournalError, JournalEvent
from proxy.journal.journal_account import AccountTopicSink
from proxy.journal.journal_messages import PARTITIONS, JournalTopic
from proxy.metrics.registry import Metrics
from translation.actions import Event, EventKind
from translation.partitions import TopicPartitionSet

pytestmark = pytest.mark.kafka

KEEP_BYTES = 400_000_000


def read(bootstrap: str, topic: str) -> Iterator[tuple[int, bytes | None, JournalEvent]]:
    """Partition, key and event of each record that the topic has."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    for number in range(PARTITIONS):
        at = confluent_kafka.TopicPartition(topic, number, 0)
        _, end = consumer.get_watermark_offsets(at, timeout=30)
        consumer.assign([at])
        position = 0
        while position < end:
            record = consumer.poll(30)
            assert record is not None
            assert record.error() is None
            position = record.offset() + 1
            yield number, record.key(), msgspec.json.decode(record.value(), type=JournalEvent, strict=True)
    consumer.close()


async def test_events_wait_for_the_rights_of_the_account_which_then_makes_the_topic(own_kafka, empty_folder):
    cluster = await trio.to_thread.run_sync(
        lambda: own_kafka(**secured_cluster(TlsFiles(empty_folder("journal-account-tls"))))
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    account = {
        "bootstrap.servers": cluster.bootstrap_of("SASL"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "bob",
        "sasl.password": secret("bob"),
    }
    metrics, sink = Metrics(), AccountTopicSink(JournalTopic("journal", 1, KEEP_BYTES), account)
    journal = Journal(
        [sink], replica="pod", boot="b", queue_events=1000, queue_max_bytes=2**30, metrics=metrics
    )
    large = tuple(TopicPartitionSet(f"{'t' * 200}-{number}", None, (0,)) for number in range(5000))

    async def until(name: str, wanted: float) -> None:
        def count() -> float:
            return metrics.registry.get_sample_value(f"epochgate_journal_{name}_total", {"sink": "topic"})

        await trio.to_thread.run_sync(
            lambda: eventually(lambda: count() >= wanted, what=f"{wanted} {name}", timeout_s=90)
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        journal.record_marker("started", 1)
        for number in range(40):
            journal.record(Event(kind=EventKind.JOINED, group_id=f"g-{number % 4}"), "translate", 1)
        await until("errors", 1)
        described = AclOperation.DESCRIBE, AclOperation.WRITE
        allow(admin, "bob", ResourceType.TOPIC, "journal", *described)
        other = AccountTopicSink(JournalTopic("journal", 1), account)
        with pytest.raises(JournalError, match=r"kafka-topics\.sh .*--create --topic journal"):
            await other.write([])
        await other.close()
        allow(admin, "bob", ResourceType.TOPIC, "journal", AclOperation.CREATE)
        await until("events", 41)
        too_large = Event(kind=EventKind.ASSIGNED, group_id="g-0", partitions=large, owned=large)
        journal.record(too_large, "translate", 1)
        nursery.cancel_scope.cancel()

    found = await trio.to_thread.run_sync(lambda: list(read(cluster.bootstrap, "journal")))
    assert sorted(event.seq for _, _, event in found) == list(range(1, 43))
    assert [(event.partitions, event.owned) for *_, event in found if event.seq == 42] == [((), None)]
    homes = defaultdict(list)
    for partition, key, event in found:
        assert key == (event.group.encode() or None)
        homes[event.group].append((partition, event.seq))
    for group, events in homes.items():
        assert len({partition for partition, _ in events}) == 1, group
        assert [seq for _, seq in events] == sorted(seq for _, seq in events), (
            "a group's events stay in order"
        )
    resource = ConfigResource(ResourceType.TOPIC, "journal")
    settings = admin.describe_configs([resource])[resource].result(30)
    assert settings["retention.bytes"].value == str(KEEP_BYTES // PARTITIONS)
    assert (settings["retention.ms"].value, settings["cleanup.policy"].value) == ("-1", "delete")


def test_a_process_that_is_replaced_loses_no_event(kafka: Kafka, consumers, folder, group):
    """SIGTERM in the middle of a rebalance; the process after it has another boot."""
    topic, journal = kafka.new_topic(partitions=6), f"journal-{group}"
    proxy = Proxy(
        kafka.bootstrap,
        folder / "proxy",
        policy="default: translate\n",
        fleet={
            "kafka": {"bootstrap.servers": kafka.bootstrap},
            "topic": f"members-{group}",
            "partitions": 4,
            "replication": 1,
        },
        journal={"topic": journal},
    )
    for turn in range(2):
        proxy.start()
        started = [
            consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range", name=f"c-{turn}-{number}")
            for number in range(3)
        ]
        consumers.wait_until(lambda some=started: any(one.owned() for one in some), "one has partitions")
        proxy.stop()
        for one in started:
            one.kill()

    events = defaultdict(list)
    for _, _, event in read(kafka.bootstrap, journal):
        events[event.boot].append(event)
    assert len(events) == 2
    for of_boot in events.values():
        of_boot.sort(key=lambda event: event.seq)
        assert [event.seq for event in of_boot] == list(range(1, len(of_boot) + 1)), "each once"
        assert (of_boot[0].kind, of_boot[-1].kind) == ("started", "stopped")
        assert any(event.kind == "assigned" for event in of_boot)


def test_a_killed_process_loses_only_the_events_of_its_last_moment(kafka: Kafka, group):
    journal = f"journal-{group}"
    process = subprocess.Popen(
        [sys.executable, __file__, kafka.bootstrap, journal],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    recorded = []
    for text in process.stdout:
        recorded.append(float(text))
        if len(recorded) == 3000:
            break
    killed_at = time.monotonic()
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    recorded += [float(text) for text in rest.splitlines() if text.endswith(tuple("0123456789"))]
    seqs = sorted(event.seq for _, _, event in read(kafka.bootstrap, journal))
    assert seqs == list(range(1, len(seqs) + 1)), "what is missing is the end"
    lost = recorded[len(seqs) :]
    oldest_s = killed_at - lost[0] if lost else 0.0
    print(f"{len(recorded)} events, {len(lost)} lost, those of the last {oldest_s:.2f} s")
    assert len(seqs) > 1000
    assert oldest_s < 5, "a write takes 0.1 s and one answer of the brokers; the machine may be slow"


async def _record_for_ever(bootstrap: str, topic: str) -> None:
    """Record an event each millisecond, and print when."""
    sink = AccountTopicSink(JournalTopic(topic, 1), {"bootstrap.servers": bootstrap})
    journal = Journal(
        [sink], replica="pod", boot="b", queue_events=20_000, queue_max_bytes=2**30, metrics=Metrics()
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        while True:
            journal.record(Event(kind=EventKind.EPOCH_MOVED, group_id="g"), "translate", 1)
            print(time.monotonic(), flush=True)
            await trio.sleep(0.001)


if __name__ == "__main__":
    trio.run(_record_for_ever, *sys.argv[1:])
