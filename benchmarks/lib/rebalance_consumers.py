"""`python -m benchmarks.lib.rebalance_consumers`: runs many ordinary consumers in one process, each in its own thread.

Standard input has commands, one JSON object a line: {"command": "start", "name", "topic", "settings": librdkafka's},
{"command": "close", "name"}. Standard output reports the callbacks, each line stamped with CLOCK_MONOTONIC: `assigned`,
`revoking` (the callback is entered: reading has stopped), `closed`, `failed`.

The application is the same for every protocol: it takes available records (up to `BATCH`), works on them for some time,
like one that writes to a database, and continues; commits are automatic, and when partitions are revoked it commits
what it has processed before it gives them up.
"""

import json
import random
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

BATCH = 200
POLL_S = 0.1
WORK_S = (0.0, 2.0)
"""A batch takes a random time between these, a second on average."""


class Application:
    """One consumer and its thread."""

    def __init__(self, name: str, topic: str, settings: dict[str, Any]) -> None:
        self._name = name
        self._topic = topic
        self._incremental = settings.get("group.protocol") == "consumer"
        self._consumer = Consumer({**settings, "client.id": name, "enable.auto.offset.store": False})
        self._random = random.Random(name)
        self._closing = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Leave the group in order, soon."""
        self._closing.set()

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
            while not self._closing.is_set():
                self._work()
            self._consumer.close()
            say(self._name, "closed", [])
        except KafkaException as crash:
            say(self._name, "failed", [], error=str(crash))

    def _work(self) -> None:
        messages = self._consumer.consume(BATCH, POLL_S)
        good = [message for message in messages if message.error() is None]
        errors = (message.error() for message in messages)
        fatal = [error for error in errors if error is not None and error.fatal()]
        if fatal:
            raise KafkaException(fatal[0])
        if not good:
            return
        time.sleep(self._random.uniform(*WORK_S))
        for message in good:
            try:
                self._consumer.store_offsets(message)
            except KafkaException as taken:  # the partition was taken away meanwhile
                if taken.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - its public name
                    raise

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say(self._name, "assigned", partitions)
        if self._incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say(self._name, "revoking", partitions)
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._NO_OFFSET:  # noqa: SLF001 - its public name
                say(self._name, "commit_failed", [], error=str(failure))
        if self._incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()


_writing = threading.Lock()


def say(name: str, event: str, partitions: list[TopicPartition], **more: object) -> None:
    """Print one line."""
    stamped = time.monotonic_ns()
    numbers = sorted(at.partition for at in partitions)
    line = {"name": name, "event": event, "mono": stamped, "partitions": numbers, **more}
    with _writing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Run commands until the input ends."""
    living: dict[str, Application] = {}
    for line in sys.stdin:
        command = json.loads(line)
        if command["command"] == "start":
            living[command["name"]] = Application(command["name"], command["topic"], command["settings"])
        else:
            living.pop(command["name"]).close()


if __name__ == "__main__":
    main()
