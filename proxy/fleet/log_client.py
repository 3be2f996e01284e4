"""Reads and writes the topic of the member log: a thread that consumes and a thread that produces, beside trio.

What the threads find goes to the thread of trio in batches, in order: records, ends of partitions, partitions whose log
was lost, failed writers. librdkafka does the connections, the account and the idempotent producer; what counts is
decided by :class:`translation.fleet.member_log.MemberLog`, which this module does not know.

Settings that safety rests on: ``auto.offset.reset=error`` (else librdkafka goes on silently after a truncation), and
the idempotent producer (else a retry may land behind the next record of its key, and compaction would keep that one).
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog
import trio
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from proxy.config.fleet import Fleet, Property
from proxy.fleet.refusals import TopicRefused
from proxy.fleet.topic import TIMEOUT_S, access_hint
from translation.fleet.counting import Stored
from translation.fleet.formats import FORMAT_HEADER, FORMATS, UnknownFormat, format_of
from translation.fleet.outputs import WriteRecord
from translation.fleet.records import PROBE, InvalidRecord, MemberKey, Writer, decode_key
from translation.fleet.replicas import REPLICA_HEADER, Replica, replica_header

_READER: Mapping[str, Property] = {
    # librdkafka wants one, and asks for its coordinator. Nothing is committed, and the account needs no right on it.
    "group.id": "__epochgate_members_reader",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "fetch.queue.backoff.ms": 10,  # a second by default: of lag, after a burst
    "fetch.error.backoff.ms": 100,
    "log_level": 0,
}
_WRITER: Mapping[str, Property] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": 60_000,
    "enable.gapless.guarantee": False,
    "queue.buffering.max.messages": 20_000,
    "log_level": 0,
}

_BATCH = 500
"""Records that are taken from librdkafka, and handed to trio, at once."""
_MAX_BACKLOG = 20_000
"""Records that wait for trio; the reader waits while there are more."""
_WAIT_S = 0.2
_POLL_S = 0.05
_OLD_S = 60.0
"""A record that waited for its producer so long is not written any more: what its writer had read is too old."""

_LOST = frozenset(
    {
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001  that is its public name
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    }
)
_FORBIDDEN = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_IGNORED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)
"""The reader has no group, and an outage is noticed by what is not read back."""

_Headers = dict[str, str | bytes | None]

_logger = structlog.get_logger()


class RecordRead(NamedTuple):
    """The next record of a partition; ``stored`` is None for a probe."""

    partition: int
    key: MemberKey
    writer: Writer
    stored: Stored | None
    offset: int
    appended_ms: int
    replica: bytes | None = None
    """Of a probe: which process wrote it (:data:`translation.fleet.replicas.REPLICA_HEADER`)."""


class EndReached(NamedTuple):
    """Everything before this offset of a partition has been read. Also after a record that is none of ours."""

    partition: int
    position: int


class PartitionLost(NamedTuple):
    """What was read of the partition may not be so any more; it is read again, up to ``end`` at least."""

    partition: int
    end: int


class WriteFailed(NamedTuple):
    """The outcome of a write of this writer is unknown."""

    writer: Writer
    reason: str


class AccessLost(NamedTuple):
    """The account may not read or write the topic, or a record has a format that is not known here."""

    reason: str


LogEvent = RecordRead | EndReached | PartitionLost | WriteFailed | AccessLost


class LogClient:
    """One consumer and one producer of the member log. Made and used in the thread of trio.

    ``handle`` is called there with at most a few hundred events at a time. ``server`` names this process for people.
    """

    def __init__(
        self,
        fleet: Fleet,
        properties: Mapping[str, Property],
        handle: Callable[[list[LogEvent]], None],
        server: str = "",
    ) -> None:
        self._fleet = fleet
        self._properties = dict(properties)
        self._handle = handle
        self._token = trio.lowlevel.current_trio_token()
        self._events: deque[LogEvent] = deque()
        self._writes: deque[tuple[float, WriteRecord | Writer]] = deque()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self.writer = Writer(os.urandom(16))
        """Names the producer. Records of an earlier one are dropped."""
        self.replica = Replica(self.writer, server)
        """Names this process, whatever producer it has."""
        self._reader = _Reader(self)
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
            for name, work in (("fleet-reader", self._reader.run), ("fleet-writer", _Producing(self).run))
        ]

    def ends(self) -> dict[int, int]:
        """Ask for the ends of all partitions, before :meth:`start`. It blocks.

        :raises TopicRefused: the account may not read the topic.
        :raises KafkaException: a broker does not answer.
        """
        return self._reader.ends()

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def write(self, record: WriteRecord) -> None:
        """Produce a record, if its writer is the present one."""
        self._writes.append((time.monotonic(), record))
        self._wake.set()

    def replace_writer(self) -> Writer:
        """Replace the producer, and give up what it has not delivered. Return the name of the new one."""
        self.writer = Writer(os.urandom(16))
        self._writes.append((time.monotonic(), self.writer))
        self._wake.set()
        return self.writer

    def stop(self, timeout_s: float = 4.0) -> None:
        """Write what is queued, close both, and wait for the threads. It blocks, for ``timeout_s`` at most."""
        self._stopping.set()
        self._wake.set()
        if self._threads[0].ident is None:
            self._reader.close()
            return
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    # -- in the threads ----------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            _logger.exception("the member log's thread ended")
            self.tell([AccessLost("a thread of the member log ended; see the log")])

    def tell(self, events: list[LogEvent]) -> None:
        """Hand events to trio; wait while it has too many of them."""
        self._events.extend(events)
        self._book()
        while len(self._events) > _MAX_BACKLOG and not self._stopping.wait(0.01):
            pass

    def _book(self) -> None:
        try:
            self._token.run_sync_soon(self._drain, idempotent=True)
        except trio.RunFinishedError:
            self._stopping.set()

    def _drain(self) -> None:
        batch = [self._events.popleft() for _ in range(min(len(self._events), _BATCH))]
        if batch:
            self._handle(batch)
        if self._events:
            self._book()

    @property
    def is_stopping(self) -> bool:
        """Whether the threads are to end."""
        return self._stopping.is_set()

    @property
    def fleet(self) -> Fleet:
        """The section of the configuration."""
        return self._fleet

    def configured(self, settings: Mapping[str, Property]) -> dict[str, Property]:
        """The account's properties and these."""
        return {**self._properties, **settings}

    def pause(self, seconds: float) -> None:
        """Let a thread wait, unless it is to end."""
        self._stopping.wait(seconds)

    def next_writes(self) -> list[tuple[float, WriteRecord | Writer]]:
        """Wait a moment for something to be written, and return it."""
        self._wake.wait(_POLL_S)
        self._wake.clear()
        return [self._writes.popleft() for _ in range(len(self._writes))]


