"""Writes the topic of the member log, in a thread of the log's own process (:mod:`proxy.member_log.log_process`).

The idempotent producer is a setting that safety rests on: else a retry may land behind the next record of its key, and
compaction would keep that one.
"""

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from proxy.config.fleet import Property
from proxy.member_log.log_events import AccessLost, WriteFailed
from proxy.member_log.log_messages import ReplaceWriter, SetAccount, Write
from proxy.member_log.topic import FORBIDDEN, access_hint
from translation.member_log.formats import FORMAT_HEADER
from translation.member_log.records import Writer
from translation.member_log.replicas import REPLICA_HEADER

if TYPE_CHECKING:
    from proxy.member_log.log_threads import LogThreads

_WRITER: Mapping[str, Property] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": 60_000,
    "enable.gapless.guarantee": False,
    "queue.buffering.max.messages": 20_000,
    "log_level": 0,
}

_POLL_S = 0.05
_OLD_S = 60.0
"""A record that waited for its producer so long is not written any more: what its writer had read is too old."""

_Headers = dict[str, str | bytes | None]


class LogWriter:
    """Produces what is written."""

    def __init__(self, client: "LogThreads", writer: Writer, replica: bytes) -> None:
        self._client = client
        self._headers_of_probe: _Headers = {REPLICA_HEADER: replica}
        self._writer = writer
        self._producer = self._new_producer()
        self._has_failed = False

    def _new_producer(self) -> Producer:
        return Producer(self._client.configured(_WRITER))

    def run(self) -> None:
        """Write until the client is to end; then deliver what is queued."""
        while not self._client.is_stopping:
            for order in self._client.next_writes(_POLL_S):
                self._take(order)
            self._producer.poll(0)
        for order in self._client.next_writes(0):
            self._take(order)
        self._producer.flush(2.0)
        self._producer.purge()
        self._producer.flush(0.5)

    def _take(self, order: Write | ReplaceWriter | SetAccount) -> None:
        if isinstance(order, ReplaceWriter):
            self._replace(order.writer)
        elif isinstance(order, SetAccount):
            self._producer.set_sasl_credentials(order.username, order.password)
        elif order.writer != self._writer or self._has_failed:
            return
        elif time.monotonic() - order.queued_at > _OLD_S:
            self._fail(self._writer, "this process stood still")
        else:
            self._produce(order)

    def _produce(self, order: Write) -> None:
        writer = self._writer
        headers: _Headers = {FORMAT_HEADER: order.format}
        if order.value is None:
            headers |= self._headers_of_probe

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self._note_failure(writer, error)

        while True:
            try:
                self._producer.produce(
                    self._client.fleet.topic,
                    key=order.key,
                    value=order.value,
                    partition=order.partition,
                    headers=headers,
                    on_delivery=delivered,
                )
            except BufferError:
                if self._client.is_stopping:
                    return
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                self._note_failure(writer, error.args[0])
                return
            else:
                return

    def _note_failure(self, writer: Writer, error: KafkaError) -> None:
        if writer == self._writer and not self._has_failed and error.code() in FORBIDDEN:
            self._has_failed = True
            self._client.tell([AccessLost(f"{error.str()}. {access_hint(self._client.fleet)}")])
        self._fail(writer, error.str())

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
        # librdkafka's end may take long if it is stuck (proxy/member_log/reader_watch.py), and nobody waits for it.
        threading.Thread(target=released.clear, name="fleet-writer-ends", daemon=True).start()
        self._has_failed = False
