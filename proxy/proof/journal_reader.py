"""Reads the journal's topic from its beginning, and goes on as it grows. It joins no group and commits nothing.

Its partitions are read side by side: one that is ahead of the others by a minute waits for them, so that events can be
put in order without many that wait. All of it runs in a process of its own (:mod:`proxy.proof.journal_process`).
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from proxy.config.fleet import Property
from proxy.proof.sources import JournalUnreadable, Read

AHEAD_MS = 60_000
"""How far a partition may be ahead of the others, by its records' times."""

AT_ONCE = 500
_TIMEOUT_S = 10.0
_POLL_S = 0.5
_LIST_EVERY_S = 60.0
_ENDS_READING = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the library's public name for it
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - likewise
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - likewise
    }
)
"""Of other errors the library recovers by itself; what it reads late then counts as late."""


class JournalReader:
    """Reads one topic with a consumer of these librdkafka properties. Its methods block.

    :raises JournalUnreadable: the topic is not there, or the account may not read it.
    """

    def __init__(
        self, topic: str, properties: Mapping[str, Property], now_ms: Callable[[], int] | None = None
    ) -> None:
        self._topic = topic
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self._newest_ms: dict[int, int] = {}
        self._at_end: set[int] = set()
        self._waits: set[int] = set()
        self._listed_at = time.monotonic()
        self._consumer = Consumer(
            {
                "client.id": "epochgate-proof",
                **properties,
                "group.id": "epochgate-proof",  # demanded by the library; never joined
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": 4096,
                "log_level": 0,
            }
        )
        try:
            self._partitions = self._list()
            self._consumer.assign([TopicPartition(topic, number, 0) for number in range(self._partitions)])
        except KafkaException as error:
            self.close()
            raise JournalUnreadable(f"{topic}: {error.args[0].str()}") from error
        except JournalUnreadable:
            self.close()
            raise

    def read(self) -> Read:
        """Return what comes next, or nothing after half a second.

        :raises JournalUnreadable: nothing more can be read with this reader.
        """
        lines: list[bytes | None] = []
        try:
            if time.monotonic() - self._listed_at > _LIST_EVERY_S:
                self._listed_at = time.monotonic()
                if self._list() != self._partitions:
                    raise JournalUnreadable(f"{self._topic}: its partitions have changed")
            for message in self._consumer.consume(AT_ONCE, _POLL_S):
                self._take(message, lines)
            self._keep_together()
        except KafkaException as error:
            raise JournalUnreadable(f"{self._topic}: {error.args[0].str()}") from error
        behind = [number for number in range(self._partitions) if number not in self._at_end]
        if behind:
            return Read(lines, min(self._newest_ms.get(number, 0) for number in behind), is_at_end=False)
        return Read(lines, self._now_ms(), is_at_end=True)

    def close(self) -> None:
        """Close the connections."""
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _list(self) -> int:
        found = self._consumer.list_topics(self._topic, timeout=_TIMEOUT_S).topics[self._topic]
        if found.error is not None:
            raise JournalUnreadable(f"{self._topic}: {found.error.str()}")
        return len(found.partitions)

    def _take(self, message: Message, lines: list[bytes | None]) -> None:
        error, number = message.error(), message.partition()
        if number is None:
            return
        if error is None:
            lines.append(message.value())
            self._newest_ms[number] = max(message.timestamp()[1], self._newest_ms.get(number, 0))
            self._at_end.discard(number)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
            self._at_end.add(number)
        elif error.code() in _ENDS_READING or error.fatal():
            raise KafkaException(error)

    def _keep_together(self) -> None:
        """Let partitions wait that are ahead of one that is not at its end."""
        behind = [
            self._newest_ms.get(number, 0) for number in range(self._partitions) if number not in self._at_end
        ]
        slowest = min(behind, default=self._now_ms())
        ahead = {
            number
            for number, newest_ms in self._newest_ms.items()
            if number not in self._at_end and newest_ms > slowest + AHEAD_MS
        }
        if stop := ahead - self._waits:
            self._consumer.pause([TopicPartition(self._topic, number) for number in stop])
        if go_on := self._waits - ahead:
            self._consumer.resume([TopicPartition(self._topic, number) for number in go_on])
        self._waits = ahead
