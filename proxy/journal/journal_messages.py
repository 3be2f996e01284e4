"""What the proxy and the process that writes the journal's topic send each other, and what that topic is like."""

from typing import NamedTuple

import msgspec

from protocol_codecs.foreign import MsgpackDecoder
from proxy.config.fleet import Property
from proxy.runtime.frames import message_decoder

PARTITIONS = 4
"""Of a topic that is made here."""
MAX_FRAME_BYTES = 4 * 1024 * 1024
"""Of records in one frame; others come in the next."""

_SEGMENT_BYTES = 64 * 1024 * 1024
"""Brokers delete whole segments; those of Kafka's default size would double what is kept."""


class JournalTopic(NamedTuple):
    """The topic, and what it is like if it has to be made."""

    name: str
    replication: int
    keep_bytes: int = 0
    """Size of the whole topic at which its oldest segments are deleted; 0: never."""

    def settings(self) -> dict[str, str]:
        """Return the settings that the topic is made with."""
        return {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": str(self.keep_bytes // PARTITIONS or -1),
            "segment.bytes": str(_SEGMENT_BYTES),
            "min.insync.replicas": "2" if self.replication >= 3 else "1",
        }

    def create_command(self, bootstrap: object) -> str:
        """Return the command that makes the topic."""
        settings = " ".join(f"--config {name}={value}" for name, value in self.settings().items())
        return (
            f"kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {self.name} --partitions {PARTITIONS} "
            f"--replication-factor {self.replication} {settings}"
        )


class _Message(msgspec.Struct, frozen=True, tag=True, array_like=True, forbid_unknown_fields=True):
    pass


class Begin(_Message, frozen=True):
    """The first message: the topic, and the librdkafka properties of the account."""

    topic: JournalTopic
    properties: dict[str, Property]


class Line(NamedTuple):
    """One record: its key, its value, and its time in milliseconds since 1970."""

    key: bytes | None
    value: bytes
    time_ms: int


class Write(_Message, frozen=True):
    """Write these records. After the last frame of a batch the process answers (:data:`Answer`)."""

    lines: list[Line]
    is_last: bool


class Written(_Message, frozen=True):
    """The brokers have acknowledged the batch."""


class NotWritten(_Message, frozen=True):
    """Some of the batch is not written; ``keep``: all of it should be written again later."""

    reason: str
    keep: bool


Answer = Written | NotWritten

ENCODER = msgspec.msgpack.Encoder()
ORDERS = msgspec.msgpack.Decoder(Begin | Write)
ANSWERS: MsgpackDecoder[Answer] = message_decoder(Answer)
