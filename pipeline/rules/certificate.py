"""What is proven of a group: a certificate, as `epochgate verify` prints it. Times are microseconds since 1970.

The verdict is ``violated`` if a partition had two owners at once and nothing accounts for it, ``proven`` if the journal
shows that none had, and ``unproven``, with the reasons, if it does not show that. ``provisional`` says that events
which are still to come may change it.
"""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """What a journal says of a group's owners."""

    PROVEN = "proven"
    VIOLATED = "violated"
    UNPROVEN = "unproven"


class TwoOwners(msgspec.Struct, frozen=True):
    """A violation: who held a partition first, who got it too, from when to when, and the events that show it."""

    topic: str
    partition: int
    first_member: str
    second_member: str
    from_us: int
    until_us: int
    first_event: str
    second_event: str
    until_event: str | None


class Owners(msgspec.Struct, frozen=True):
    """Two owners at once: how often, by class (docs/how-to/pipeline.md), and the first violations."""

    overlaps: dict[str, int]
    violations: tuple[TwoOwners, ...]


class Gaps(msgspec.Struct, frozen=True):
    """Times in which a partition had no owner after it had had one; ``now`` are those that still last."""

    count: int
    longest_us: int
    total_us: int
    now: int


class PauseTimes(msgspec.Struct, frozen=True):
    """How long members with one protocol paused; quantiles are up to 12 % too long."""

    count: int
    p50_us: int
    p99_us: int
    longest_us: int


class Side(msgspec.Struct, frozen=True):
    """Rebalances of one kind in one phase of a move, by how long each stopped all clients together."""

    count: int
    median_us: int
    """Of the newest hundred."""
    longest_us: int
    """The longest pause of one client."""
    total_us: int


class Compared(msgspec.Struct, frozen=True):
    """Rebalances of one kind before a move and after it; :mod:`pipeline.rules.gains` has the kinds and verdicts."""

    kind: str
    before: Side
    moving: Side
    after: Side
    verdict: str


class SetBack(msgspec.Struct, frozen=True):
    """A commit that set an offset back."""

    topic: str
    partition: int
    member: str
    at_us: int
    offset: int
    before: int
    event: str


class CommitCounts(msgspec.Struct, frozen=True):
    """What the journal says of commits; nothing if not ``recorded``."""

    recorded: bool
    refused: dict[str, int]
    """By error; those beyond a bound together (:mod:`pipeline.rules.names`)."""
    set_back: int
    examples: tuple[SetBack, ...]


class Certificate(msgspec.Struct, frozen=True):
    """What is proven of one group from ``from_us`` until ``until_us``, the group's last event."""

    group: str
    verdict: Verdict
    provisional: bool
    why: tuple[str, ...]
    """Why the journal does not prove more."""
    pending: tuple[str, ...]
    """Why it is provisional."""
    from_us: int
    until_us: int
    events: int
    members: dict[str, int]
    """Members that were seen, by protocol, each once for each time that it joined or was adopted."""
    translated_since_us: int | None
    """The first event of a translated member."""
    owners: Owners
    gaps: Gaps
    pauses: dict[str, PauseTimes]
    """By the member's protocol when the pause began: ``classic`` is before the move, ``translated`` after it."""
    commits: CommitCounts


class JournalSummary(msgspec.Struct, frozen=True):
    """What there was to read."""

    events: int
    from_us: int
    until_us: int
    processes: int
    duplicates: int
    lost: int
    late: int
    quarantined: dict[str, int]
    unfinished: tuple[str, ...]
    complete: bool
    """Whether nothing is missing in the time that the certificates are about."""


class ClockDifference(msgspec.Struct, frozen=True):
    """The clock of ``ahead`` is shown to be ahead of ``behind``: overlaps up to ``explains_us`` may be due to that."""

    ahead: str
    behind: str
    explains_us: int


class Report(msgspec.Struct, frozen=True):
    """All certificates, by group, and what they rest on."""

    issued_us: int
    skew_us: int
    journal: JournalSummary
    clocks: tuple[ClockDifference, ...]
    certificates: tuple[Certificate, ...]
    not_judged: int
    """Groups whose members share partitions or have tasks, so that there are no owners to judge."""
