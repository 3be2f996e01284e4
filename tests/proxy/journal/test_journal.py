"""The journal loses events when it must, says so, and never holds anybody up."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from protocol_codecs import ApiKey
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.messages.produce import ProduceResponse
from proxy.config.schema import Address
from proxy.journal.journal import Journal, JournalError, JournalEvent, SinkQueue
from proxy.journal.journal_topic import TopicSink
from proxy.metrics.registry import Metrics
from proxy.wire.framing import response_frame
from tests.proxy.groups.events import event, topic
from tests.proxy.journal.journal_writer import IDENTITY, line
from translation.actions import ConnectWorker, Event, EventKind


class Memory:
    """A sink that the test lets fail or hang."""

    name = "memory"

    def __init__(self) -> None:
        self.written: list[JournalEvent] = []
        self.failing: JournalError | None = None
        self.hanging = trio.Event()
        self.hanging.set()

    async def write(self, events: list[JournalEvent]) -> None:
        await self.hanging.wait()
        if self.failing is not None:
            raise self.failing
        self.written += events

    async def idle(self) -> None:
        pass

    async def close(self) -> None:
        pass


class Bench:
    def __init__(self, sink, limit: int = 100, max_bytes: int = 2**20) -> None:
        self.metrics = Metrics()
        self.sink = sink
        self.journal = Journal(
            [sink], **IDENTITY, queue_events=limit, queue_max_bytes=max_bytes, metrics=self.metrics
        )

    def record(self, count: int = 1, **fields) -> None:
        for _ in range(count):
            self.journal.record(event(EventKind.EPOCH_MOVED, **fields), "translate", 1_000_000)

    def count(self, name: str) -> float:
        labels = {"sink": self.sink.name}
        return self.metrics.registry.get_sample_value(f"epochgate_journal_{name}", labels)


@contextlib.asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.journal.run)
        yield
        nursery.cancel_scope.cancel()


def kinds(written: list[JournalEvent]) -> list[str]:
    return [one.kind for one in written]


async def test_an_event_is_told_with_all_that_the_schema_has(autojump_clock):
    bench = Bench(Memory())
    told = event(
        EventKind.REVOKED,
        instance_id="i",
        client_host="/10.0.0.1",
        software="librdkafka/2.8.0",
        generation=3,
        epoch=5,
        previous_state="Absent",
        partitions=topic(1),
        owned=(),
        reason="why",
    )
    async with running(bench):
        bench.journal.record(told, "translate", 17)
        await trio.sleep(1)
    (line,) = bench.sink.written
    assert msgspec.json.decode(msgspec.json.encode(line)) == {
        "v": 1,
        "replica": "host/0",
        "boot": "b1",
        "seq": 1,
        "time_us": 17,
        "kind": "revoked",
        "group": "g",
        "mode": "translate",
        "protocol": "translated",
        "member": "m-1",
        "instance": "i",
        "client_id": "app-m-1",
        "client_host": "10.0.0.1",
        "software": "librdkafka/2.8.0",
        "generation": 3,
        "epoch": 5,
        "state": "Stable",
        "previous_state": "",
        "partitions": [{"topic": "t", "id": None, "partitions": [1]}],
        "owned": [],
        "reason": "why",
    }


async def test_the_worker_is_in_the_events_of_workers_of_connect_alone(autojump_clock):
    bench = Bench(Memory())
    async with running(bench):
        bench.record()
        bench.record(worker=ConnectWorker("http://w1/", 5, "m-1", "http://w1/", 300_000))
        await trio.sleep(1)
    plain, of_worker = (msgspec.json.decode(msgspec.json.encode(one)) for one in bench.sink.written)
    assert "worker" not in plain
    assert of_worker["worker"] == {
        "url": "http://w1/",
        "config_offset": 5,
        "leader": "m-1",
        "leader_url": "http://w1/",
        "delay_ms": 300_000,
    }


def test_the_documented_fields_and_kinds_are_those_that_are_written():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "journal.md").read_text()
    fields = page.split("## An event")[1].split("## Kinds")[0]
    described = [line.split("`")[1] for line in fields.splitlines() if line.startswith("| `")]
    assert described == list(JournalEvent.__struct_fields__)
    rows = page.split("## Kinds")[1].splitlines()
    named = {kind for line in rows if line.startswith("| `") for kind in line.split("|")[1].split("`")[1::2]}
    assert named == {*map(str, EventKind), "started", "stopped", "alive", "lost"}


async def test_what_does_not_fit_is_lost_and_told_where_it_is_missing(autojump_clock):
    bench = Bench(Memory(), limit=5)
    bench.sink.hanging = trio.Event()
    async with running(bench):
        bench.record()
        await trio.sleep(1)  # it is being written, and that hangs
        bench.record(9)
        assert bench.count("queue_events") == 5
        assert bench.count("events_lost_total") == 4
        bench.sink.hanging.set()
        await trio.sleep(1)
        bench.record()
        await trio.sleep(1)
    assert kinds(bench.sink.written) == ["epoch_moved"] * 6 + ["lost", "epoch_moved"]
    lost = bench.sink.written[6]
    assert (lost.seq, lost.reason) == (11, "4"), "7 to 10 are missing"
    assert [one.seq for one in bench.sink.written] == [1, 2, 3, 4, 5, 6, 11, 12]
    assert bench.count("events_total") == 8


async def test_what_waits_is_bounded_in_memory_too(autojump_clock):
    bench = Bench(Memory(), limit=1000, max_bytes=100_000)
    bench.sink.hanging = trio.Event()
    async with running(bench):
        bench.record()
        await trio.sleep(1)  # it is being written, and that hangs
        bench.record(10, partitions=topic(*range(1000)))
        assert bench.count("queue_events") == 2
        bench.record(10)
        assert bench.count("events_lost_total") == 8
        bench.sink.hanging.set()
        await trio.sleep(1)
        bench.record(2, partitions=topic(*range(1000)))
        await trio.sleep(1)
    assert [one.reason for one in bench.sink.written if one.kind == "lost"] == ["8"]
    assert len(bench.sink.written) == 16, "what was written makes room"


async def test_events_wait_for_a_sink_that_is_away(autojump_clock):
    bench = Bench(Memory())
    bench.sink.failing = JournalError("away", keep=True)
    async with running(bench):
        bench.record(3)
        await trio.sleep(5)
        assert bench.count("errors_total") >= 2
        bench.sink.failing = None
        await trio.sleep(3)
    assert [one.seq for one in bench.sink.written] == [1, 2, 3]
    assert bench.count("events_lost_total") == 0


async def test_events_that_can_never_be_written_are_lost_before_the_newer_ones(autojump_clock):
    bench = Bench(Memory())
    bench.sink.failing = JournalError("full", keep=False)
    async with running(bench):
        bench.record(3)
        await trio.sleep(1)
        bench.record(2)
        await trio.sleep(4)
        bench.sink.failing = None
        bench.record()
        await trio.sleep(3)
    assert kinds(bench.sink.written) == ["lost", "epoch_moved"]
    assert [(one.seq, one.reason) for one in bench.sink.written] == [(4, "5"), (7, "")]
    assert bench.count("events_lost_total") == 5


async def test_what_waits_at_the_end_is_written(autojump_clock):
    bench = Bench(Memory())
    async with running(bench):
        bench.record(3)
        await trio.testing.wait_all_tasks_blocked()
    assert len(bench.sink.written) == 3


async def test_a_write_under_way_at_the_end_is_waited_for_and_what_came_meanwhile_is_written(autojump_clock):
    bench = Bench(Memory())
    bench.sink.hanging = trio.Event()

    async def recover() -> None:
        await trio.sleep(3)
        bench.sink.hanging.set()

    async with trio.open_nursery() as nursery, running(bench):
        bench.record(2)
        await trio.sleep(1)  # they are being written, and that hangs
        bench.record(3)
        nursery.start_soon(recover)
    assert [one.seq for one in bench.sink.written] == [1, 2, 3, 4, 5]


async def test_a_sink_that_is_away_at_the_end_is_tried_again_for_a_moment(autojump_clock):
    bench = Bench(Memory())
    bench.sink.failing = JournalError("away", keep=True)

    async def recover() -> None:
        await trio.sleep(3)
        bench.sink.failing = None

    async with trio.open_nursery() as nursery, running(bench):
        bench.record(2)
        nursery.start_soon(recover)
    assert [one.seq for one in bench.sink.written] == [1, 2]


async def test_what_was_lost_last_is_told_at_the_end(autojump_clock):
    bench = Bench(Memory(), limit=2)
    async with running(bench):
        bench.record(5)
        await trio.testing.wait_all_tasks_blocked()
    assert kinds(bench.sink.written) == ["epoch_moved", "epoch_moved", "lost"]


async def test_a_sink_that_hangs_does_not_hold_up_the_end_for_ever(autojump_clock):
    bench = Bench(Memory())
    bench.sink.hanging = trio.Event()
    started = trio.current_time()
    async with running(bench):
        bench.record()
        await trio.sleep(1)
    assert trio.current_time() - started < 10


def test_putting_an_event_never_waits_for_a_sink():
    queue = SinkQueue(Memory(), 1000, 2**30, Metrics())
    journal = Journal([], **IDENTITY, queue_events=1, queue_max_bytes=2**30, metrics=Metrics())
    journal.record(Event(kind=EventKind.JOINED, group_id="g"), "observe", 1)  # no sink: nothing to do
    assert queue.sink.written == []


# -- a topic -------------------------------------------------------------------------------------------------


async def test_a_broker_without_a_possible_name_costs_no_more_than_the_attempt():
    async def open_(host: str, _port: int) -> trio.abc.Stream:
        raise UnicodeError(f"label too long: {host}")

    with pytest.raises(JournalError, match="label too long") as caught:
        await TopicSink("t", lambda: [Address("a" * 64, 9092)], open_).write([line(1)])
    assert caught.value.keep


async def test_a_topic_without_partitions_costs_no_more_than_the_attempt(nursery):
    theirs, ours = trio.testing.memory_stream_pair()

    async def open_(_host: str, _port: int) -> trio.abc.Stream:
        return ours

    async def answer() -> None:
        await theirs.receive_some()
        empty = MetadataResponse(topics=(MetadataResponseTopic(name="t"),))
        await theirs.send_all(response_frame(ApiKey.METADATA, 9, 1, empty))

    nursery.start_soon(answer)
    with pytest.raises(JournalError, match="a partition has no leader") as caught:
        await TopicSink("t", lambda: [Address("kafka-0", 9092)], open_).write([line(1)])
    assert caught.value.keep


async def test_an_answer_about_no_partition_costs_no_more_than_the_attempt(nursery):
    theirs, ours = trio.testing.memory_stream_pair()

    async def open_(_host: str, _port: int) -> trio.abc.Stream:
        return ours

    async def answer() -> None:
        await theirs.receive_some()
        leader = MetadataResponsePartition(partition_index=0, leader_id=1)
        known = MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host="kafka-0", port=9092),),
            topics=(MetadataResponseTopic(name="t", partitions=(leader,)),),
        )
        await theirs.send_all(response_frame(ApiKey.METADATA, 9, 1, known))
        await theirs.receive_some()
        await theirs.send_all(response_frame(ApiKey.PRODUCE, 9, 2, ProduceResponse()))

    nursery.start_soon(answer)
    with pytest.raises(JournalError, match="about 0 partitions") as caught:
        await TopicSink("t", lambda: [Address("kafka-0", 9092)], open_).write([line(1)])
    assert caught.value.keep


async def test_that_a_process_is_alive_is_written_to_the_topic_alone(autojump_clock):
    file, of_topic = Memory(), Memory()
    of_topic.name = "topic"
    journal = Journal([file, of_topic], **IDENTITY, queue_events=9, queue_max_bytes=2**20, metrics=Metrics())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        journal.record_alive(7)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert (file.written, kinds(of_topic.written)) == ([], ["alive"])
