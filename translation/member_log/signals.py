"""What each replica reports of a group whose move has gates: counts of the last windows, as a record of the member log.

One record for each writer, in the partition of the group (:mod:`translation.member_log.group_records`), written anew
every :data:`WINDOW_S` while the move goes on. :mod:`translation.rollout.gates` judges by all of them.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from translation.member_log.records import Count, WriterName

WINDOW_S = 10.0
"""How long a window is, about: each replica cuts its own."""

KEPT = 6
"""Windows in a report, the newest first."""

LONGEST_REASON = 100


class Gate(StrEnum):
    """What is judged, in the words that people read."""

    LAG = "lag"
    UNOWNED = "seconds without an owner"
    COMMIT_ERRORS = "commit errors"
    REJOINS = "rejoins"
    PAUSE = "pause p99"
    DISCONNECTS = "disconnects"


_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]


class Window(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What one replica saw of a group in about ten seconds. Counts are those of its own clients."""

    ms: Count
    """How long it was."""
    told: Count = 0
    """Members that were made to rejoin, because the policy moves them."""
    members: Count = 0
    """Members at its end."""
    classic: Count = 0
    """The classic ones among them."""
    changes: Count = 0
    """What gives the group a new target assignment: members that came or left, and translated ones that rejoined."""
    rejoins: Count = 0
    """JoinGroups of translated members that were members before."""
    classic_rejoins: Count = 0
    commit_errors: Count = 0
    disconnects: Count = 0
    owned_ms: Count = 0
    """Milliseconds that partitions were owned, summed over them."""
    unknown: Count = 0
    """Members of which is not known what they own."""
    pause_ms: Count = 0
    """The 99th percentile of the times from giving up everything to having an assignment; 0: there was none."""
    lag: _Int64 | None = None
    """The lag of the whole group at its end; None: not known."""
    watched: Count = 0
    """Groups with members that are not moved: the control."""
    harmed: dict[str, Count] = {}
    """How many of them are worse than before, by :class:`Gate`, beyond the thresholds of this group's rule."""
    fault: str = ""
    """What went wrong outside of all groups: a broker that can't be reached."""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a replica reports of a group."""

    windows: tuple[Window, ...] = ()
    """The newest first, at most :data:`KEPT`."""
    failed: tuple[str, ...] = ()
    """Sources that have failed for two windows, and why."""
    writers: tuple[WriterName, ...] = ()
    """The writers that the replica has had lately: it reports for all of them."""


class Baseline(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a group was like before its first step: the worst of a few windows of all replicas. Counts are by minute."""

    at_ms: Count
    """When it was taken, by the log's clock."""
    owned: _Finite = 0
    """Partitions that had an owner."""
    unowned_s: _Finite = 0
    commit_errors: _Finite = 0
    rejoins: _Finite = 0
    pause_ms: Count = 0
    disconnects: _Finite = 0
    lag: _Int64 = 0
    lag_growth: _Finite = 0
    """Records a minute."""


class GateState(StrEnum):
    """What the gates say of a move."""

    BASELINE = "baseline"
    """What the group is like without the move is still being found out: no member is moved."""
    CLEAR = "clear"
    """No harm in three windows: the next step may begin."""
    WATCHING = "watching"
    """Not yet three windows since a member was moved: members of this step may be moved, the next may not begin."""
    SUSPECT = "suspect"
    """Harm in the newest window: no member is moved."""
    PAUSED = "paused"
    """The same harm elsewhere, or a broker is away: no member is moved, and nothing is taken back."""
    MISSING = "missing"
    """A replica or a source does not report: no member is moved, and nothing is taken back."""
    HARM = "harm"
    """Three windows of harm: the move is aborted."""


class GateVerdict(msgspec.Struct, frozen=True):
    """What the gates say of a move, and why."""

    state: GateState
    why: str = ""

    @property
    def may_move_members(self) -> bool:
        """Whether members of the present step may be moved."""
        return self.state in _MAY_MOVE

    @property
    def may_advance(self) -> bool:
        """Whether the next step may begin."""
        return self.state is GateState.CLEAR

    @property
    def text(self) -> str:
        """It, for people; empty if there is nothing to say."""
        if self.state in _QUIET:
            return ""
        return f"{self.state}: {self.why}" if self.why else str(self.state)


_MAY_MOVE = frozenset({GateState.CLEAR, GateState.WATCHING})
_QUIET = frozenset({GateState.CLEAR, GateState.WATCHING})
