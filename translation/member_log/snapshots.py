"""What one replica writes down of a member that is Stable, so that another can serve its client without a rejoin
(``fleet.resumes``).

A snapshot may be old: nobody waits for it to be written. Whether the broker still has the member as it says is checked
before it is used (:mod:`translation.joining.resumption`).
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from protocol_codecs.foreign import MsgpackDecoder, Undecodable
from protocol_codecs.messages.consumer_protocol import NEWEST_EMBEDDED_VERSION

NO_SNAPSHOT = b""
"""The member is not Stable, or is not known well enough: another replica has its client join again."""

LONGEST_SNAPSHOT = 8192
"""Bytes. A member with more partitions or topics than fit has no snapshot."""


_Int32 = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Snapshot(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, kw_only=True):
    """A member of which the client has got all that the broker assigned, and of which nothing is to be revoked.

    ``generation`` is the client's, ``assignment`` what SyncGroup gave it in that generation and what it works on.
    ``subscription`` are the topics of its JoinGroup, as the broker took them. ``assignor`` is the server-side assignor
    that the broker was told, ``mapped_assignor`` the one that stands in for the client's own. Fields may be added at
    the end, with a default.
    """

    generation: _Int32
    member_epoch: _Int32
    assignment: tuple[tuple[Annotated[bytes, Meta(min_length=16, max_length=16)], tuple[_Int32, ...]], ...]
    """Partitions by topic id."""
    subscription: tuple[str, ...]
    protocol_type: Literal["consumer"]
    """No other client is translated."""
    protocol_name: str
    embedded_version: Annotated[int, Meta(ge=0, le=NEWEST_EMBEDDED_VERSION)]
    cooperative: bool
    mapped_assignor: str
    assignor: str
    rack: str | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = MsgpackDecoder(Snapshot, LONGEST_SNAPSHOT)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The snapshot as bytes, or :data:`NO_SNAPSHOT` if it is too long for a record."""
    data = _encoder.encode(snapshot)
    return data if len(data) <= LONGEST_SNAPSHOT else NO_SNAPSHOT


def decode_snapshot(data: bytes) -> Snapshot | None:
    """The snapshot in a record; None if there is none, or none that this version reads."""
    if not data:
        return None
    try:
        return _decoder.decode(data)
    except Undecodable:
        return None
