"""What the member log tells the translation and asks of the shell: verdicts, outputs, the health of a partition."""

from enum import StrEnum

import msgspec

from translation.member_log.records import MemberKey, MemberRecord, Writer
from translation.member_log.settings import FleetSettings


class ServeDecision(StrEnum):
    """What a replica may do with a call for a member."""

    SERVE = "serve"
    PENDING = "pending"
    """A record is on its way: wait for :class:`Settled`, then ask :meth:`MemberLog.verdict` again."""
    UNAVAILABLE = "unavailable"
    """Nobody can say now: COORDINATOR_NOT_AVAILABLE."""
    GONE = "gone"
    """The member id is dead: UNKNOWN_MEMBER_ID."""
    RELAYED = "relayed"
    """The broker itself serves the id."""


class Decision(StrEnum):
    """What became of a call that asked the log; for people."""

    SERVED = "served"
    """It went on here."""
    TAKEN = "taken"
    """Another replica serves the member, and won each time: COORDINATOR_NOT_AVAILABLE."""
    DEAD = "dead"
    """The member id is dead: UNKNOWN_MEMBER_ID."""
    RELAYED = "relayed"
    """The broker itself serves the id."""
    UNRESOLVED = "unresolved"
    """Nobody could say in time: COORDINATOR_NOT_AVAILABLE, or UNKNOWN_MEMBER_ID when that had lasted too long."""


class Health(StrEnum):
    """What is known of a partition."""

    REPLAYING = "replaying"
    READY = "ready"
    AWAY = "away"


class WriteRecord(msgspec.Struct, frozen=True):
    """The shell is to produce this record, if ``writer`` is still its own; without ``value`` it is a tombstone."""

    partition: int
    key: bytes
    value: bytes | None
    writer: Writer
    format: int
    """The number of the value's format (:mod:`translation.member_log.formats`)."""


class Settled(msgspec.Struct, frozen=True):
    """Who waits for a verdict on this member asks again."""

    key: MemberKey


class Serving(msgspec.Struct, frozen=True):
    """Our ``served`` counts, and the member was not served here before: its session timeout runs here from now on.

    Also if the call that claimed it is over: nobody else enforces the timeout.
    """

    key: MemberKey


class Taken(msgspec.Struct, frozen=True):
    """The member was served here, and another's record counts: drop it without a word to the broker."""

    key: MemberKey


class OtherRecordCounts(msgspec.Struct, frozen=True):
    """A record of another replica counts that serves or relays the member: what is known here of it is older."""

    key: MemberKey


class Expired(msgspec.Struct, frozen=True):
    """Our ``expiring`` counts: member epoch -1 is to be sent, and then :meth:`MemberLog.end` called."""

    key: MemberKey


class Ended(msgspec.Struct, frozen=True):
    """The broker has ended a member at another replica's request, so others of its group may have its partitions."""

    key: MemberKey


class Dying(msgspec.Struct, frozen=True):
    """An ``expiring`` of another replica counts: that one sends epoch -1, if it reaches the coordinator."""

    key: MemberKey


class GroupServed(msgspec.Struct, frozen=True):
    """Another replica has come to serve a member of an awaited group: it reaches the coordinator. Said once."""

    group_id: str


class HealthChanged(msgspec.Struct, frozen=True):
    """A partition is in another health than before."""

    partition: int
    health: Health


class ExpiryBegan(msgspec.Struct, frozen=True):
    """From now on this process expires members by the log, and did not before: each client's session begins again."""


Output = (
    WriteRecord
    | Settled
    | Serving
    | Taken
    | Expired
    | Ended
    | Dying
    | OtherRecordCounts
    | GroupServed
    | HealthChanged
    | ExpiryBegan
)


class JoinTerms(msgspec.Struct, frozen=True):
    """What the record says of a client beside who serves it: what its JoinGroup asked for.

    Without a record they are what clients use by default.
    """

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    instance_id: str | None = None


_LONGEST_REBALANCE_MS = 24 * 3_600_000
"""Kafka has no bound, and old Streams clients ask for 24 days, in which nobody else gets what a stuck one has."""


def terms_of(record: MemberRecord, settings: FleetSettings) -> JoinTerms:
    """The terms that a record says, within what a client may ask for: somebody else may have written it.

    Too short a session would be over before a claim is settled, and one of days would keep a client that is gone.
    """
    shortest_ms, longest_ms = settings.session_timeouts_ms
    return JoinTerms(
        min(max(record.session_timeout_ms, shortest_ms), longest_ms),
        min(max(record.rebalance_timeout_ms, shortest_ms), _LONGEST_REBALANCE_MS),
        record.instance_id,
    )
