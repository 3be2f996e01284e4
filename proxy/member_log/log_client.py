"""The client of the member log's topic, as the proxy sees it: one process after another that reads and writes.

librdkafka runs in a process of its own (:mod:`proxy.member_log.log_process`), since what a broker answers may end it.
Here is kept what survives such an end: how far each partition is read, and the name of the producer. What was sent to a
process and not read back has an unknown outcome, like a produce request that failed.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import trio

from proxy.config.fleet import Fleet, Property
from proxy.member_log.log_events import AccessLost, LogEvent, PartitionLost
from proxy.member_log.log_messages import (
    ENCODER,
    REPORTS,
    Begin,
    Begun,
    Failed,
    Go,
    NoAnswer,
    Ordered,
    Record,
    Refused,
    ReplaceReader,
    ReplaceWriter,
    Reported,
    SetAccount,
    Write,
)
from proxy.member_log.record_decoding import RawRecord, decode_record
from proxy.member_log.refusals import MemberLogRefused, TopicRefused
from proxy.runtime.kafka_process import KafkaProcess, ProcessEnded
from translation.member_log.formats import FORMAT_HEADER, FORMATS
from translation.member_log.outputs import WriteRecord
from translation.member_log.records import Writer
from translation.member_log.replicas import REPLICA_HEADER, Replica, replica_header

MODULE = "proxy.member_log.log_process"
_MAX_UNSENT = 20_000
"""Orders that wait for the process to take them; one that takes none for so long is replaced."""
_CLOSES_WITHIN_S = 4.0


class _NoMessage(Exception):
    """The process sent what it may not send here."""


class NotReached(Exception):
    """No broker answers, or the process has ended; it may go better next time. The message says why."""


class LogClient:
    """Reads and writes through one process at a time. To be used in the thread of trio.

    ``handle`` is called with at most a few hundred events at a time, ``crashed`` when a process has ended by itself.
    ``server`` names this process for people.
    """

    def __init__(
        self,
        fleet: Fleet,
        properties: Mapping[str, Property],
        handle: Callable[[list[LogEvent]], None],
        server: str = "",
        crashed: Callable[[], None] = lambda: None,
    ) -> None:
        self._fleet = fleet
        self._properties = dict(properties)
        self._handle = handle
        self._crashed = crashed
        self._process = KafkaProcess(MODULE)
        self._unsent: list[Ordered] = []
        self._send = trio.Event()
        self._is_open = False
        self._is_sending = False
        self.topic_id: str | None = None
        """Of the topic that was read last."""
        self._positions: dict[int, tuple[int, int | None]] = {}
        """Of each partition of which a record was read: where to go on, and the record's leader epoch."""
        self.writer = Writer(os.urandom(16))
        """Names the producer. Records of an earlier one are dropped."""
        self.replica = Replica(self.writer, server)
        """Names this process, whatever producer it has."""

    @property
    def pid(self) -> int | None:
        """The process that reads and writes; None before the first."""
        return self._process.pid

    async def begin(self) -> Begun:
        """Start a process, and have it make or check the topic. One that is there already ends.

        :raises TopicRefused: the topic or the account is not as it has to be.
        :raises MemberLogRefused: librdkafka does not take the properties.
        :raises NotReached: see there.
        """
        await self._process.close()
        self._process = KafkaProcess(MODULE, self._crashed)
        first = Begin(self._fleet, self._properties, replica_header(self.replica), self.topic_id)
        try:
            await self._process.start()
            await self._process.send(ENCODER.encode([first]))
            answers = await self._process.receive_message(REPORTS)
        except ProcessEnded as ended:
            raise NotReached(f"the process of the Kafka client: {ended}") from None
        match answers:
            case [Begun() as begun]:
                return begun
            case [Refused(reason)]:
                raise TopicRefused(reason)
            case [NoAnswer(reason, True)]:
                raise MemberLogRefused(f"`fleet.kafka`: {reason}")
            case [NoAnswer(reason) | Failed(reason)]:
                raise NotReached(reason)
            case _:
                raise NotReached("the process of the Kafka client does not answer as it should")

    def begin_with(self, topic_id: str) -> bool:
        """Use the process that has begun: what is written from now on waits for :meth:`serve`.

        Return whether the topic is another one than before, which is then read from its beginning.
        """
        is_another = topic_id != self.topic_id
        if is_another:
            self._positions.clear()
        self.topic_id = topic_id
        self._unsent.clear()
        self._is_open = True
        return is_another

    async def serve(self) -> str:
        """Hand on what is read until the process ends or :meth:`end` is called; return why it ended."""
        written = (order for order in self._unsent if isinstance(order, Write))
        # The account may be another one than when the process began.
        self._unsent = [*self._account(), Go(self.writer, dict(self._positions)), *written]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_sending)
            why = await self._keep_receiving()
            nursery.cancel_scope.cancel()
        self._is_open = False
        await self._process.close()
        return why

    def write(self, record: WriteRecord) -> None:
        """Produce a record. Without a process nothing is written: what is not read back is written again."""
        self._queue(
            Write(
                time.monotonic(),
                record.writer,
                record.partition,
                record.key,
                record.value,
                FORMATS[record.format].header,
            )
        )

    def replace_writer(self) -> Writer:
        """Replace the producer, and give up what it has not delivered. Return the name of the new one."""
        self.writer = Writer(os.urandom(16))
        self._queue(ReplaceWriter(self.writer))
        return self.writer

    def replace_reader(self) -> None:
        """Replace the consumer by one that goes on where it was."""
        self._queue(ReplaceReader())

    def set_account(self, properties: Mapping[str, Property]) -> None:
        """Have the process authenticate with the user and password in these properties, and each after it."""
        self._properties = dict(properties)
        for order in self._account():
            self._queue(order)

    def _account(self) -> list[SetAccount]:
        user, password = map(self._properties.get, ("sasl.username", "sasl.password"))
        return [] if user is None or password is None else [SetAccount(str(user), str(password))]

    def end(self) -> None:
        """Nothing more is read or written until the next :meth:`serve`."""
        self._is_open = False

    async def close(self) -> None:
        """End the process; what was to be written is written, within four seconds."""
        if self._is_open and self._unsent and not self._is_sending:
            with trio.move_on_after(_CLOSES_WITHIN_S, shield=True), suppress(ProcessEnded):
                await self._process.send(ENCODER.encode(self._unsent))
        self._is_open = False
        await self._process.close(_CLOSES_WITHIN_S)

    # -- messages ------------------------------------------------------------------------------------------------

    def _queue(self, order: Ordered) -> None:
        if self._is_open:
            self._unsent.append(order)
            self._send.set()

    async def _keep_sending(self) -> None:
        process = self._process
        while True:
            while self._unsent:
                unsent, self._unsent = self._unsent, []
                self._is_sending = True
                try:
                    await process.send(ENCODER.encode(unsent))
                except ProcessEnded:
                    return  # what is received says why
                self._is_sending = False
            self._send = trio.Event()
            await self._send.wait()

    async def _keep_receiving(self) -> str:
        try:
            while self._is_open:
                reports = await self._process.receive_message(REPORTS)
                events: list[LogEvent] = []
                for report in reports:
                    if isinstance(report, Failed):
                        await self._process.refuse(report.reason)
                        return report.reason
                    events.append(self._event(report))
                    if isinstance(events[-1], AccessLost):
                        break
                self._handle(events)
                if len(self._unsent) > _MAX_UNSENT:
                    return str(await self._process.refuse("it does not take what is to be written"))
                await trio.lowlevel.checkpoint()
        except ProcessEnded as ended:
            return str(ended)
        except _NoMessage as error:
            return str(await self._process.refuse(str(error)))
        return "the log can't be used"

    def _event(self, report: Reported) -> LogEvent:
        """Note how far the log is read.

        :raises _NoMessage: there is no such partition, or the message does not belong here.
        """
        if isinstance(report, Begun | Refused | NoAnswer | Failed):
            raise _NoMessage(f"it sent {type(report).__name__} while the log is read")
        partition = getattr(report, "partition", 0)
        if not 0 <= partition < self._fleet.partitions:
            raise _NoMessage(f"it named partition {partition}")
        if isinstance(report, PartitionLost):
            self._positions.pop(partition, None)
        if not isinstance(report, Record):
            return report
        self._positions[partition] = report.offset + 1, report.epoch
        return decode_record(_raw(report), self._fleet.partitions)


def _raw(record: Record) -> RawRecord:
    return RawRecord(
        record.partition,
        record.offset,
        (record.timestamp_type, record.appended_ms),
        {FORMAT_HEADER: record.format, REPLICA_HEADER: record.replica},
        record.key,
        record.value,
    )
