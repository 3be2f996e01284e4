"""`python -m benchmarks.lib.soak_consumer BOOTSTRAP GROUP TOPIC`: one consumer of the soak, until its input ends.

It prints when it gets an assignment, and at the end how many records it has read; then it closes. Its log is on
standard error: what librdkafka does in its group and which metadata it gets, because that explains a close that does
not come back (`benchmarks.lib.soak_clients`).
"""

import sys
import threading
import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException


def main(bootstrap: str, group: str, topic: str) -> None:
    over = threading.Event()
    threading.Thread(target=_wait_for_the_end_of_input, args=(over,), daemon=True).start()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "latest",
            "session.timeout.ms": 10_000,
            "debug": "cgrp,metadata",
            "error_cb": lambda _error: None,
        }
    )
    consumer.subscribe(
        [topic], on_assign=lambda _consumer, _partitions: print("assigned", time.monotonic(), flush=True)
    )
    consumed = 0
    while not over.is_set():
        with suppress(KafkaException):
            consumed += len(consumer.consume(500, timeout=0.5))
    print("consumed", consumed, flush=True)
    consumer.close()


def _wait_for_the_end_of_input(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
