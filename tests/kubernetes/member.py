"""A consumer in a pod: writes what it reads and what happens to it, a line of JSON each.

Runs in the project's image, which has confluent-kafka and nothing of the tests.
"""

import json
import os
import signal
import sys

from confluent_kafka import Consumer, KafkaException

ended = False


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def end(*_: object) -> None:
    global ended  # noqa: PLW0603  a handler has no other way
    ended = True


def numbers(partitions: list) -> list[int]:
    return [one.partition for one in partitions]


def main() -> int:
    signal.signal(signal.SIGTERM, end)
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["BOOTSTRAP"],
            "group.id": os.environ["GROUP"],
            "client.id": os.environ["HOSTNAME"],
            "partition.assignment.strategy": os.environ["ASSIGNOR"],
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1_000,
            "statistics.interval.ms": 500,
            "stats_cb": lambda told: say(rebalances=json.loads(told).get("cgrp", {}).get("rebalance_cnt", 0)),
        }
    )
    consumer.subscribe(
        [os.environ["TOPIC"]],
        on_assign=lambda _, found: say(assigned=numbers(found)),
        on_revoke=lambda _, found: say(revoked=numbers(found)),
        on_lost=lambda _, found: say(lost=numbers(found)),
    )
    while not ended:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        say(read=[message.partition(), message.offset()])
    consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
