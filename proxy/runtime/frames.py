"""Frames between a process and its child: four bytes of length, most significant first, and so many bytes.

The child has parsed what a broker says, so its parent believes nothing: a length beyond the bound ends the child.
"""

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from protocol_codecs.foreign import MsgpackDecoder

MAX_FRAME_BYTES = 16 * 1024 * 1024

_LENGTH = struct.Struct("!I")


class BadFrame(Exception):
    """A frame is longer than the bound, or its stream ends inside of it."""


def message_decoder(kind: Any) -> MsgpackDecoder[Any]:
    """Return the decoder of a child's messages, which are of this type: it may be a union.

    Their types bound the depth, and forbid what they do not know, which a decoder would recurse into to skip it. To
    look at the depth first would cost thirty times as much as the decoding.
    """
    return MsgpackDecoder(kind, MAX_FRAME_BYTES, max_depth=None)


def framed(body: bytes) -> bytes:
    """Return the frame of a message.

    :raises BadFrame: the message is too long.
    """
    if len(body) > MAX_FRAME_BYTES:
        raise BadFrame(f"a message of {len(body)} bytes; {MAX_FRAME_BYTES} are the most")
    return _LENGTH.pack(len(body)) + body


def read_frame(stream: BinaryIO) -> bytes | None:
    """Read the next message of a stream; None at the stream's end. It blocks.

    :raises BadFrame: the frame is too long, or the stream ends inside of it.
    """
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    body = stream.read(_length(head)) if len(head) == _LENGTH.size else b""
    if len(head) != _LENGTH.size or len(body) != _length(head):
        raise BadFrame("the stream ends inside of a frame")
    return body


class FrameSplitter:
    """Splits what was received into messages. It keeps one frame at most that is not complete."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes | bytearray) -> Iterator[bytes]:
        """Take received bytes; return the messages that are complete now.

        :raises BadFrame: a frame is too long.
        """
        self._rest += data
        at = 0
        while len(self._rest) - at >= _LENGTH.size:
            length = _length(self._rest[at : at + _LENGTH.size])
            end = at + _LENGTH.size + length
            if end > len(self._rest):
                break
            yield bytes(self._rest[at + _LENGTH.size : end])
            at = end
        del self._rest[:at]


def _length(head: bytes | bytearray) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise BadFrame(f"a frame of {length} bytes; {MAX_FRAME_BYTES} are the most")
    return int(length)
