"""Encodes coordinator records as record batches (magic 2), as in Kafka's internal topics: one batch per change.

A change of state is atomic because its records are one batch: if the batch is torn or damaged, its checksum fails and
the whole change is dropped.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from coordinator.errors import CorruptLog
from protocol_codecs.errors import CodecError
from protocol_codecs.record_batch import NO_PRODUCER_ID
from protocol_codecs.records import (
    CONSUMER_OFFSETS,
    CoordinatorRecord,
    CorruptBatch,
    Record,
    RecordBatch,
    TopicCodec,
    decode_batch,
    encode_batch,
    read_header,
)

ABORT_MARKER, COMMIT_MARKER = 0, 1
_MARKER_KEY_VERSION = 0
_MEMORY = "memory log"


class LoggedBatch(msgspec.Struct, frozen=True):
    """One change of state. ``marker`` ends the transaction of a producer; such a batch has no records."""

    base_offset: int
    records: tuple[CoordinatorRecord, ...]
    producer_id: int = NO_PRODUCER_ID
    marker: int | None = None


class RecordLog(Protocol):
    """The log to which a coordinator writes its changes, and from which it reads them when it starts."""

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int, producer_id: int = ...) -> None:
        """Write one change."""
        ...

    def append_marker(self, producer_id: int, marker: int, now_ms: int) -> None:
        """Write the end of a transaction."""
        ...

    def read(self) -> Iterator[LoggedBatch]:
        """Yield every change from the beginning. Raises CorruptLog at the first damaged one."""
        ...


class Recovered(msgspec.Struct, frozen=True):
    """The intact part of a log: where each batch ends in bytes, the next offset, and the ``damage`` behind it."""

    ends: tuple[int, ...]
    next_offset: int
    damage: CorruptLog | None


class MemoryLog:
    """A log as a list of encoded batches.

    Initial batches are checked: a torn or damaged tail is dropped, and ``damage`` says where it began and why.
    """

    def __init__(self, batches: Sequence[bytes] = (), codec: TopicCodec = CONSUMER_OFFSETS) -> None:
        self._codec = codec
        content = b"".join(batches)
        sound = recover(content, _MEMORY, codec)
        starts = (0, *sound.ends)
        self.batches = [content[start:end] for start, end in zip(starts, sound.ends, strict=False)]
        self.next_offset = sound.next_offset
        self.damage = sound.damage

    def append(
        self, records: Sequence[CoordinatorRecord], now_ms: int, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Write one change."""
        self._add(encode_change(records, self.next_offset, now_ms, producer_id, self._codec), len(records))

    def append_marker(self, producer_id: int, marker: int, now_ms: int) -> None:
        """Write the end of a transaction."""
        self._add(encode_marker(producer_id, marker, self.next_offset, now_ms), 1)

    def read(self) -> Iterator[LoggedBatch]:
        """Yield every change from the beginning. Raises CorruptLog."""
        for _, batch in read_batches(b"".join(self.batches), _MEMORY, self._codec):
            yield batch

    def _add(self, content: bytes, count: int) -> None:
        self.batches.append(content)
        self.next_offset += count


def encode_change(
    records: Sequence[CoordinatorRecord],
    base_offset: int,
    now_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    codec: TopicCodec = CONSUMER_OFFSETS,
) -> bytes:
    """Encode one change as a record batch."""
    return encode_batch(
        RecordBatch(
            tuple(
                Record(codec.encode_key(record.key), codec.encode_value(record), offset_delta=number)
                for number, record in enumerate(records)
            ),
            base_offset=base_offset,
            base_timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id == NO_PRODUCER_ID else 0,
            is_transactional=producer_id != NO_PRODUCER_ID,
        )
    )


def encode_marker(producer_id: int, marker: int, base_offset: int, now_ms: int) -> bytes:
    """Encode the end of a transaction as a control batch."""
    key = _MARKER_KEY_VERSION.to_bytes(2, "big") + marker.to_bytes(2, "big")
    return encode_batch(
        RecordBatch(
            (Record(key, bytes(6)),),  # version and coordinator epoch
            base_offset=base_offset,
            base_timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
    )


def recover(content: bytes, name: str, codec: TopicCodec = CONSUMER_OFFSETS) -> Recovered:
    """Find the end of the intact part."""
    ends: list[int] = []
    next_offset = 0
    damage = None
    try:
        for position, _ in read_batches(content, name, codec):
            header = read_header(content, position, check=False)
            ends.append(position + header.size)
            next_offset = header.next_offset
    except CorruptLog as error:
        damage = error
    return Recovered(tuple(ends), next_offset, damage)


def read_batches(
    content: bytes, name: str, codec: TopicCodec = CONSUMER_OFFSETS, *, gaps: bool = False
) -> Iterator[tuple[int, LoggedBatch]]:
    """Yield every change in ``content`` with its position in bytes. Raises CorruptLog at the first damaged one.

    The checksum does not cover the base offset. Here it must follow the batch before it; with ``gaps``, as compaction
    leaves them, it may be any.
    """
    position = offset = 0
    while position < len(content):
        try:
            header = read_header(content, position)
            logged = _logged(decode_batch(content, position), codec)
            if logged.base_offset != offset and not gaps:
                raise CorruptBatch(position, f"begins with offset {logged.base_offset}")
        except CorruptBatch as error:
            raise CorruptLog(name, position, offset, error.reason) from error
        except CodecError as error:
            raise CorruptLog(name, position, offset, str(error)) from error
        yield position, logged
        position += header.size
        offset = header.next_offset


def _logged(batch: RecordBatch, codec: TopicCodec) -> LoggedBatch:
    if batch.is_control:
        marker = int.from_bytes((batch.records[0].key or bytes(4))[2:4], "big")
        return LoggedBatch(batch.base_offset, (), batch.producer_id, marker)
    decoded = (codec.decode(record.key or b"", record.value) for record in batch.records)
    records = tuple(record for record in decoded if record is not None)
    return LoggedBatch(batch.base_offset, records, batch.producer_id)
