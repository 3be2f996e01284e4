"""A coordinator's log in a file.

Appends are flushed to the operating system but not to the disk: the log survives the end of its process, which is
enough for development.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.errors import CorruptLog
from coordinator.log.batches import LoggedBatch, encode_change, encode_marker, read_batches, recover
from protocol_codecs.record_batch import NO_PRODUCER_ID
from protocol_codecs.records import CONSUMER_OFFSETS, CoordinatorRecord, TopicCodec


class FileLog:
    """The log in ``path``, which is created if it does not exist.

    When the file is opened, a torn or damaged tail is cut off: ``damage`` then says where it began and why, and the
    tail is kept beside the file as ``<name>.damaged``.
    """

    def __init__(self, path: Path, codec: TopicCodec = CONSUMER_OFFSETS) -> None:
        self.path = path
        self._codec = codec
        path.parent.mkdir(parents=True, exist_ok=True)
        self.damage: CorruptLog | None
        self.next_offset: int
        self._recover()
        self._file = path.open("ab", buffering=0)

    def append(
        self, records: Sequence[CoordinatorRecord], now_ms: int, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Write one change."""
        self._write(encode_change(records, self.next_offset, now_ms, producer_id, self._codec), len(records))

    def append_marker(self, producer_id: int, marker: int, now_ms: int) -> None:
        """Write the end of a transaction."""
        self._write(encode_marker(producer_id, marker, self.next_offset, now_ms), 1)

    def read(self) -> Iterator[LoggedBatch]:
        """Yield every change from the beginning. Raises CorruptLog if the file was damaged since it was opened."""
        for _, batch in read_batches(self.path.read_bytes(), self.path.name, self._codec):
            yield batch

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, content: bytes, count: int) -> None:
        self._file.write(content)
        self.next_offset += count

    def _recover(self) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        sound = recover(content, self.path.name, self._codec)
        self.next_offset, self.damage = sound.next_offset, sound.damage
        if sound.damage is not None:
            self.path.with_name(f"{self.path.name}.damaged").write_bytes(content[sound.damage.position :])
            with self.path.open("r+b") as file:
                file.truncate(sound.damage.position)
