"""What the proxy and the process that reads the journal's topic for the proof send each other."""

import msgspec

from protocol_codecs.foreign import MsgpackDecoder
from proxy.config.fleet import Property
from proxy.runtime.frames import message_decoder

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""Of lines in one frame; others come in the next. A longer line counts as one that can't be read."""


class _Message(msgspec.Struct, frozen=True, tag=True, array_like=True, forbid_unknown_fields=True):
    pass


class Open(_Message, frozen=True):
    """The first message: the topic, and the librdkafka properties of the account that reads it."""

    topic: str
    properties: dict[str, Property]


class Next(_Message, frozen=True):
    """Read what comes next; answered by :class:`Lines`, any number of them, and then :class:`ReadUntil`."""


class Opened(_Message, frozen=True):
    """The topic can be read."""


class Lines(_Message, frozen=True):
    """What was read."""

    lines: list[bytes | None]


class ReadUntil(_Message, frozen=True):
    """See :class:`proxy.proof.sources.Read`."""

    until_ms: int
    is_at_end: bool


class Unreadable(_Message, frozen=True):
    """The topic can't be read, or not any more. The process ends."""

    reason: str


ENCODER = msgspec.msgpack.Encoder()
ORDERS = msgspec.msgpack.Decoder(Open | Next)
Answer = Opened | Lines | ReadUntil | Unreadable
ANSWERS: MsgpackDecoder[Answer] = message_decoder(Answer)
