"""The process of the member log's Kafka client: ``python -m proxy.member_log.log_process``. Only the proxy starts it.

What it is to do comes on standard input, what it reads goes to standard output (:mod:`proxy.member_log.log_messages`).
It ends when its input does.
"""

import os
import threading

from confluent_kafka import KafkaException

from proxy.member_log.log_messages import (
    ENCODER,
    MAX_BATCH_BYTES,
    MAX_BATCH_RECORDS,
    ORDERS,
    Begin,
    Go,
    NoAnswer,
    Record,
    Reported,
)
from proxy.member_log.log_threads import LogThreads
from proxy.runtime import child_process
from proxy.runtime.exit_codes import ExitCode

_END_S = 3.0


class _Output:
    """Standard output, for several threads. Whoever writes waits while the proxy does not read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def tell(self, reports: list[Reported]) -> None:
        batch: list[Reported] = []
        size = 0
        for report in reports:
            batch.append(report)
            if isinstance(report, Record):
                size += len(report.key or b"") + len(report.value or b"")
            if len(batch) == MAX_BATCH_RECORDS or size >= MAX_BATCH_BYTES:
                self._write(batch)
                batch, size = [], 0
        if batch:
            self._write(batch)

    def _write(self, batch: list[Reported]) -> None:
        message = ENCODER.encode(batch)
        with self._lock:
            child_process.answer(message)


def main() -> None:
    """Begin when the proxy says so, and go on until it ends."""
    output = _Output()
    orders = child_process.orders()
    (begin,) = ORDERS.decode(next(orders))
    assert isinstance(begin, Begin)  # noqa: S101  the first message is that
    try:
        threads = LogThreads(begin, output.tell, lambda: os._exit(ExitCode.INTERNAL_ERROR))
    except (KafkaException, AttributeError, TypeError, ValueError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        output.tell([NoAnswer(reason, is_final=True)])
        return
    output.tell([threads.prepare()])
    for frame in orders:
        for order in ORDERS.decode(frame):
            if isinstance(order, Go):
                threads.start(order)
            elif not isinstance(order, Begin):
                threads.take(order)
    threads.stop(_END_S)


if __name__ == "__main__":
    child_process.run(main)
