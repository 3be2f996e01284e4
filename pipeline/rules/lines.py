"""Parses one journal line: returns the event, or why the line is no known event (a cut-off last line). Plain
Python, no Spark.
"""

from operator import attrgetter
from typing import Annotated, Literal

import msgspec

from protocol_codecs.foreign import json_is_deeper

VERSION = 1

JOINED, ASSIGNED, REVOKED = "joined", "assigned", "revoked"
ADOPTED, REJOINED = "adopted", "rejoined_after_loss"
STATE_CHANGED, CALL_REFUSED, LOST = "state_changed", "call_refused", "lost"
STOPPED, COMMITTED, ALIVE = "stopped", "committed", "alive"

ENDS = frozenset({"left", "fenced", "session_expired", "rebalance_expired"})
"""Event kinds that end a membership."""

CALLS = frozenset({JOINED, ASSIGNED, REVOKED, ADOPTED, REJOINED})
"""Events that only the process serving the member writes, so they show which process that is."""

KINDS = CALLS | ENDS | {
    "revoke_requested", "epoch_moved", STATE_CHANGED, "policy_changed", "step_changed", "passed_through", CALL_REFUSED,
    "mending", "left_unowned", "started", STOPPED, LOST, COMMITTED, ALIVE,
}  # fmt: skip

EXCLUSIVE = frozenset({"translated", "classic", "consumer", "", None})
"""Protocols of members whose partitions are theirs alone; also of events that name none."""

NOT_MIGRATING = ("share", "streams", "connect")
"""Protocols of members that have no other protocol to move to."""

LAST_US = 253_402_300_799_000_000
"""The last second of the year 9999, in microseconds since 1970: no later time can be printed."""

_NULL = b"null"
_NULL_RAW = msgspec.Raw(_NULL)
_NOT_JSON = "not JSON"
_TOO_DEEP = "nested too deeply, or not closed"
_NOT_LIST = "field 'owned' is not a list"
_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None
_Time = Annotated[int, msgspec.Meta(ge=0, le=LAST_US)] | None
_Text = str | None


class Worker(msgspec.Struct, gc=False):
    """What a worker of Kafka Connect and its leader said last; absent fields are null, unknown ones are ignored."""

    url: _Text = None
    config_offset: _Number = None
    leader: _Text = None
    leader_url: _Text = None
    delay_ms: _Number = None


class Line(msgspec.Struct, gc=False):
    """A line of the journal (docs/reference/journal.md); absent fields are null, unknown ones are ignored.

    ``owned`` stays JSON: most events repeat the one before, and equal text needs no parsing. So does ``commits``.
    """

    v: _Number = None
    seq: _Number = None
    time_us: _Time = None
    generation: _Number = None
    epoch: _Number = None
    replica: _Text = None
    boot: _Text = None
    kind: _Text = None
    group: _Text = None
    mode: _Text = None
    protocol: _Text = None
    member: _Text = None
    instance: _Text = None
    client_id: _Text = None
    client_host: _Text = None
    software: _Text = None
    state: _Text = None
    previous_state: _Text = None
    reason: _Text = None
    partitions: tuple[msgspec.Raw, ...] | None = None
    owned: msgspec.Raw = msgspec.Raw(_NULL)
    worker: Worker | None = None
    commits: msgspec.Raw = msgspec.Raw(_NULL)

    @property
    def process(self) -> tuple[str, str]:
        """Return the process that wrote it, once :func:`parse_line` has looked that both are there."""
        return self.replica, self.boot  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """Return the event's identity as text."""
        return f"{self.replica}.{self.boot}.{self.seq}"


Key = tuple[int, str, str, int]
"""The place of an event in the order: time_us, replica, boot and seq."""

Keyed = tuple[int, str, str, int, Line]
"""An event behind its place."""


def key_of(event: Line) -> Key:
    """Return an event's place in the order."""
    return event.time_us, event.replica, event.boot, event.seq  # type: ignore[return-value]  # parse_line has looked


class _Event(Line, kw_only=True, gc=False):
    """A line that is an event: it has what an event never lacks, and a kind that is known.

    Nearly all lines are, and checking them costs less while they are decoded.
    """

    v: Literal[1]
    seq: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    time_us: Annotated[int, msgspec.Meta(ge=0, le=LAST_US)]
    replica: str
    boot: str
    kind: Literal[tuple(sorted(KINDS))]  # type: ignore[valid-type]
    group: str
    member: str


class _Version(msgspec.Struct, gc=False):
    """The version alone, for a line whose fields have other types than in this version."""

    v: _Number = None


WORKER_FIELDS = Worker.__struct_fields__
NUMBERS = ("v", "seq", "time_us", "generation", "epoch", "config_offset", "delay_ms")
_NEVER_MISSING = ("replica", "boot", "seq", "time_us", "kind", "group", "member")
_never_missing = attrgetter(*_NEVER_MISSING)
_LIST = ord("[")
_EVENT = msgspec.json.Decoder(_Event)
_LINE = msgspec.json.Decoder(Line)
_VERSION_ALONE = msgspec.json.Decoder(_Version)


def parse_line(line: bytes | None) -> Line | str:
    """Return the event, or the reason why the line is none.

    The depth of a line is checked first, so that no reader's stack decides, now or when its partitions are parsed.
    """
    if line is None:
        return "no content"
    if json_is_deeper(line):
        return _TOO_DEEP
    try:
        event = _EVENT.decode(line if line.isascii() else line.decode())
    except (UnicodeDecodeError, msgspec.DecodeError):
        return _parse_other(line)
    owned = event.owned
    return event if memoryview(owned)[0] == _LIST or owned == _NULL_RAW else _NOT_LIST


def _parse_other(line: bytes) -> Line | str:
    """Return what :func:`parse_line` does for a line that lacks something."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return _NOT_JSON
    try:
        event = _LINE.decode(text)
    except msgspec.DecodeError:
        return _why_unreadable(text)
    return _why_unknown(event) or event


def owned_text(event: Line) -> str | None:
    """Return the client's partitions after the event as JSON; null if the event does not tell."""
    owned = bytes(event.owned)
    return None if owned == _NULL else owned.decode()


def worker_value(event: Line, field: str) -> str | int | None:
    """Return one of :data:`WORKER_FIELDS`; null if the event is not about a worker of Kafka Connect."""
    return None if event.worker is None else getattr(event.worker, field)


def _why_unreadable(text: str) -> str:
    try:
        version = _VERSION_ALONE.decode(text).v
    except msgspec.ValidationError:
        version = None
    except msgspec.DecodeError:
        return _NOT_JSON
    return _why_not_version(version) or "a field has another type than the schema says"


def _why_not_version(version: int | None) -> str | None:
    if version == VERSION:
        return None
    return "no version of the schema" if version is None else f"schema version {version} is not known"


def _why_unknown(event: Line) -> str | None:
    if event.v != VERSION:
        return _why_not_version(event.v)
    values = _never_missing(event)
    if None in values:
        return f"field {_NEVER_MISSING[values.index(None)]!r} is missing"
    if event.kind not in KINDS:
        return f"kind '{event.kind}' is not known"
    owned = bytes(event.owned)
    return None if owned[:1] == b"[" or owned == _NULL else _NOT_LIST
