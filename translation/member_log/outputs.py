"""What the member log tells the translation and asks of the shell: verdicts, outputs, the health of a partition."""

from enum import StrEnum

import msgspec

from translation.member_log.formats import DEFAULT_FORMAT
from translation.member_log.records import MemberKey, MemberRecord, Writer


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
)


class JoinTerms(msgspec.Struct, frozen=True):
    """What the record says of a client beside who serves it: what its JoinGroup asked for.

    Without a record they are what clients use by default.
    """

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    instance_id: str | None = None


class FleetSettings(msgspec.Struct, frozen=True):
    """Numbers of the member log. ``server`` is shown to people."""

    partitions: int = 16
    server: str = ""
    record_format: int = DEFAULT_FORMAT
    """The number of the format in which records are written."""
    expires: bool = True
    """Whether members are expired here. Only when every process that serves these clients writes the log."""
    resumes: bool = True
    """Whether snapshots of members are written and used, so that another replica goes on without a rejoin."""
    wait_s: float = 2.0
    """For how long a call waits for a verdict, and a record to be read back before its partition counts as away."""
    session_timeouts_ms: tuple[int, int] = (6_000, 1_800_000)
    """The shortest and the longest that a client may ask for (``limits.session_timeout_min_ms`` and ``_max_ms``)."""
    probe_s: float = 30.0
    """Between two probes of a partition: so long a reader that is stuck may go unnoticed."""
    probe_away_s: float = 5.0
    refresh_s: float = 6 * 3600.0
    """A member that is served is written anew at least so often, so that its record does not grow too old."""
    tries: int = 4
    """Records that are written for one claim or end, if others win each time."""
    writes_per_s: float = 500.0
    dead_ids: int = 1000
    """By so many the dead member ids of a group may be more than its others; then no id is claimed that is not known.

    Whoever may read the group can make ids, and each is kept for an hour by all replicas.
    """
    most_members: int = 100_000
    """Members whose records are kept, and of which the oldest are forgotten beyond that; likewise records of groups."""
    members_of_group: int = 50_000
    """The same for one group."""
    max_bytes: int = 128 * 1024 * 1024
    """About how much memory the records of members may take, and half of that those of groups."""


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
