"""Cuts a stream of bytes into Kafka frames, without holding large ones, and refuses those above the largest size
(``limits.frame_max_bytes``), and HTTP or TLS on a Kafka port.

Every request and every response is a frame: a signed 32-bit size, then that many bytes. A frame up to
:data:`STREAM_ABOVE` bytes comes out whole. A larger one comes out in pieces as its bytes arrive, so that the
memory of a connection does not depend on the size of its frames; its first piece holds enough to decide what to
do with the rest: whoever reads frames says what that is. Bytes of that rest need not come here at all:
:meth:`FrameSplitter.skip` says that they were moved past it.

Sans-IO: bytes go in by :meth:`FrameSplitter.feed`, pieces come out of :meth:`FrameSplitter.next_piece`.
"""

import struct
from collections.abc import Callable

import msgspec

STREAM_ABOVE = 128 * 1024
"""Frames above this many bytes are given out in pieces."""

REQUEST_HEAD = 72 * 1024
"""First bytes of a large request at most: a client id and a transactional id may have 32 KiB each."""

_USUAL_HEAD = 1024
"""As many of them are looked at whether they are enough already: ids are short, but for those of somebody who plays."""

RESPONSE_HEAD = 8
"""First bytes of a large response: its size and its correlation id. Kafka sends what stands before the records of a
Fetch response by itself, and from then on it is known that the rest can be moved."""

_SIZE = struct.Struct(">i")
_PREFIX = _SIZE.size
_TLS_HANDSHAKE = b"\x16\x03"
_TLS_ALERT = b"\x15\x03"
HTTP_STARTS = (
    b"GET ",
    b"POST",
    b"PUT ",
    b"HEAD",
    b"OPTI",
    b"DELE",
    b"PATC",
    b"CONN",
    b"TRAC",
    b"PRI ",
    b"HTTP",
)
PROXY_STARTS = (b"PROX", b"\r\n\r\n")
"""The first bytes of a header of the PROXY protocol, version 1 and 2."""


class FrameError(Exception):
    """The bytes are not Kafka frames; the connection they came on can't go on.

    ``kind`` is one word for metrics, the message says what was seen.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Piece(msgspec.Struct, frozen=True, gc=False):
    """Some bytes of one frame. The ``first`` piece begins with the four bytes of the size.

    ``frame_size`` is the size of the whole frame with these four bytes.
    """

    data: bytes
    first: bool
    last: bool
    frame_size: int


class FrameSplitter:
    """Cuts what one peer sends into frames.

    ``max_size`` is the largest size that a frame may announce, in bytes; it may be raised while running
    (limits are tighter until a peer has shown that it speaks Kafka). The first piece of a large frame has ``head``
    bytes at least, or fewer that are ``enough``: then nobody waits for the rest of them, and copies it.
    """

    __slots__ = (
        "_data",
        "_enough",
        "_head",
        "_pos",
        "_remaining",
        "_seen_first",
        "_streamed_size",
        "buffered",
        "max_size",
    )

    def __init__(
        self,
        max_size: int,
        head: int = REQUEST_HEAD,
        enough: Callable[[bytes], bool] = lambda _beginning: False,
    ) -> None:
        self.max_size = max_size
        self._head = head
        self._enough = enough
        self._data: bytes | bytearray = b""
        self._pos = 0
        self.buffered = 0
        """Bytes that were fed and not given out yet."""
        self._remaining = 0  # bytes still to come of the frame that is given out in pieces
        self._streamed_size = 0
        self._seen_first = False

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun whose end was not given out: a peer that vanishes now cut it short."""
        return self._remaining > 0 or self.buffered > 0

    @property
    def unfed_bytes(self) -> int:
        """Bytes of the frame under way that were not fed yet; 0 while bytes of it wait here."""
        return 0 if self.buffered else self._remaining

    @property
    def frame_size(self) -> int:
        """The size of the frame that was begun last of those given out in pieces, with its four bytes."""
        return self._streamed_size

    def skip(self, n: int) -> None:
        """``n`` of the :attr:`unfed_bytes` went another way."""
        self._remaining -= n

    def feed(self, data: bytes) -> None:
        """Take what was read from the peer."""
        if not self.buffered:
            self._data = data
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(memoryview(self._data)[self._pos :])
            else:
                del self._data[: self._pos]
            self._data += data
        self._pos = 0
        self.buffered += len(data)

    def next_piece(self) -> Piece | None:
        """The next frame or piece of one; None if more bytes are needed first.

        :raises FrameError: a negative or too large size, or another protocol altogether.
        """
        available = self.buffered
        if self._remaining:
            if not available:
                return None
            n = min(available, self._remaining)
            self._remaining -= n
            return Piece(
                self._take(n), first=False, last=self._remaining == 0, frame_size=self._streamed_size
            )
        if available < _PREFIX:
            return None
        (size,) = _SIZE.unpack_from(self._data, self._pos)
        if size < 0 or size > self.max_size or not self._seen_first:
            self._check(size)
        whole: int = size + _PREFIX
        if available == whole and not self._pos and isinstance(self._data, bytes):
            data, self._data, self.buffered = self._data, b"", 0  # as nearly all come
            return Piece(data, first=True, last=True, frame_size=whole)
        if available >= whole:
            return Piece(self._take(whole), first=True, last=True, frame_size=whole)
        if whole > STREAM_ABOVE and (available >= self._head or self._enough(self._beginning())):
            self._remaining = whole - available
            self._streamed_size = whole
            return Piece(self._take(available), first=True, last=False, frame_size=whole)
        return None

    def _beginning(self) -> bytes:
        return bytes(memoryview(self._data)[self._pos : self._pos + _USUAL_HEAD])

    def _take(self, n: int) -> bytes:
        start = self._pos
        self.buffered -= n
        if not start and not self.buffered:
            data, self._data = self._data, b""
            return bytes(data)
        self._pos = start + n
        return bytes(memoryview(self._data)[start : self._pos])

    def _check(self, size: int) -> None:
        start = bytes(self._data[self._pos : self._pos + _PREFIX])
        if not self._seen_first:
            if start.startswith(_TLS_HANDSHAKE) and start[2] <= 4:
                raise FrameError(
                    "tls",
                    "a TLS ClientHello on a plaintext port: the peer is set up for TLS (SSL or SASL_SSL)",
                )
            if start.startswith(_TLS_ALERT):
                raise FrameError(
                    "tls", "a TLS alert: the peer's port is a TLS port, plaintext was sent to it"
                )
            if start in HTTP_STARTS:
                raise FrameError("http", f"HTTP on a Kafka port (the first bytes are {start!r})")
            if start in PROXY_STARTS:
                raise FrameError(
                    "proxy_header", "a PROXY header from an address that is not in `proxy_protocol.trusted`"
                )
        if size < 0:
            raise FrameError("negative_size", f"a frame of negative size {size}")
        if size > self.max_size:
            raise FrameError(
                "oversized", f"a frame of {size} bytes, more than the {self.max_size} allowed here"
            )
        self._seen_first = True
