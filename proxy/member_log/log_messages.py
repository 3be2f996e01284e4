"""What the proxy and the process of its member log send each other: msgpack, each frame a list of messages.

The proxy sends :class:`Begin`, is answered once (:data:`Answer`), sends :class:`Go`, and then what is to be written.
The process sends what it reads.
"""

import msgspec

from protocol_codecs.foreign import MsgpackDecoder
from proxy.config.fleet import Fleet, Property
from proxy.member_log.log_events import (
    AccessLost,
    EndReached,
    Message,
    Noted,
    PartitionLost,
    PolicyRead,
    SettingsRead,
    WriteFailed,
)
from proxy.runtime.frames import message_decoder
from translation.member_log.records import Writer

MAX_PART_BYTES = 1024 * 1024
"""A longer key or value is sent as None. None of the log's own is."""
MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_RECORDS = 200
"""Bounds of one frame, beyond which another begins: the proxy handles one at a time."""


class Begin(Message, frozen=True):
    """The first message: whose account it is, and the id of the topic that was read before."""

    fleet: Fleet
    properties: dict[str, Property]
    replica: bytes
    """The value of :data:`translation.member_log.replicas.REPLICA_HEADER`."""
    topic_id: str | None


class Go(Message, frozen=True):
    """Read on at these offsets, each with the leader epoch of the record before; other partitions from the start."""

    writer: Writer
    positions: dict[int, tuple[int, int | None]]


class Write(Message, frozen=True):
    """Produce a record, if its writer is the present one. ``queued_at`` is a time of the machine's monotonic clock."""

    queued_at: float
    writer: Writer
    partition: int
    key: bytes
    value: bytes | None
    format: bytes
    """The value of :data:`translation.member_log.formats.FORMAT_HEADER`."""


class ReplaceWriter(Message, frozen=True):
    """Replace the producer; what it has not delivered is given up."""

    writer: Writer


class ReplaceReader(Message, frozen=True):
    """Replace the consumer by one that goes on where it was."""


class SetAccount(Message, frozen=True):
    """Authenticate with these from now on: whatever is connected, and each session that is renewed."""

    username: str
    password: str


class Begun(Message, frozen=True):
    """The topic is there, and the account may use it.

    ``ends`` are those of its partitions, if it is another topic than before; ``wrong`` is as in
    :class:`~proxy.member_log.log_events.SettingsRead`.
    """

    topic_id: str
    ends: dict[int, int]
    wrong: str | None


class Refused(Message, frozen=True):
    """The topic or the account is not as it has to be."""

    reason: str


class NoAnswer(Message, frozen=True):
    """The brokers do not answer, or librdkafka does not take the properties (``is_final``)."""

    reason: str
    is_final: bool = False


class Record(Message, frozen=True):
    """A record of a partition; ``timestamp_type`` is librdkafka's number of it."""

    partition: int
    offset: int
    timestamp_type: int
    appended_ms: int
    epoch: int | None
    key: bytes | None
    value: bytes | None
    format: bytes | None
    replica: bytes | None


class Failed(Message, frozen=True):
    """The process ends because of an error of its own."""

    reason: str


Answer = Begun | Refused | NoAnswer
Reported = (
    Record
    | EndReached
    | PartitionLost
    | WriteFailed
    | AccessLost
    | SettingsRead
    | PolicyRead
    | Noted
    | Failed
    | Begun
    | Refused
    | NoAnswer
)
Ordered = Begin | Go | Write | ReplaceWriter | ReplaceReader | SetAccount

ENCODER = msgspec.msgpack.Encoder()
ORDERS = msgspec.msgpack.Decoder(list[Ordered])
REPORTS: MsgpackDecoder[list[Reported]] = message_decoder(list[Reported])
