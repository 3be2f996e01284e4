"""Authenticates records of whole groups by a key that all replicas share (``fleet.mac_key_file``): HMAC-SHA256 (RFC
2104) over key and value; and decides what a record that is not authentic stands for.

Approvals, and all else that lets a move go on, are such records. With a key, nobody else who may write the topic can
have a member moved. What has no valid MAC is not there, but for a ``move``: of a group without an authenticated one it
stands for a move that is held, or rolled back if it says that (:func:`distrusted`). So moves that were under way when
the replicas got their key wait until somebody says ``resume``.

* The MAC covers the ``version``: a record that is written again by somebody else loses to what has come since.
* It covers when the record was written, by the log's clock, so that it is no use when what has come since is forgotten.
* It is the last field of the value, so that fields that a release does not know are covered too.
"""

import hmac

from msgspec.structs import replace

from translation.member_log.counting import CLOCK_SKEW_MS, LATE_MS
from translation.member_log.group_records import (
    GroupKey,
    GroupRecord,
    Move,
    Phase,
    StoredGroup,
    encode_group_key,
    encode_group_value,
)
from translation.member_log.records import Writer

SHORTEST_KEY = 32
"""Bytes of a key, at least."""

FRESH_MS = LATE_MS + 2 * CLOCK_SKEW_MS
"""A record lands within so long after its writer has seen the log's clock, by whichever broker's clock."""

NOT_AUTHENTICATED = "the record of its move is not authenticated"

_BYTES = 32
_CONTEXT = b"epochgate group record\0"


class GroupMac:
    """Signs and verifies with one key, which it does not show."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, key: GroupKey, writer: Writer, record: GroupRecord, now_ms: int) -> bytes:
        """The value of a record with its MAC. ``now_ms`` is the log's clock.

        :raises InvalidRecord: it is too long.
        """
        unsigned = encode_group_value(replace(record, signed_ms=now_ms, mac=bytes(_BYTES)))[:-_BYTES]
        return unsigned + self._mac(key, writer, unsigned)

    def is_valid(self, key: GroupKey, stored: StoredGroup, value: bytes) -> bool:
        """Whether a record that was read with this value is one of a replica's, and not written again by others."""
        mac = self._mac(key, stored.writer, value[:-_BYTES])
        is_ours = hmac.compare_digest(mac, value[-_BYTES:]) and stored.record.mac == mac
        return is_ours and stored.appended_ms - stored.record.signed_ms <= FRESH_MS

    def _mac(self, key: GroupKey, writer: Writer, unsigned: bytes) -> bytes:
        place = encode_group_key(key, writer)
        return hmac.digest(self._key, _CONTEXT + len(place).to_bytes(4) + place + unsigned, "sha256")


def distrusted(move: Move) -> Move:
    """What a move stands for whose record is not authenticated: nobody is moved on by it."""
    phase = move.phase if move.is_rolled_back else Phase.HELD
    return Move(
        steps=move.steps,
        number=move.number,
        step=move.step,
        phase=phase,
        since_ms=move.since_ms,
        converted=move.converted,
        why=NOT_AUTHENTICATED,
    )