class _Reader:
    """Consumes all partitions from their beginning, in its own thread."""

    def __init__(self, client: LogClient) -> None:
        self._client = client
        self._topic = client.fleet.topic
        self._consumer = Consumer(client.configured(_READER))
        self._positions = dict.fromkeys(range(client.fleet.partitions), OFFSET_BEGINNING)
        self._epochs: dict[int, int] = {}

    def ends(self) -> dict[int, int]:
        """The end of each partition. A topic that was just made has no leaders at once."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return {partition: self._range(partition)[1] for partition in self._positions}
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                self._client.pause(0.1)

    def _range(self, partition: int) -> tuple[int, int]:
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=TIMEOUT_S
            )
        except KafkaException as error:
            if error.args[0].code() in _FORBIDDEN:
                raise TopicRefused(
                    f"the account of `fleet.kafka` may not read the topic {self._topic}. "
                    + access_hint(self._client.fleet)
                ) from None
            raise
        return low, high

    def run(self) -> None:
        self._assign()
        while not self._client.is_stopping:
            events: list[LogEvent] = []
            lost: set[int] = set()
            for message in self._consumer.consume(_BATCH, _WAIT_S):
                partition = message.partition()
                if partition in lost:
                    continue
                if self._is_lost(message):
                    # Of the topic as a whole, librdkafka names no partition.
                    lost.update(self._positions if partition is None or partition < 0 else (partition,))
                elif (event := self._event(message)) is not None:
                    events.append(event)
            if events:
                self._client.tell(events)
            if lost:
                self._read_again(lost)
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def _assign(self) -> None:
        self._consumer.assign(
            [TopicPartition(self._topic, partition, offset) for partition, offset in self._positions.items()]
        )

    def _is_lost(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            return error.code() in _LOST
        epoch, partition = message.leader_epoch(), message.partition()
        if epoch is None or partition is None:
            return False
        before = self._epochs.get(partition, epoch)
        self._epochs[partition] = epoch
        return epoch < before

    def _read_again(self, partitions: set[int]) -> None:
        """From the beginning. Others go on where they are."""
        for partition in partitions:
            while not self._client.is_stopping:
                try:
                    _, end = self._range(partition)
                except (KafkaException, TopicRefused):
                    self._client.pause(1.0)
                else:
                    self._client.tell([PartitionLost(partition, end)])
                    break
            self._positions[partition] = OFFSET_BEGINNING
            self._epochs.pop(partition, None)
        self._assign()

    def _event(self, message: Message) -> LogEvent | None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            return self._event_of_error(error, partition, offset)
        if partition is None or offset is None or offset < self._positions[partition]:
            return None
        self._positions[partition] = offset + 1
        headers = dict(message.headers() or ())
        try:
            written_in = format_of(headers.get(FORMAT_HEADER))
        except UnknownFormat as unknown:
            return AccessLost(f"partition {partition} has a record at offset {offset} of {unknown}")
        _, appended_ms = message.timestamp()
        key, value = message.key(), message.value()
        try:
            member, writer = decode_key(_bytes(key))
            if member == PROBE or value is None:
                replica = headers.get(REPLICA_HEADER)
                name = replica if isinstance(replica, bytes) else None
                return RecordRead(partition, member, writer, None, offset, appended_ms, name)
            stored = Stored(offset, appended_ms, writer, written_in.decode(_bytes(value)))
        except InvalidRecord as invalid:
            _logger.warning(
                "a record of the member log is ignored", partition=partition, offset=offset, why=str(invalid)
            )
            return EndReached(partition, offset + 1)
        return RecordRead(partition, member, writer, stored, offset, appended_ms)

    def _event_of_error(
        self, error: KafkaError, partition: int | None, offset: int | None
    ) -> LogEvent | None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF and partition is not None and offset is not None:  # noqa: SLF001
            return EndReached(partition, offset)
        if code in _FORBIDDEN:
            return AccessLost(f"{error.str()}. {access_hint(self._client.fleet)}")
        if code not in _IGNORED:
            _logger.warning("reading the member log", error=error.str())
        return None


class _Producing:
    """Produces what is written, in its own thread."""

    def __init__(self, client: LogClient) -> None:
        self._client = client
        self._headers_of_probe: _Headers = {REPLICA_HEADER: replica_header(client.replica)}
        self._writer = client.writer
        self._producer = self._new_producer()
        self._has_failed = False

    def _new_producer(self) -> Producer:
        return Producer(self._client.configured(_WRITER))

    def run(self) -> None:
        while not self._client.is_stopping:
            for queued_at, record in self._client.next_writes():
                self._take(queued_at, record)
            self._producer.poll(0)
        self._producer.flush(2.0)
        self._producer.purge()
        self._producer.flush(0.5)

    def _take(self, queued_at: float, record: WriteRecord | Writer) -> None:
        if not isinstance(record, WriteRecord):
            self._replace(record)
        elif record.writer != self._writer or self._has_failed:
            return
        elif time.monotonic() - queued_at > _OLD_S:
            self._fail(self._writer, "this process stood still")
        else:
            self._produce(record)

    def _produce(self, record: WriteRecord) -> None:
        writer = self._writer
        headers: _Headers = {FORMAT_HEADER: FORMATS[record.format].header}
        if record.value is None:
            headers |= self._headers_of_probe

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self._fail(writer, error.str())

        while not self._client.is_stopping:
            try:
                self._producer.produce(
                    self._client.fleet.topic,
                    key=record.key,
                    value=record.value,
                    partition=record.partition,
                    headers=headers,
                    on_delivery=delivered,
                )
            except BufferError:
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                self._fail(writer, error.args[0].str())
                return
            else:
                return

    def _fail(self, writer: Writer, reason: str) -> None:
        """Every error means that the outcome is unknown; success is not looked at, because only reading back counts."""
        if writer == self._writer and not self._has_failed:
            self._has_failed = True
            self._client.tell([WriteFailed(writer, reason)])

    def _replace(self, writer: Writer) -> None:
        self._writer = writer  # first: so that what is purged below is not said to have failed
        self._producer.purge()
        self._producer.flush(0.5)
        self._producer = self._new_producer()
        self._has_failed = False


def _bytes(data: bytes | str | None) -> bytes:
    if not isinstance(data, bytes):
        raise InvalidRecord("no key, or text")
    return data
