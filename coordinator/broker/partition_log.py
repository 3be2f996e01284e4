"""The log of one partition: record batches as they came, in memory, and on request in a file too."""

from bisect import bisect_right
from pathlib import Path

import msgspec

from coordinator.errors import CoordinatorError
from protocol_codecs.records import BatchHeader, CorruptBatch, read_headers, rebased

LEADER_EPOCH = 0
"""Leaders never change here, so neither does their epoch."""
_REMEMBERED_BATCHES = 5
"""Of each idempotent producer: so many of its batches may be under way."""


class OffsetOutOfRange(CoordinatorError):
    """The offset is before the beginning or after the end of the log."""


class OutOfOrderSequence(CoordinatorError):
    """A batch of an idempotent producer skips a sequence number."""


class _Stored(msgspec.Struct, frozen=True):
    base_offset: int
    next_offset: int
    max_timestamp: int
    content: bytes


class _Written(msgspec.Struct, frozen=True):
    """One batch of an idempotent producer."""

    epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int


class PartitionLog:
    """One partition. Above ``max_bytes`` it drops its oldest batches.

    With ``path`` it begins with what is stored there, without a torn tail, and stores there what is appended. What it
    drops stays in the file.
    """

    def __init__(self, max_bytes: int | None = None, path: Path | None = None) -> None:
        self._batches: list[_Stored] = []
        self._base_offsets: list[int] = []
        self._producers: dict[int, list[_Written]] = {}
        self._bytes = 0
        self._deleted_before = 0
        self._max_bytes = max_bytes
        self.next_offset = 0
        self._path = path
        self._file = None
        if path is not None:
            self._load(path)
            self._file = path.open("ab", buffering=0)

    @property
    def start_offset(self) -> int:
        """Return the first offset that can still be read."""
        stored = self._batches[0].base_offset if self._batches else self.next_offset
        return max(stored, self._deleted_before)

    def append(self, records: bytes) -> int:
        """Append record batches; return the offset of the first record.

        A batch that an idempotent producer retries is not stored again. Raises CorruptBatch and OutOfOrderSequence.
        """
        headers = list(read_headers(records))
        for _, header in headers:
            duplicate = self._check_sequence(header)
            if duplicate is not None:
                return duplicate
        base_offset = self.next_offset
        for position, header in headers:
            self._store(records[position : position + header.size], header)
        return base_offset

    def delete_before(self, offset: int) -> None:
        """Let the log start at this offset, as DeleteRecords does. Raises OffsetOutOfRange if it is after the end.

        A file keeps what is deleted.
        """
        if offset > self.next_offset:
            raise OffsetOutOfRange(f"offset {offset} is after {self.next_offset}")
        self._deleted_before = max(offset, self._deleted_before)
        while self._batches and self._batches[0].next_offset <= offset:
            self._drop_oldest()

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()

    def delete(self) -> None:
        """Delete the file, if there is one."""
        self.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from this offset on, at least one if there is any. Raises OffsetOutOfRange."""
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in {self.start_offset}..{self.next_offset}")
        found: list[bytes] = []
        size = 0
        for batch in self._batches[max(0, bisect_right(self._base_offsets, offset) - 1) :]:
            if batch.next_offset <= offset:
                continue
            size += len(batch.content)
            if found and size > max_bytes:
                break
            found.append(batch.content)
        return b"".join(found)

    def available(self, offset: int) -> int:
        """Return how many bytes there are from this offset on."""
        first = max(0, bisect_right(self._base_offsets, offset) - 1)
        return sum(len(b.content) for b in self._batches[first:] if b.next_offset > offset)

    def offset_of_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return offset and time of the first batch that has a record of this time or later; records are not read."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp_ms:
                return batch.base_offset, batch.max_timestamp
        return None

    def newest(self) -> tuple[int, int] | None:
        """Return the offset of the largest timestamp, and that timestamp."""
        if not self._batches:
            return None
        newest = max(self._batches, key=lambda batch: batch.max_timestamp)
        return newest.next_offset - 1, newest.max_timestamp

    def _store(self, content: bytes, header: BatchHeader) -> None:
        stored = rebased(content, self.next_offset, LEADER_EPOCH)
        if self._file is not None:
            self._file.write(stored)
        self._keep(stored, header, self.next_offset)

    def _load(self, path: Path) -> None:
        content = path.read_bytes() if path.exists() else b""
        sound = 0
        try:
            for position, header in read_headers(content):
                sound = position + header.size
                self._keep(content[position:sound], header, header.base_offset)
        except CorruptBatch:  # the process ended while it wrote
            with path.open("r+b") as file:
                file.truncate(sound)

    def _keep(self, stored: bytes, header: BatchHeader, base: int) -> None:
        self.next_offset = base + header.last_offset_delta + 1
        self._batches.append(_Stored(base, self.next_offset, header.max_timestamp, stored))
        self._base_offsets.append(base)
        self._bytes += len(stored)
        if header.producer_id >= 0:
            last = header.base_sequence + header.last_offset_delta
            written = _Written(header.producer_epoch, header.base_sequence, last, base)
            batches = self._producers.setdefault(header.producer_id, [])
            batches.append(written)
            del batches[:-_REMEMBERED_BATCHES]
        while self._max_bytes is not None and self._bytes > self._max_bytes and len(self._batches) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._bytes -= len(self._batches[0].content)
        del self._batches[0], self._base_offsets[0]

    def _check_sequence(self, header: BatchHeader) -> int | None:
        """Return the offset of the batch if it is stored already. Raises OutOfOrderSequence."""
        if header.producer_id < 0:
            return None
        batches = self._producers.get(header.producer_id, [])
        for written in batches:
            if (written.epoch, written.first_sequence) == (header.producer_epoch, header.base_sequence):
                return written.base_offset
        if batches and batches[-1].epoch == header.producer_epoch:
            expected = batches[-1].last_sequence + 1 & 0x7FFFFFFF
            if header.base_sequence != expected:
                raise OutOfOrderSequence(f"sequence {header.base_sequence} instead of {expected}")
        return None
