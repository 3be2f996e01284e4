"""The journal: queues events (``journal.queue_events``, ``queue_max_bytes``) for sinks that write them to files or a
topic, and decides when one is tried again, or lost.

docs/reference/journal.md describes what is written. Recording an event only appends it to each sink's queue. Each sink
writes batches in a task of its own; blocking work runs elsewhere (:mod:`journal_files` in a thread,
:mod:`journal_topic` on its own connections). Events that do not fit into the queue or can't be written are lost: they
are counted, and a ``lost`` event takes their place. Each sink has its own ``boot`` and numbers its own events, lost
ones included, so a gap in its numbers is always a loss in that sink.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec
import structlog
import trio

from proxy.metrics.registry import Metrics
from translation.actions import ConnectWorker, Event, EventKind
from translation.partitions import TopicOffsets, TopicPartitions

_EVENT_BYTES = 750
_CHARACTER_BYTES = 4
_TOPIC_BYTES = 150
_PARTITION_BYTES = 40
_WORKER_BYTES = 200
_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.journal")

VERSION = 1
MAX_BATCH = 1000
"""Most events in one write."""

_LINGER_S = 0.1
_RETRY_S = 1.0
_FLUSH_S = 5.0
_LOG_INTERVAL_S = 60.0

ALIVE = "alive"
LOST = "lost"
STARTED = "started"
STOPPED = "stopped"


class JournalEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the journal, version 1; docs/reference/journal.md describes each field."""

    v: int = VERSION
    replica: str
    boot: str
    seq: int
    time_us: int
    kind: str
    group: str = ""
    mode: str = ""
    protocol: str = ""
    member: str = ""
    instance: str | None = None
    client_id: str | None = None
    client_host: str = ""
    software: str = ""
    generation: int = -1
    epoch: int = -1
    state: str = ""
    previous_state: str = ""
    partitions: TopicPartitions = ()
    owned: TopicPartitions | None = None
    reason: str = ""
    worker: ConnectWorker | msgspec.UnsetType = msgspec.UNSET
    commits: tuple[TopicOffsets, ...] | msgspec.UnsetType = msgspec.UNSET


class QueuedEvent(msgspec.Struct, frozen=True):
    """A queued event. The sink encodes it."""

    time_us: int
    kind: str
    mode: str = ""
    event: Event | None = None
    reason: str = ""
    seq: int = 0
    memory: int = 0  # bytes, roughly


class Sink(Protocol):
    """A destination of the journal."""

    name: str

    async def write(self, events: list[JournalEvent]) -> None:
        """Write all events, in order.

        :raises JournalError: the events were not written.
        """
        ...

    async def idle(self) -> None:
        """Called when no event came for a second."""
        ...

    async def close(self) -> None:
        """Called after the last event."""
        ...


class JournalError(Exception):
    """Writing failed. ``keep``: the events should be retried later."""

    def __init__(self, message: str, *, keep: bool) -> None:
        super().__init__(message)
        self.keep = keep


class SinkQueue:
    """The queue of one sink. Beyond ``limit`` events, or about ``max_bytes`` of memory, new events are lost."""

    def __init__(self, sink: Sink, limit: int, max_bytes: int, metrics: Metrics) -> None:
        self.sink = sink
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lines: deque[QueuedEvent] = deque()
        self._seq = 0
        self._lost: tuple[int, int] | None = None  # number of lost events, and the time of the last one
        self._arrived = trio.Event()
        self._ending = False
        self._counts = [
            metric.labels(sink.name)
            for metric in (metrics.journal_events, metrics.journal_lost, metrics.journal_errors)
        ]
        self._waiting = metrics.journal_queue.labels(sink.name)
        self._waiting.set_function(lambda: len(self._lines))

    def put(self, line: QueuedEvent) -> None:
        """Queue an event, or count it as lost."""
        if len(self._lines) >= self._limit or self._bytes + line.memory > self._max_bytes:
            before = 0 if self._lost is None else self._lost[0]
            self._lost = before + 1, line.time_us
            self._counts[1].inc()
            self._seq += 1
            return
        self._report_loss()
        self._append(line)
        self._arrived.set()

    def _append(self, line: QueuedEvent) -> None:
        self._seq += 1
        self._lines.append(msgspec.structs.replace(line, seq=self._seq))
        self._bytes += line.memory

    def _report_loss(self) -> None:
        """Queue a ``lost`` event for what was lost, before the next event."""
        if self._lost is not None:
            count, time_us = self._lost
            self._append(QueuedEvent(time_us, LOST, reason=str(count)))
            self._lost = None

    async def run(self, identity: tuple[str, str]) -> None:
        """Write for ever. When cancelled, end the write under way and write what is queued, within a few seconds."""
        writing = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_shielded, identity, writing)
            try:
                await trio.sleep_forever()
            finally:
                self._ending = True
                self._arrived.set()
                writing.deadline = trio.current_time() + _FLUSH_S

    async def _run_shielded(self, identity: tuple[str, str], writing: trio.CancelScope) -> None:
        logged_at = -_LOG_INTERVAL_S
        with writing:
            while True:
                with trio.move_on_after(_RETRY_S):
                    await self._arrived.wait()
                ending = self._ending
                if not ending:
                    await trio.sleep(_LINGER_S)  # a batch costs as much as a single event
                try:
                    await self._write(identity)
                    if ending:
                        await self.sink.close()
                        return
                except JournalError as error:
                    self._counts[2].inc()
                    if trio.current_time() - logged_at >= _LOG_INTERVAL_S:
                        logged_at = trio.current_time()
                        _log.error("the journal can't be written", sink=self.sink.name, reason=str(error))
                    await trio.sleep(_RETRY_S)
        _log.error("the end of the journal is lost", sink=self.sink.name, events=len(self._lines))

    async def _write(self, identity: tuple[str, str]) -> None:
        if not self._lines:
            if not self._ending:
                self._arrived = trio.Event()
            await self.sink.idle()
        while self._lines:
            batch = [self._lines.popleft() for _ in range(min(MAX_BATCH, len(self._lines)))]
            self._bytes -= sum(line.memory for line in batch)
            try:
                await self.sink.write([_event(line, identity) for line in batch])
            except JournalError as error:
                self._handle_failure(batch, keep=error.keep)
                raise
            except trio.Cancelled:
                self._handle_failure(batch, keep=True)
                raise
            self._counts[0].inc(len(batch))
            if not self._lines:
                self._report_loss()

    def _handle_failure(self, batch: list[QueuedEvent], *, keep: bool) -> None:
        if keep:
            self._lines.extendleft(reversed(batch))
            self._bytes += sum(line.memory for line in batch)
            return
        # The queued events are newer: the loss is reported before them, in one event even after repeated failures.
        loss_events = [line for line in batch if line.kind == LOST]
        self._counts[1].inc(len(batch) - len(loss_events))
        count = len(batch) - len(loss_events) + sum(int(line.reason) for line in loss_events)
        if not loss_events:
            self._seq += 1
        seq = loss_events[0].seq if loss_events else self._seq
        self._lines.appendleft(QueuedEvent(batch[-1].time_us, LOST, reason=str(count), seq=seq))


