"""``python -m proxy.demo.consumer SETTINGS``: one ordinary consumer of the classic protocol.

It reads one topic in one group with confluent-kafka's defaults and automatic commit, and reports what its callbacks
receive on standard output (:mod:`proxy.demo.reports`). It leaves the group and exits when standard input ends, so it
never outlives the process that started it.
"""

import random
import signal
import sys
import threading
import time

import msgspec
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from proxy.demo.reports import Assigned, Consumed, ConsumerSettings, Failed, Left, Report, Revoked

_POLL_S = 0.1
_COMMIT_INTERVAL_MS = 1_000
_LARGEST_BATCH = 500


class ReportingConsumer:
    """A consumer that reports its callbacks on standard output."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "client.id": settings.name,
                "group.id": settings.group_id,
                "partition.assignment.strategy": settings.assignor,
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": settings.heartbeat_interval_ms,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": _COMMIT_INTERVAL_MS,
                "enable.auto.offset.store": False,  # stored after the report, so only reported records are committed
            }
        )
        self._work_s = settings.work_s
        self._random = random.Random(settings.name)  # noqa: S311  no secret; consumers must not run in lockstep
        self._batch: list[Message] = []
        self._consumer.subscribe(
            [settings.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def run(self, stop: threading.Event) -> None:
        """Read and process batches until ``stop`` is set; then leave the group.

        :raises KafkaException: the client library gave up.
        """
        while not stop.is_set():
            self._take(self._consumer.poll(_POLL_S))
            while self._batch and len(self._batch) < _LARGEST_BATCH:
                message = self._consumer.poll(0)
                if message is None:
                    break
                self._take(message)
            self._work()
        self._consumer.close()
        _report(Left(time.monotonic_ns()))

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        error = message.error()
        if error is None:
            self._batch.append(message)
        elif error.fatal():
            raise KafkaException(error)

    def _work(self) -> None:
        """Spend time on the batch, as an application does. Rebalance callbacks wait for it."""
        messages, self._batch = self._batch, []
        if not messages:
            return
        time.sleep(self._random.uniform(0, 2 * self._work_s))
        _report(Consumed(tuple(int(message.value() or b"") for message in messages)))
        for message in messages:
            self._consumer.store_offsets(message)

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _report(Assigned(time.monotonic_ns(), _numbers(partitions)))

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        began_ns = time.monotonic_ns()
        self._work()
        _report(Revoked(began_ns, time.monotonic_ns(), _numbers(partitions)))


def _numbers(partitions: list[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(partition.partition for partition in partitions))


def _report(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _wait_for_end_of_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def main() -> int:
    """Run one consumer. Returns 1, after reporting the reason, if the client library gives up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the demo process
    stop = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=(stop,), daemon=True).start()
    settings = msgspec.json.decode(sys.argv[1], type=ConsumerSettings)
    try:
        ReportingConsumer(settings).run(stop)
    except KafkaException as error:
        _report(Failed(str(error)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
