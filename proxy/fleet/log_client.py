"""Reads and writes the topic of the member log: a thread that consumes and a thread that produces, beside trio.

What the threads find goes to the thread of trio in batches, in order: records, ends of partitions, partitions whose log
was lost, failed writers. librdkafka does the connections, the account and the idempotent producer; what counts is
decided by :class:`translation.fleet.member_log.MemberLog`, which this module does not know.

The idempotent producer is a setting that safety rests on: else a retry may land behind the next record of its key, and
compaction would keep that one.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

import structlog
import trio
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from proxy.config.fleet import Fleet, Property
from proxy.fleet.log_events import AccessLost, LogEvent, WriteFailed
from proxy.fleet.log_reader import LogReader
from translation.fleet.formats import FORMAT_HEADER, FORMATS
from translation.fleet.outputs import WriteRecord
from translation.fleet.records import Writer
from translation.fleet.replicas import REPLICA_HEADER, Replica, replica_header

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
"""Events that are handed to trio at once."""
_MAX_BACKLOG = 20_000
"""Records that wait for trio; the reader waits while there are more."""
_POLL_S = 0.05
_OLD_S = 60.0
"""A record that waited for its producer so long is not written any more: what its writer had read is too old."""

_Headers = dict[str, str | bytes | None]

_logger = structlog.get_logger()


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
        self._reader = LogReader(self)
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

    def replace_reader(self) -> None:
        """Replace the consumer by one that goes on where it was."""
        self._reader.replace()

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
        released = [self._producer]
        self._producer = self._new_producer()
        # librdkafka's end may take long if it is stuck (proxy/fleet/reader_watch.py), and nobody waits for it.
        threading.Thread(target=released.clear, name="fleet-writer-ends", daemon=True).start()
        self._has_failed = False