class Journal:
    """Gives each event to the queues of all sinks."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        replica: str,
        boot: str,
        queue_events: int,
        queue_max_bytes: int,
        metrics: Metrics,
    ) -> None:
        self._queues = [SinkQueue(sink, queue_events, queue_max_bytes, metrics) for sink in sinks]
        self._identities = [
            (replica, boot if not n else f"{boot}-{sink.name}") for n, sink in enumerate(sinks)
        ]

    def record(self, event: Event, mode: str, time_us: int) -> None:
        """Record an event of a group in the given policy mode."""
        if self._queues:
            self._put(QueuedEvent(time_us, event.kind, mode, event, memory=estimated_bytes(event)))

    def record_marker(self, kind: str, time_us: int, reason: str = "") -> None:
        """Record that the process started or stopped."""
        if self._queues:
            self._put(QueuedEvent(time_us, kind, reason=reason))

    def record_alive(self, time_us: int) -> None:
        """Record in the topic that the process is alive; its files need no such event."""
        for queue in self._queues:
            if queue.sink.name == "topic":
                queue.put(QueuedEvent(time_us, ALIVE))

    async def run(self) -> None:
        """Run all sinks for ever, each at its own pace."""
        async with trio.open_nursery() as nursery:
            for queue, identity in zip(self._queues, self._identities, strict=True):
                nursery.start_soon(queue.run, identity)

    def _put(self, line: QueuedEvent) -> None:
        for queue in self._queues:
            queue.put(line)


def _event(line: QueuedEvent, identity: tuple[str, str]) -> JournalEvent:
    replica, boot = identity
    event = line.event
    if event is None:
        return JournalEvent(
            replica=replica,
            boot=boot,
            seq=line.seq,
            time_us=line.time_us,
            kind=line.kind,
            reason=line.reason,
        )
    return JournalEvent(
        replica=replica,
        boot=boot,
        seq=line.seq,
        time_us=line.time_us,
        kind=event.kind,
        group=event.group_id,
        mode=line.mode,
        protocol=event.protocol,
        member=event.member_id,
        instance=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host.removeprefix("/"),
        software=event.software,
        generation=event.generation,
        epoch=event.epoch,
        state="" if event.state == "Absent" else event.state,
        previous_state="" if event.previous_state == "Absent" else event.previous_state,
        partitions=event.partitions,
        owned=event.owned,
        reason=event.reason,
        worker=msgspec.UNSET if event.worker is None else event.worker,
        commits=event.commits if event.kind is EventKind.COMMITTED else msgspec.UNSET,
    )


def estimated_bytes(event: Event) -> int:
    """Estimate the memory of an event in bytes, as if it shared no text with others."""
    characters = (
        len(event.group_id)
        + len(event.member_id)
        + len(event.instance_id or "")
        + len(event.client_id or "")
        + len(event.client_host)
        + len(event.software)
        + len(event.reason)
    )
    if event.offer is not None:
        characters += sum(len(name) for name in (event.offer.protocol_type, *event.offer.assignors))
    size = _EVENT_BYTES + _CHARACTER_BYTES * characters
    if event.worker is not None:
        texts = (getattr(event.worker, name) for name in ("url", "leader", "leader_url"))
        size += _WORKER_BYTES + _CHARACTER_BYTES * sum(map(len, texts))
    for commit in event.commits:
        size += (
            _TOPIC_BYTES
            + _CHARACTER_BYTES * len(commit.topic)
            + 3 * _PARTITION_BYTES * len(commit.partitions)
        )
    for listed in (event.partitions, event.owned):
        for one in listed or ():
            size += _TOPIC_BYTES + _CHARACTER_BYTES * len(one.topic) + _PARTITION_BYTES * len(one.partitions)
    return size
