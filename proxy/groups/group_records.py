"""What is kept of groups and their members, and when a member or a group's move counts as stuck; events change it
(:mod:`proxy.groups.group_registry`).
"""

from collections import deque
from collections.abc import Callable

import msgspec

from proxy.groups.proof_view import ProofView
from proxy.groups.snapshot import REBALANCING, BrokerView
from proxy.shadow.view import ShadowView
from translation.actions import ConnectWorker, Event
from translation.members.member_state import MemberState
from translation.mending.unowned import Unowned
from translation.moving.move_view import MoveView
from translation.partitions import TopicPartitions
from translation.policy.client_offer import ClientOffer
from translation.policy.policy import Mode

MICRO = 1_000_000
"""Microseconds in a second."""

_MOVE_ANSWER_S = 3.0
"""Seconds in which a JoinGroup counts as a member's response to the request to move."""

_CONVERSION_STUCK_S = 120.0
"""Seconds without a move after which a group with classic members that should be translated counts as stuck."""

_DEFAULT_REBALANCE_TIMEOUT_S = 300.0

_WHOLE = "100%"
"""The step at which all members are to be moved."""


def nothing(_group_id: str) -> None:
    """Know nothing of any group."""


class GroupLookups(msgspec.Struct, frozen=True, kw_only=True):
    """What other parts of the process know of a group, by its id; each returns None if it knows nothing.

    How far its move by steps is, what the live verification says of it, which of its partitions nobody has, and how
    many records it is behind.
    """

    move_of: Callable[[str], MoveView | None] = nothing
    proof_of: Callable[[str], ProofView | None] = nothing
    unowned_of: Callable[[str], Unowned | None] = nothing
    lag_of: Callable[[str], int | None] = nothing


class MemberRecord(msgspec.Struct, kw_only=True, gc=False):
    """A member as of its last event. Times are microseconds since 1970."""

    id: str
    protocol: str = ""
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str = ""
    software: str = ""
    generation: int = -1
    epoch: int = -1
    state: str = ""
    state_since_us: int = 0
    rebalancing_since_us: int = 0
    updated_us: int = 0
    owned: TopicPartitions | None = None
    revoked_all: bool = False
    """Whether it had partitions, and had to give up all of them in this rebalance."""
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int = -1
    worker: ConnectWorker | None = None
    worker_since_us: int = 0
    """When the worker's group was told what ``worker`` says."""

    def update(self, event: Event, now_us: int) -> None:
        """Take over what an event says of the member, except for its partitions."""
        self.protocol = event.protocol
        self.instance_id = event.instance_id
        self.client_id = event.client_id
        self.client_host = event.client_host
        self.software = event.software or self.software
        self.generation = event.generation
        self.epoch = event.epoch
        self.state = event.state
        self.updated_us = now_us
        self.rebalance_timeout_ms = event.rebalance_timeout_ms
        self.session_timeout_ms = event.session_timeout_ms
        if event.worker != self.worker:
            self.worker, self.worker_since_us = event.worker, now_us

    def rejoins_at_us(self, now_us: int) -> int | None:
        """Return when the worker joins again by itself; None if it does not."""
        if self.worker is None or not self.worker.delay_ms:
            return None
        at_us = self.worker_since_us + self.worker.delay_ms * 1000
        return at_us if at_us > now_us else None

    def stuck_s(self, now_us: int) -> float:
        """Return for how many seconds the member has exceeded its rebalance timeout; 0 if it has not."""
        if self.state not in REBALANCING:
            return 0.0
        timeout_ms = self.rebalance_timeout_ms
        allowed_s = timeout_ms / 1000 if timeout_ms > 0 else _DEFAULT_REBALANCE_TIMEOUT_S
        return max(0.0, (now_us - self.rebalancing_since_us) / MICRO - allowed_s)


class Rebalance(msgspec.Struct, kw_only=True):
    """A time during which members of a group had to rejoin. Times are microseconds since 1970."""

    started_us: int
    reason: str
    members: set[str]
    ended_us: int | None = None


class GroupRecord(msgspec.Struct, kw_only=True):
    """A group. ``mode``, ``rule``, ``assignor``, ``wave`` and ``owner`` come from the policy.

    Times are microseconds since 1970.
    """

    id: str
    mode: Mode
    rule: str
    assignor: str | None
    wave: int | None = None
    owner: str | None = None
    members: dict[str, MemberRecord] = {}
    had_members: bool = False
    events: deque[tuple[int, Event]] = msgspec.field(default_factory=deque)
    rebalance: Rebalance | None = None
    rebalances: int = 0
    why_not: str | None = None
    joins_wait: bool = False
    """A JoinGroup has been relayed since a client became a member: ``why_not`` is about a client that is to come."""
    offer: ClientOffer | None = None
    """What the client that joined last offers."""
    broker: BrokerView | None = None
    shadow: ShadowView | None = None
    """What the new protocol would give it; None if it is not observed, or not computed yet."""
    lookups: GroupLookups = GroupLookups()
    mode_since_us: int = 0
    last_move_us: int = 0
    move_requested_us: int = 0
    updated_us: int = 0

    def follow_rebalance(self, event: Event, now_us: int, members_limit: int) -> None:
        """Begin, extend or end the group's rebalance by the state in which an event leaves a member."""
        rebalance = self.rebalance
        if event.state in REBALANCING:
            if rebalance is None or rebalance.ended_us is not None:
                reason = self._rebalance_reason(event, now_us)
                self.rebalance = Rebalance(started_us=now_us, reason=reason, members={event.member_id})
                self.rebalances += 1
            elif len(rebalance.members) < members_limit:
                rebalance.members.add(event.member_id)
        elif (
            rebalance is not None
            and rebalance.ended_us is None
            and not any(member.state in REBALANCING for member in self.members.values())
        ):
            rebalance.ended_us = now_us

    def _rebalance_reason(self, event: Event, now_us: int) -> str:
        if event.state == MemberState.PREPARE_REBALANCE:
            return event.reason or event.kind.replace("_", " ")
        moves = now_us - self.move_requested_us < _MOVE_ANSWER_S * MICRO
        return "moved by the policy" if moves else "a member joined"

    def conversion_stuck(self, now_us: int) -> str | None:
        """Return why the group's move to the new protocol is stuck; None if it isn't, or none is under way."""
        if self.mode is not Mode.TRANSLATE or self.why_not is not None:
            return None
        move = self.lookups.move_of(self.id)
        if move is not None and (move.allows != _WHOLE or not move.goes_on or move.waits):
            return None  # its classic members wait for their step, or for what somebody says
        waiting = [member for member in self.members.values() if member.protocol == "classic"]
        since_s = (now_us - max(self.mode_since_us, self.last_move_us)) / MICRO
        if not waiting or since_s < _CONVERSION_STUCK_S:
            return None
        return f"{len(waiting)} classic members wait to be moved, and none was moved for {since_s:.0f} s"


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What an event changed, for metrics. ``paused_s`` is how long a member had no partition during a rebalance."""

    group: GroupRecord
    event: Event
    rebalances: bool = False
    membership_changed: bool = False
    paused_s: float | None = None
