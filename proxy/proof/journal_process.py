"""The process that reads the journal's topic for the proof: ``python -m proxy.proof.journal_process``.

Only the proxy starts it (:mod:`proxy.proof.journal_topic`). It ends when its standard input does.
"""

from confluent_kafka import KafkaException

from proxy.proof.journal_messages import (
    ENCODER,
    MAX_FRAME_BYTES,
    ORDERS,
    Lines,
    Open,
    Opened,
    ReadUntil,
    Unreadable,
)
from proxy.proof.journal_reader import JournalReader
from proxy.proof.sources import JournalUnreadable
from proxy.runtime import child_process


def main() -> None:
    """Open the topic, and read as often as standard input says."""
    orders = child_process.orders()
    first = ORDERS.decode(next(orders))
    assert isinstance(first, Open)  # noqa: S101  the first message is that
    try:
        reader = JournalReader(first.topic, first.properties)
        _say(Opened())
        for _ in orders:
            read = reader.read()
            _say_lines(read.lines)
            _say(ReadUntil(read.until_ms, read.is_at_end))
    except JournalUnreadable as error:
        _say(Unreadable(str(error)))
    except (
        KafkaException,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # librdkafka does not take the properties
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        _say(Unreadable(reason))


def _say_lines(lines: list[bytes | None]) -> None:
    batch: list[bytes | None] = []
    size = 0
    for line in lines:
        length = 0 if line is None else len(line)
        if batch and size + length > MAX_FRAME_BYTES:
            _say(Lines(batch))
            batch, size = [], 0
        batch.append(line if length <= MAX_FRAME_BYTES else None)
        size += length
    if batch:
        _say(Lines(batch))


def _say(message: Opened | Lines | ReadUntil | Unreadable) -> None:
    child_process.answer(ENCODER.encode(message))


if __name__ == "__main__":
    child_process.run(main)
