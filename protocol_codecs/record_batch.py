"""Record batches of magic 2, the unit of partition logs, Produce and Fetch (KIP-98).

A broker stores batches as they come and reads only their headers: :func:`read_header`, :func:`rebased`. To read the
records, decode the whole batch: :func:`decode_batch`. Of compressed records only gzip can be read; other batches are
relayed undecoded.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum

import crc32c
import msgspec

from protocol_codecs.errors import CodecError
from protocol_codecs.varint import append_varint, read_varint

HEADER = struct.Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, timestamps, producer, count."""
MAGIC = 2
NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

_LENGTH_END = 12
"""The length counts the bytes after itself."""
_CRC_START = 21
"""The checksum covers everything from the attributes on, so that brokers may set offset and leader epoch."""
_COMPRESSION_BITS = 0x07
_TRANSACTIONAL = 0x10
_CONTROL = 0x20


class Compression(IntEnum):
    """The compression codec of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptBatch(CodecError):
    """The bytes at ``position`` of the given buffer are not a whole record batch, and ``reason`` says why."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"no record batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class UnreadableCompression(CodecError):
    """The batch is valid, but its compression is not supported here."""


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a batch. ``size`` is that of the whole batch in bytes."""

    size: int
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def next_offset(self) -> int:
        """Return the offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """Return the number of the compression codec; see :class:`Compression`."""
        return self.attributes & _COMPRESSION_BITS

    @property
    def is_control(self) -> bool:
        """Whether this batch ends a transaction instead of carrying records of a client."""
        return bool(self.attributes & _CONTROL)


class RecordHeader(msgspec.Struct, frozen=True, gc=False):
    """A header of one record."""

    key: str
    value: bytes | None


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record; offset and timestamp are relative to those of its batch."""

    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()
    offset_delta: int = 0
    timestamp_delta: int = 0


class RecordBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch with its records. Timestamps are milliseconds since 1970."""

    records: tuple[Record, ...]
    base_offset: int = 0
    base_timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1
    compression: Compression = Compression.NONE
    is_transactional: bool = False
    is_control: bool = False


def encode_batch(batch: RecordBatch) -> bytes:
    """Encode a batch. Offset deltas are taken as given. Raises UnreadableCompression."""
    body = bytearray()
    for record in batch.records:
        _append_record(body, record)
    content = _compressed(bytes(body), batch.compression)
    last = batch.records[-1].offset_delta if batch.records else -1
    newest = max((record.timestamp_delta for record in batch.records), default=0)
    attributes = batch.compression | _TRANSACTIONAL * batch.is_transactional | _CONTROL * batch.is_control
    header = HEADER.pack(
        batch.base_offset,
        HEADER.size - _LENGTH_END + len(content),
        batch.leader_epoch,
        MAGIC,
        0,
        attributes,
        last,
        batch.base_timestamp,
        batch.base_timestamp + newest,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(batch.records),
    )
    checksum = crc32c.crc32c(content, crc32c.crc32c(header[_CRC_START:]))
    return b"".join((header[: _CRC_START - 4], checksum.to_bytes(4, "big"), header[_CRC_START:], content))


def read_header(buffer: bytes, position: int = 0, *, check: bool = True) -> BatchHeader:
    """Return the header of the batch at ``position``, which must be complete.

    ``check`` also verifies the checksum. Raises CorruptBatch.
    """
    left = len(buffer) - position
    if left < HEADER.size:
        raise CorruptBatch(position, f"{left} bytes left, a header takes {HEADER.size}")
    fields = HEADER.unpack_from(buffer, position)
    base_offset, length, leader_epoch, magic, checksum, attributes, last, *rest = fields
    size = _LENGTH_END + length
    if magic != MAGIC:
        raise CorruptBatch(position, f"magic {magic}")
    if not HEADER.size <= size <= left:
        raise CorruptBatch(position, f"a batch of {size} bytes, {left} left")
    if check:
        found = crc32c.crc32c(memoryview(buffer)[position + _CRC_START : position + size])
        if found != checksum:
            raise CorruptBatch(position, f"checksum {found:#010x} instead of {checksum:#010x}")
    return BatchHeader(size, base_offset, leader_epoch, attributes, last, *rest)


