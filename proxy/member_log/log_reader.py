"""Reads the topic of the member log, in a thread of the log's own process (:mod:`proxy.member_log.log_process`).

``auto.offset.reset=error`` is a setting that safety rests on: else librdkafka goes on silently after a truncation.
"""

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from proxy.config.fleet import Property
from proxy.member_log.log_events import AccessLost, EndReached, Noted, PartitionLost
from proxy.member_log.log_messages import MAX_PART_BYTES, Record, Reported
from proxy.member_log.refusals import TopicRefused
from proxy.member_log.topic import FORBIDDEN, TIMEOUT_S, access_hint
from translation.member_log.formats import FORMAT_HEADER
from translation.member_log.replicas import REPLICA_HEADER

if TYPE_CHECKING:
    from proxy.member_log.log_threads import LogThreads

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

_BATCH = 500
"""Records that are taken from librdkafka at once."""
_WAIT_S = 0.2
_LINGER_S = 0.005
"""So long more records are waited for when one is there: each batch costs both processes a wake-up."""
_MAX_HEADER_BYTES = 1024
_MOST_CLOSING = 10
"""Replaced consumers that are not closed yet; of one that is stuck the close may never end."""

_LOST = frozenset(
    {
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001  that is its public name
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    }
)
_IGNORED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)
"""The reader has no group, and an outage is noticed by what is not read back."""


class LogReader:
    """Consumes all partitions in its own thread: from their beginning, or from where it is told (:meth:`begin_at`)."""

    def __init__(self, client: "LogThreads") -> None:
        self._client = client
        self._topic = client.fleet.topic
        self._consumer = self._new_consumer()
        self._is_to_be_replaced = threading.Event()
        self._closing: list[threading.Thread] = []
        self._positions = dict.fromkeys(range(client.fleet.partitions), OFFSET_BEGINNING)
        self._epochs: dict[int, int] = {}

    def _new_consumer(self) -> Consumer:
        return Consumer(self._client.configured(_READER))

    def begin_at(self, positions: Mapping[int, tuple[int, int | None]]) -> None:
        """Begin at these offsets, each with the leader epoch of the record before it. Before :meth:`run`."""
        for partition, (offset, epoch) in positions.items():
            self._positions[partition] = offset
            if epoch is not None:
                self._epochs[partition] = epoch

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
            if error.args[0].code() in FORBIDDEN:
                raise TopicRefused(
                    f"the account of `fleet.kafka` may not read the topic {self._topic}. "
                    + access_hint(self._client.fleet)
                ) from None
            raise
        return low, high

    def run(self) -> None:
        """Read until the client is to end."""
        self._assign()
        while not self._client.is_stopping:
            self._replace_if_asked()
            events: list[Reported] = []
            lost: set[int] = set()
            for message in self._consume():
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

    def _consume(self) -> list[Message]:
        """What is there, or comes within a moment. ``consume`` alone waits for its whole batch."""
        first = self._consumer.poll(_WAIT_S)
        return [] if first is None else [first, *self._consumer.consume(_BATCH - 1, _LINGER_S)]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def replace(self) -> None:
        """Have the thread go on with another consumer. May be called by any thread."""
        self._is_to_be_replaced.set()

    def _replace_if_asked(self) -> None:
        if not self._is_to_be_replaced.is_set():
            return
        self._is_to_be_replaced.clear()
        self._closing = [thread for thread in self._closing if thread.is_alive()]
        if len(self._closing) >= _MOST_CLOSING:
            self._client.tell(
                [Noted("the member log's reader is not replaced", "too many before do not close")]
            )
            return
        try:
            consumer = self._new_consumer()
        except KafkaException as error:  # a certificate that can't be read just now, for example
            self._client.tell([Noted("the member log's reader is not replaced", error.args[0].str())])
            return
        closing = threading.Thread(target=self._consumer.close, name="fleet-reader-closes", daemon=True)
        closing.start()
        self._closing.append(closing)
        self._consumer = consumer
        self._assign()

    def _assign(self) -> None:
        """Go on at the positions; the epochs show librdkafka whether what was read has been truncated since."""
        self._consumer.assign([self._place(*position) for position in self._positions.items()])

    def _place(self, partition: int, offset: int) -> TopicPartition:
        epoch = self._epochs.get(partition)
        if epoch is None:
            return TopicPartition(self._topic, partition, offset)
        return TopicPartition(self._topic, partition, offset, leader_epoch=epoch)

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
                self._replace_if_asked()
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

    def _event(self, message: Message) -> Reported | None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            return self._event_of_error(error, partition, offset)
        if partition is None or offset is None or offset < self._positions[partition]:
            return None
        self._positions[partition] = offset + 1
        timestamp_type, appended_ms = message.timestamp()
        headers = _headers(message)
        key, value = _bytes(message.key()), _bytes(message.value())
        return Record(
            partition,
            offset,
            timestamp_type,
            appended_ms,
            message.leader_epoch(),
            key,
            value,
            headers.get(FORMAT_HEADER),
            headers.get(REPLICA_HEADER),
        )

    def _event_of_error(
        self, error: KafkaError, partition: int | None, offset: int | None
    ) -> Reported | None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF and partition is not None and offset is not None:  # noqa: SLF001
            return EndReached(partition, offset)
        if code in FORBIDDEN:
            return AccessLost(f"{error.str()}. {access_hint(self._client.fleet)}")
        if code not in _IGNORED:
            return Noted("reading the member log", error.str())
        return None


def _headers(message: Message) -> dict[str, bytes]:
    """The short headers of a record. Whoever writes the topic chooses them; librdkafka's binding fails on some."""
    try:
        found = dict(message.headers() or ())
    except Exception:  # noqa: BLE001  such as a name that is not UTF-8
        return {}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, bytes) and len(value) <= _MAX_HEADER_BYTES
    }


def _bytes(data: bytes | str | None) -> bytes | None:
    return data if isinstance(data, bytes) and len(data) <= MAX_PART_BYTES else None
