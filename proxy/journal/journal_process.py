"""The process that writes the journal's topic through librdkafka: ``python -m proxy.journal.journal_process``.

Only the proxy starts it (:mod:`proxy.journal.journal_account`). A batch is answered when the brokers have
acknowledged all its records; else another producer is used for the next one. It ends when its standard input does.
"""

import threading
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from proxy.config.fleet import Property
from proxy.journal.journal_messages import (
    ENCODER,
    ORDERS,
    PARTITIONS,
    Answer,
    Begin,
    JournalTopic,
    Line,
    NotWritten,
    Write,
    Written,
)
from proxy.runtime import child_process

_TIMEOUT_S = 10.0
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


class _NoTopic(Exception):
    """The topic is missing, and the account may not make it."""


class _JournalWriter:
    """Writes to ``topic`` with a producer of these librdkafka properties."""

    def __init__(self, topic: JournalTopic, properties: Mapping[str, Property]) -> None:
        self._topic = topic
        self._properties = {"client.id": "epochgate-journal", **properties}
        self._producer: Producer | None = None
        self._last_error = ""
        """What librdkafka said last; a record that timed out does not say why."""
        self._failed: list[KafkaError] = []
        self._failure: NotWritten | None = None

    def write(self, lines: list[Line]) -> None:
        """Produce some records of a batch, unless one before has failed."""
        if self._failure is not None:
            return
        try:
            if self._producer is None:
                self._prepare_topic()
                self._producer = Producer({**self._properties, **_PRODUCER, "error_cb": self._note_error})
            for line in lines:
                self._producer.produce(
                    self._topic.name,
                    key=line.key,
                    value=line.value,
                    timestamp=line.time_ms,
                    on_delivery=self._delivered,
                )
        except _NoTopic as error:
            self._failure = NotWritten(str(error), keep=True)
        except KafkaException as error:
            self._failure = self._not_written([error.args[0]], "")
        except (BufferError, TimeoutError) as error:
            self._failure = self._not_written([], str(error) or "no answer in time")

    def flush(self) -> Answer:
        """Wait until the batch is acknowledged; say what became of it."""
        failure, failed = self._failure, self._failed
        if failure is None and self._producer is not None:
            waiting = self._producer.flush(_TIMEOUT_S + 1)
            if failed or waiting:
                failure = self._not_written(failed, "no answer in time")
        self._failure, self._failed = None, []
        if failure is not None:
            self._release()
        return failure or Written()

    def _delivered(self, error: KafkaError | None, _record: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _not_written(self, failed: list[KafkaError], otherwise: str) -> NotWritten:
        reason = failed[0].str() if failed else otherwise
        if self._last_error and self._last_error != reason:
            reason += f" ({self._last_error})"
        keep = not failed or any(error.code() not in _PERMANENT_ERRORS for error in failed)
        return NotWritten(reason, keep)

    def _note_error(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def _release(self) -> None:
        """Give the producer up. librdkafka's end may take long, and nobody waits for it."""
        if self._producer is None:
            return
        released, self._producer, self._last_error = [self._producer], None, ""
        released[0].purge()
        released[0].poll(0)  # so that what is purged is not taken for a failure of the next batch
        self._failed = []
        threading.Thread(target=released.clear, name="journal-producer-ends", daemon=True).start()

    def _prepare_topic(self) -> None:
        """Make the topic if it is missing.

        :raises _NoTopic: it is missing, and the account may not make it.
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
            raise _NoTopic(
                f"the topic is missing and can't be made here ({error.args[0].str()}). Make it: {command}"
            ) from error


def main() -> None:
    """Write what standard input says, and answer each batch."""
    orders = child_process.orders()
    begin = ORDERS.decode(next(orders))
    assert isinstance(begin, Begin)  # noqa: S101  the first message is that
    writer = _JournalWriter(begin.topic, begin.properties)
    for frame in orders:
        order = ORDERS.decode(frame)
        assert isinstance(order, Write)  # noqa: S101  the others are these
        writer.write(order.lines)
        if order.is_last:
            child_process.answer(ENCODER.encode(writer.flush()))


if __name__ == "__main__":
    child_process.run(main)