def read_headers(buffer: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each batch header in a buffer, with its position. Raises CorruptBatch at the first bad one."""
    position = 0
    while position < len(buffer):
        header = read_header(buffer, position)
        yield position, header
        position += header.size


def decode_batch(buffer: bytes, position: int = 0) -> RecordBatch:
    """Decode the batch at ``position`` with its records. Raises CorruptBatch and UnreadableCompression."""
    header = read_header(buffer, position)
    content = buffer[position + HEADER.size : position + header.size]
    body = _decompressed(content, header.compression)
    records = []
    at = 0
    try:
        for _ in range(header.count):
            record, at = _read_record(body, at)
            records.append(record)
    except (ValueError, IndexError) as error:
        raise CorruptBatch(position, f"record {len(records)} of {header.count}: {error}") from error
    if at != len(body):
        raise CorruptBatch(position, f"{len(body) - at} bytes left over after {header.count} records")
    return RecordBatch(
        tuple(records),
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        compression=Compression(header.compression),
        is_transactional=bool(header.attributes & _TRANSACTIONAL),
        is_control=header.is_control,
    )


def rebased(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Return the batch with this base offset and leader epoch, as a broker sets them before it stores a batch."""
    return b"".join(
        (base_offset.to_bytes(8, "big"), batch[8:_LENGTH_END], leader_epoch.to_bytes(4, "big"), batch[16:])
    )


def _append_record(buffer: bytearray, record: Record) -> None:
    body = bytearray(b"\0")  # attributes, of which there are none yet
    append_varint(body, record.timestamp_delta)
    append_varint(body, record.offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    append_varint(body, len(record.headers))
    for header in record.headers:
        _append_bytes(body, header.key.encode())
        _append_bytes(body, header.value)
    append_varint(buffer, len(body))
    buffer += body


def _append_bytes(buffer: bytearray, value: bytes | None) -> None:
    if value is None:
        append_varint(buffer, -1)
    else:
        append_varint(buffer, len(value))
        buffer += value


def _read_record(buffer: bytes, position: int) -> tuple[Record, int]:
    size, position = read_varint(buffer, position)
    end = position + size
    if not position < end <= len(buffer):
        raise ValueError(f"of {size} bytes, {len(buffer) - position} left")
    timestamp_delta, position = read_varint(buffer, position + 1)
    offset_delta, position = read_varint(buffer, position)
    key, position = _read_bytes(buffer, position, end)
    value, position = _read_bytes(buffer, position, end)
    count, position = read_varint(buffer, position)
    headers = []
    for _ in range(count):
        name, position = _read_bytes(buffer, position, end)
        content, position = _read_bytes(buffer, position, end)
        if name is None:
            raise ValueError("a header without key")
        headers.append(RecordHeader(name.decode(), content))
    if position != end:
        raise ValueError(f"takes {position - end + size} bytes of {size}")
    return Record(key, value, tuple(headers), offset_delta, timestamp_delta), end


def _read_bytes(buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(buffer, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise ValueError(f"{size} bytes in {end - position}")
    return buffer[position : position + size], position + size


def _compressed(body: bytes, compression: Compression) -> bytes:
    if compression is Compression.NONE:
        return body
    if compression is Compression.GZIP:
        return gzip.compress(body, mtime=0)
    raise UnreadableCompression(f"cannot compress with {compression.name.lower()}")


def _decompressed(content: bytes, compression: int) -> bytes:
    if compression == Compression.NONE:
        return content
    if compression == Compression.GZIP:
        try:
            return gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise CorruptBatch(0, f"not gzip: {error}") from error
    raise UnreadableCompression(f"cannot read records compressed with number {compression}")
