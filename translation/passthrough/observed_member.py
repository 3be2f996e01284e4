"""What is known of one member whose calls pass through (:mod:`translation.passthrough.observer`)."""

import math

import msgspec

from translation.actions import ConnectionId, ConnectWorker, MemberProtocol
from translation.members.member_state import OBSERVED_TRANSITIONS, MemberState, MemberStateMachine
from translation.passthrough.observed_partitions import NOTHING, Owned

_SESSION_TIMEOUT_MS = 45_000
"""Kafka's default, for members whose own was not seen."""


def _observed() -> MemberStateMachine:
    return MemberStateMachine(OBSERVED_TRANSITIONS)


class ObservedMember(msgspec.Struct, kw_only=True):
    """A member as its calls show it.

    It owns what SyncGroup (or a ConsumerGroupHeartbeat) assigned to it, until a JoinGroup (or an owned list) no longer
    names it. ``owned`` is None as long as no call has told what it owns.
    """

    group_id: str
    member_id: str
    protocol: MemberProtocol
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str = ""
    software: str = ""
    connection_id: ConnectionId | None = None
    """The connection of its last call that the broker accepted."""
    is_consumer: bool = True
    """Whether its protocol type is ``consumer``; assignments of other types can't be read."""
    generation: int = -1
    member_epoch: int = -1
    machine: MemberStateMachine = msgspec.field(default_factory=_observed)
    owned: Owned | None = None
    pending_revocation: Owned = NOTHING
    """What a member of the new protocol has to give up."""
    session_timeout_ms: int = _SESSION_TIMEOUT_MS
    declared_session_timeout_ms: int = -1
    """The same as its JoinGroup says; -1 if none was seen, and for members of the new protocol, which declare none."""
    rebalance_timeout_ms: int = -1
    worker: ConnectWorker | None = None
    """Set for a worker of Kafka Connect whose metadata was read."""
    alive_until: float = 0.0
    """When its session ends unless it gives another sign of life, in seconds of the caller's clock."""
    due: float = math.inf
    """When to check whether it has ended: at ``alive_until`` or, since that moves with each call, before it."""

    @property
    def state(self) -> MemberState:
        """The member's state; changed by :mod:`translation.members.member_state` only."""
        return self.machine.state

    def wait_in_join_group(self, now: float) -> None:
        """Let the session run while a JoinGroup waits at the broker: for the rebalance, and a session timeout more."""
        longest_ms = max(self.rebalance_timeout_ms, self.session_timeout_ms)
        self.alive_until = now + (longest_ms + self.session_timeout_ms) / 1000

    def assign(self, assigned: Owned) -> tuple[Owned, Owned]:
        """Add an assignment to what the member owns; return what is new in it, and what it has to give up.

        The member owns both until a later call no longer names what it has to give up.
        """
        owned = self.owned or NOTHING
        self.owned = owned | assigned
        return assigned - owned, owned - assigned
