"""Produces records while things break, and writes down those that were acknowledged."""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from support.ownership import Partition

RATE = 120
"""Records a second."""

FLUSH_TIMEOUT_S = 60


class Producing:
    """Produces at a steady rate in its own thread, and writes down every acknowledged record.

    It talks to the broker directly, and librdkafka's producer now and then does not recover from the broker's
    restarts. So its records count from their acknowledgement on, and the one that has to get through at the end is a
    new producer.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, log: Path, *, rate: int = RATE) -> None:
        """`rate` is in records a second."""
        self._bootstrap = bootstrap
        self._rate = rate
        self._topic = topic
        self._partitions = partitions
        self._log = log.open("w")
        self._said = logging.FileHandler(log.with_suffix(".log"))
        self._logger = logging.getLogger(f"{__name__}.producer")
        self._logger.propagate = False
        self._logger.addHandler(self._said)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)
        self.acknowledged: set[tuple[Partition, int]] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and produce a last record to every partition; a second call does nothing.

        Raises AssertionError if the last records are not acknowledged.
        """
        if self._log.closed:
            return
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._produce_last()
        self._logger.removeHandler(self._said)
        self._said.close()
        self._log.close()

    def _produce(self) -> None:
        producer = self._producer()
        began, sent = time.monotonic(), 0
        while not self._stopping.wait(0.05):
            while sent < (time.monotonic() - began) * self._rate:
                self._send(producer, str(sent), sent % self._partitions)
                sent += 1
            producer.poll(0)
        if left := producer.flush(FLUSH_TIMEOUT_S):
            self._logger.error("%d records not acknowledged %d s after the last fault", left, FLUSH_TIMEOUT_S)
            producer.purge()
            producer.flush(FLUSH_TIMEOUT_S)

    def _produce_last(self) -> None:
        producer = self._producer()
        for partition in range(self._partitions):
            self._send(producer, "last", partition)
        assert not producer.flush(FLUSH_TIMEOUT_S), f"records are not taken: see {self._said.baseFilename}"

    def _producer(self) -> Producer:
        return Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True}, logger=self._logger
        )

    def _send(self, producer: Producer, value: str, partition: int) -> None:
        producer.produce(self._topic, value.encode(), partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            return  # not acknowledged: nobody has to read it
        partition, offset = Partition(self._topic, message.partition()), message.offset()
        self.acknowledged.add((partition, offset))
        line: dict[str, Any] = {
            "partition": partition.number,
            "offset": offset,
            "value": message.value().decode(),
        }
        self._log.write(json.dumps(line) + "\n")
