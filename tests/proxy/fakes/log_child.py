"""A process of the member log's Kafka client that needs no Kafka: ``python -m tests.proxy.fakes.log_child``.

It reads back what is written. What goes wrong in its first life is the name of the topic; the lives after that are
healthy.
"""

import os
import signal
import struct
import sys

from proxy.member_log.log_events import AccessLost, EndReached, SettingsRead
from proxy.member_log.log_messages import ENCODER, ORDERS, Begin, Begun, Go, Record, Refused, Write
from proxy.member_log.record_decoding import LOG_APPEND_TIME
from proxy.runtime.frames import framed, read_frame


def say(*reports: object) -> None:
    sys.stdout.buffer.write(framed(ENCODER.encode(list(reports))))
    sys.stdout.buffer.flush()


def say_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def crash() -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


def misbehave(fault: str) -> None:
    """What goes wrong when the log is to be read."""
    match fault:
        case "says what is no message":
            say_bytes(framed(b"\xc1 junk"))
        case "says what is nested deeply":
            say_bytes(framed(b"\x91" * 5000))
        case "says too much":
            say_bytes(struct.pack("!I", 2**31))
        case "says half a message":
            say_bytes(struct.pack("!I", 100) + b"half")
            os._exit(0)
        case "names another partition":
            say(EndReached(77, 0))
        case "has no right":
            say(AccessLost("no right"))
        case "has wrong settings":
            say(SettingsRead("retention.ms=1. Change it"))


class Child:
    def __init__(self, begin: Begin) -> None:
        self.fault = begin.fleet.topic.replace("-", " ") if begin.topic_id is None else ""
        self.is_first = begin.topic_id is None
        self.partitions = range(begin.fleet.partitions)
        self.offsets = dict.fromkeys(self.partitions, 0)
        self.replica = begin.replica
        self.writer = b""
        topic_id = "another" if begin.fleet.topic == "is-made-again" and not self.is_first else "id"
        if self.fault == "crashes at the start":
            crash()
        if begin.fleet.topic == "is-refused" and not self.is_first:
            say(Refused("no right"))
            sys.exit()
        is_new = topic_id != begin.topic_id
        say(Begun(topic_id, self.offsets if is_new else {}, None))

    def go(self, go: Go) -> None:
        self.writer = go.writer
        for partition, (offset, _) in go.positions.items():
            self.offsets[partition] = offset
        misbehave(self.fault)
        say(*(EndReached(number, self.offsets[number]) for number in self.partitions))

    def write(self, write: Write) -> None:
        if write.value is not None and self.fault in ("crashes", "is made again", "is refused"):
            crash()
        if write.writer != self.writer:
            return
        offset = self.offsets[write.partition]
        self.offsets[write.partition] = offset + 1
        replica = self.replica if write.value is None else None
        say(
            Record(
                write.partition,
                offset,
                LOG_APPEND_TIME,
                1_000,
                0,
                write.key,
                write.value,
                write.format,
                replica,
            )
        )


def main() -> None:
    child: Child | None = None
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        for order in ORDERS.decode(frame):
            match order:
                case Begin():
                    child = Child(order)
                case Go() if child is not None:
                    child.go(order)
                case Write() if child is not None:
                    child.write(order)
                case _ if child is not None:
                    child.writer = getattr(order, "writer", child.writer)


if __name__ == "__main__":
    main()
