"""An application that produces on confluent-kafka (librdkafka) until it is told to close.

Its argument is a JSON object: bootstrap, topic, partitions, own_settings. It writes events as in line_protocol.py:
`started`, `produced` ({partition: highest offset}, count) now and then, `error`, and `closed` once all that it
has sent is acknowledged, or `failed`.
"""

import json
import sys
import time
from collections import Counter

import confluent_kafka
from confluent_kafka import KafkaError, Message, Producer
from line_protocol import Events, command_queue, next_command

PAUSE_S = 0.05
REPORT_EVERY = 50


class Application:
    """Produces, reports, obeys."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, own_settings: dict[str, object]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._events = Events()
        self._commands = command_queue()
        self._acknowledged = Counter[int]()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "producer",
                "acks": "all",
                "linger.ms": 5,
                "error_cb": self._on_error,
                **own_settings,
            }
        )

    def run(self) -> None:
        """Until it is told to close."""
        self._events.started("confluent-kafka", confluent_kafka.__version__)
        number = 0
        while next_command(self._commands) is None:
            for _ in range(self._partitions):
                value = str(number).encode()
                partition = number % self._partitions
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                number += 1
            self._producer.poll(PAUSE_S)
            time.sleep(PAUSE_S)
        left = self._producer.flush(60)
        self._report()
        acknowledged = sum(self._acknowledged.values())
        self._events.write("closed" if not left and acknowledged == number else "failed", sent=number)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._events.write("failed", error=f"{error.name()}: {error.str()}")
            return
        self._acknowledged[_message.partition()] += 1
        if sum(self._acknowledged.values()) % REPORT_EVERY == 0:
            self._report()

    def _report(self) -> None:
        self._events.write("produced", acknowledged=dict(self._acknowledged))

    def _on_error(self, error: KafkaError) -> None:
        self._events.write("error", error=f"{error.name()}: {error.str()}", fatal=error.fatal())


if __name__ == "__main__":
    Application(**json.loads(sys.argv[1])).run()
