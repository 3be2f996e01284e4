"""Writes the journal to a Kafka topic with the account of the member log (``fleet.kafka``), in a process of its own.

Records are those of :mod:`journal_topic`, which needs no Kafka client but knows no SASL. A write ends when the brokers
have acknowledged all its records; else it is repeated as a whole. Readers detect duplicates by `replica`, `boot` and
`seq`.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import trio

from proxy.config.fleet import Property
from proxy.journal.journal import JournalError, JournalEvent
from proxy.journal.journal_messages import (
    ANSWERS,
    ENCODER,
    MAX_FRAME_BYTES,
    Answer,
    Begin,
    JournalTopic,
    Line,
    NotWritten,
    Write,
)
from proxy.runtime.kafka_process import KafkaProcess, ProcessEnded
from proxy.runtime.pauses import Pauses

MODULE = "proxy.journal.journal_process"
_MAX_EVENT_BYTES = 900_000
"""Brokers and librdkafka refuse records of more than a megabyte."""


class AccountTopicSink:
    """Writes to ``topic`` through a process with these librdkafka properties, which the first write starts, and the
    first after they have changed.

    ``crashed`` is called when that has ended by itself.
    """

    name = "topic"

    def __init__(
        self,
        topic: JournalTopic,
        properties: Mapping[str, Property],
        crashed: Callable[[], None] = lambda: None,
    ) -> None:
        self._topic = topic
        self._properties, self._used = properties, dict(properties)
        self._crashed = crashed
        self._process: KafkaProcess | None = None
        self._pauses = Pauses()
        self._start_at = 0.0

    async def write(self, events: list[JournalEvent]) -> None:
        """See :class:`proxy.journal.journal.Sink`."""
        frames = await trio.to_thread.run_sync(lambda: list(_frames(events)))
        try:
            answer = await self._exchange(frames)
        except ProcessEnded as ended:
            await self.close()
            self._start_at = trio.current_time() + self._pauses.next(trio.current_time())
            raise JournalError(
                f"{self._topic.name}: the process of the Kafka client: {ended}", keep=True
            ) from ended
        except trio.Cancelled:
            await self.close()  # in the middle of a batch nothing else can be sent
            raise
        if isinstance(answer, NotWritten):
            raise JournalError(f"{self._topic.name}: {answer.reason}", keep=answer.keep)

    async def _exchange(self, frames: list[bytes]) -> Answer:
        if self._used != self._properties:
            await self.close()
        if self._process is None:
            await trio.sleep_until(self._start_at)
            self._process = KafkaProcess(MODULE, self._crashed)
            await self._process.start()
            self._pauses.began(trio.current_time())
            self._used = dict(self._properties)
            await self._process.send(ENCODER.encode(Begin(self._topic, self._used)))
        for frame in frames:
            await self._process.send(frame)
        return await self._process.receive_message(ANSWERS)

    async def idle(self) -> None:
        """Do nothing: connections stay open."""

    async def close(self) -> None:
        """End the process; everything has been acknowledged."""
        if self._process is not None:
            process, self._process = self._process, None
            await process.close()


def _frames(events: list[JournalEvent]) -> Iterator[bytes]:
    """The frames of a batch; the last one says so."""
    lines: list[Line] = []
    size = 0
    for event in events:
        line = Line(event.group.encode() or None, _encoded(event), event.time_us // 1000)
        if lines and size + len(line.value) > MAX_FRAME_BYTES:
            yield ENCODER.encode(Write(lines, is_last=False))
            lines, size = [], 0
        lines.append(line)
        size += len(line.value)
    yield ENCODER.encode(Write(lines, is_last=True))


def _encoded(event: JournalEvent) -> bytes:
    """Return the event as JSON. One that is too large for a record names no partitions."""
    data = msgspec.json.encode(event)
    if len(data) > _MAX_EVENT_BYTES:
        data = msgspec.json.encode(msgspec.structs.replace(event, partitions=(), owned=None))
    return data
