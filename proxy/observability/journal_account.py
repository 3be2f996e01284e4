"""Writes the journal to a Kafka topic with the account of the member log (``fleet.kafka``), through librdkafka.

Records are those of :mod:`journal_topic`, which needs no Kafka client but knows no SASL. A write ends when the brokers
have acknowledged all its records; else it is repeated as a whole with another producer. Readers detect duplicates by
`replica`, `boot` and `seq`.
"""

import threading
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import trio
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from proxy.config.fleet import Property
from proxy.observability.journal import JournalError, JournalEvent

PARTITIONS = 4
"""Of a topic that is made here."""

_SEGMENT_BYTES = 64 * 1024 * 1024
"""Brokers delete whole segments; those of Kafka's default size would double what is kept."""
_TIMEOUT_S = 10.0
_MAX_EVENT_BYTES = 900_000
"""Brokers and librdkafka refuse records of more than a megabyte."""
_PRODUCER: Mapping[str, Property] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "message.timeout.ms": int(_TIMEOUT_S * 1000),
    "partitioner": "consistent_random",
    "compression.type": "lz4",
    "batch.size": 500_000,
    "allow.auto.create.topics": False,
    "log_level": 0,
}
_PERMANENT_ERRORS = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})


class JournalTopic(NamedTuple):
    """The topic, and what it is like if it has to be made."""

    name: str
    replication: int
    keep_bytes: int = 0
    """Size of the whole topic at which its oldest segments are deleted; 0: never."""

    def settings(self) -> dict[str, str]:
        """Return the settings that the topic is made with."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": str(self.keep_bytes // PARTITIONS or -1),
            "segment.bytes": str(_SEGMENT_BYTES),
            "min.insync.replicas": "2" if self.replication >= 3 else "1",
        }

    def create_command(self, bootstrap: object) -> str:
        """Return the command that makes the topic."""
        settings = " ".join(f"--config {name}={value}" for name, value in self.settings().items())
        return (
            f"kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {self.name} --partitions {PARTITIONS} "
            f"--replication-factor {self.replication} {settings}"
        )


class AccountTopicSink:
    """Writes to ``topic`` with a producer of these librdkafka properties. What blocks is done in a thread."""

    name = "topic"

    def __init__(self, topic: JournalTopic, properties: Mapping[str, Property]) -> None:
        self._topic = topic
        self._properties = {"client.id": "epochgate-journal", **properties}
        self._producer: Producer | None = None
        self._last_error = ""
        """What librdkafka said last; a record that timed out does not say why."""

    async def write(self, events: list[JournalEvent]) -> None:
        """See :class:`proxy.observability.journal.Sink`."""
        await trio.to_thread.run_sync(self._write, events, abandon_on_cancel=True)

    async def idle(self) -> None:
        """Do nothing: connections stay open."""

    async def close(self) -> None:
        """Close the connections; everything has been acknowledged."""
        self._release()

    # -- in the thread ---------------------------------------------------------------------------------------

    def _write(self, events: list[JournalEvent]) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _record: Message) -> None:
            if error is not None:
                failed.append(error)

        try:
            if self._producer is None:
                self._prepare_topic()
                self._producer = Producer({**self._properties, **_PRODUCER, "error_cb": self._note_error})
            for event in events:
                self._producer.produce(
                    self._topic.name,
                    key=event.group.encode() or None,
                    value=_encoded(event),
                    timestamp=event.time_us // 1000,
                    on_delivery=delivered,
                )
            waiting = self._producer.flush(_TIMEOUT_S + 1)
        except (KafkaException, BufferError, TimeoutError) as error:
            self._release()
            failed = [error.args[0]] if isinstance(error, KafkaException) else []
            raise self._failure(failed, str(error) or "no answer in time") from error
        if failed or waiting:
            self._release()
            raise self._failure(failed, "no answer in time")

    def _failure(self, failed: list[KafkaError], otherwise: str) -> JournalError:
        reason = failed[0].str() if failed else otherwise
        if self._last_error and self._last_error != reason:
            reason += f" ({self._last_error})"
        keep = not failed or any(error.code() not in _PERMANENT_ERRORS for error in failed)
        return JournalError(f"{self._topic.name}: {reason}", keep=keep)

    def _note_error(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def _release(self) -> None:
        """Give the producer up. librdkafka's end may take long, and nobody waits for it."""
        if self._producer is None:
            return
        released, self._producer, self._last_error = [self._producer], None, ""
        released[0].purge()
        threading.Thread(target=released.clear, name="journal-producer-ends", daemon=True).start()

    def _prepare_topic(self) -> None:
        """Make the topic if it is missing.

        :raises JournalError: it is missing, and the account may not make it.
        """
        admin = AdminClient({**self._properties, "log_level": 0})
        found = admin.describe_topics(TopicCollection([self._topic.name]), request_timeout=_TIMEOUT_S)
        try:
            found[self._topic.name].result(_TIMEOUT_S + 1)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        else:
            return
        made = NewTopic(self._topic.name, PARTITIONS, self._topic.replication, config=self._topic.settings())
        try:
            admin.create_topics([made], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[
                self._topic.name
            ].result(_TIMEOUT_S + 1)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another replica was faster
                return
            command = self._topic.create_command(self._properties.get("bootstrap.servers", "BROKERS"))
            raise JournalError(
                f"{self._topic.name}: the topic is missing and can't be made here ({error.args[0].str()}). "
                f"Make it: {command}",
                keep=True,
            ) from error


def _encoded(event: JournalEvent) -> bytes:
    """Return the event as JSON. One that is too large for a record names no partitions."""
    data = msgspec.json.encode(event)
    if len(data) > _MAX_EVENT_BYTES:
        data = msgspec.json.encode(msgspec.structs.replace(event, partitions=(), owned=None))
    return data
