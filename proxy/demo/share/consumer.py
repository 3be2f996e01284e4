"""``python -m proxy.demo.share.consumer SETTINGS``: one ordinary share consumer (confluent-kafka).

It acknowledges each record: accepted, or released if the work fails. It reports on standard output what it was
delivered and what the broker has taken note of (:mod:`proxy.demo.reports`), and takes commands on standard input, one a
line: ``fail`` and ``work`` (each record whose number ends in 0 fails at its first delivery, or no longer does),
``poison N`` (record N always fails), ``hold`` (be at work on the next records for ever). It leaves the group and exits
when standard input ends.
"""

import signal
import sys
import threading
import time
from collections.abc import Collection, Mapping

import msgspec
from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer, TopicPartition

from proxy.demo.reports import Acknowledged, Delivered, Failed, Left, Report, ShareConsumerSettings
from proxy.demo.share.plan import FAILING

_POLL_S = 0.1
_COMMIT_S = 30.0


class Commands:
    """What the demo wants of this consumer; read by a thread of its own."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.fails = False
        self.holds = False
        self.poison = -1

    def listen(self) -> None:
        """Obey the lines of standard input until it ends."""
        for line in sys.stdin:
            match line.split():
                case ["fail"]:
                    self.fails = True
                case ["work"]:
                    self.fails = False
                case ["hold"]:
                    self.holds = True
                case ["poison", number]:
                    self.poison = int(number)
        self.stop.set()

    def lets_fail(self, number: int, delivery: int) -> bool:
        """Whether the work on a record fails."""
        return number == self.poison or (self.fails and delivery == 1 and number % FAILING == 0)


class ReportingShareConsumer:
    """A share consumer that reports on standard output."""

    def __init__(self, settings: ShareConsumerSettings, commands: Commands) -> None:
        self._commands = commands
        self._work_s = settings.work_s
        self._numbers: dict[tuple[int, int], tuple[int, bool]] = {}
        """The number of each record under way and whether it is accepted, by partition and offset."""
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "client.id": settings.name,
                "group.id": settings.group_id,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": settings.most_records,
                "log_level": 0,
            }
        )
        self._consumer.set_acknowledgement_commit_callback(self._acknowledged)
        self._consumer.subscribe([settings.topic])

    def run(self) -> None:
        """Process records until told to stop; then leave the group.

        :raises KafkaException: the client library gave up.
        """
        while not self._commands.stop.is_set():
            self._process([one for one in self._consumer.poll(_POLL_S) if one.error() is None])
        self._consumer.close()
        _report(Left(time.monotonic_ns()))

    def _process(self, messages: list[Message]) -> None:
        if not messages:
            return
        records = [(int(one.value() or b""), one.delivery_count() or 1) for one in messages]
        holds = self._commands.holds
        _report(Delivered(time.monotonic_ns(), tuple(records), holds=holds))
        if holds:
            self._commands.stop.wait()
            return
        self._commands.stop.wait(self._work_s)
        for message, (number, delivery) in zip(messages, records, strict=True):
            is_accepted = not self._commands.lets_fail(number, delivery)
            self._numbers[_place(message)] = number, is_accepted
            kind = AcknowledgeType.ACCEPT if is_accepted else AcknowledgeType.RELEASE
            self._consumer.acknowledge(message, kind)
        self._consumer.commit_sync(_COMMIT_S)

    def _acknowledged(
        self, offsets: Mapping[TopicPartition, Collection[int]], refusal: KafkaException | None
    ) -> None:
        done = [
            self._numbers.pop((at.partition, offset)) for at, those in offsets.items() for offset in those
        ]
        if refusal is None:
            accepted = tuple(number for number, is_accepted in done if is_accepted)
            released = tuple(number for number, is_accepted in done if not is_accepted)
            _report(Acknowledged(time.monotonic_ns(), accepted, released))


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        raise ValueError("a record without a place")
    return partition, offset


def _report(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def main() -> int:
    """Run one consumer. Returns 1, after reporting the reason, if the client library gives up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the demo process
    commands = Commands()
    threading.Thread(target=commands.listen, daemon=True).start()
    settings = msgspec.json.decode(sys.argv[1], type=ShareConsumerSettings)
    try:
        ReportingShareConsumer(settings, commands).run()
    except KafkaException as error:
        _report(Failed(str(error)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
