"""The states of a member, and everything that changes them.

Theory of operation
-------------------
KIP-848 ("Supporting Online Consumer Group Upgrade") names the states that a coordinator keeps for each
classic member of a consumer group. They describe how far the *client* is, not how far the broker is:

* ``PrepareRebalance``: the client has to join again; its next Heartbeat says REBALANCE_IN_PROGRESS.
* ``CompletingRebalance``: its JoinGroup was answered; it has a generation, and has not asked for the
  assignment of that generation yet.
* ``Stable``: SyncGroup gave it its assignment, and that assignment is still what the broker wants.
* ``Absent``: it is not a member: not yet, or not any more.

Two rules hold this file together:

1. Whatever changes a member's state is in this file. Everybody else reports an *event* and reads the state.
2. This file knows no message, no partition and no time; what an event means on the wire is not its business.

The transitions are the table below. A pair that is not in the table is a bug of the caller and raises
:class:`IllegalTransition`; it never leaves the machine in a made-up state.
"""

from collections.abc import Mapping
from enum import StrEnum


class MemberState(StrEnum):
    """How far a classic client is with its rebalance, as KIP-848 names it."""

    ABSENT = "Absent"
    PREPARE_REBALANCE = "PrepareRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class MemberEvent(StrEnum):
    """What can happen to a member, as far as its state is concerned."""

    JOIN_ANSWERED = "JoinGroup answered"
    SYNC_ANSWERED = "SyncGroup answered"
    SYNC_ANSWERED_WITHHOLDING = "SyncGroup answered, claimed partitions withheld"
    SYNC_MISSED = "no SyncGroup followed the JoinGroup"
    ASSIGNMENT_CHANGED = "assignment changed"
    ADOPTED = "adopted"
    LEFT = "left"
    EXPIRED = "deadline expired"
    FENCED = "fenced"
    REPLACED = "replaced by a member with the same instance id"


class IllegalTransition(Exception):
    """An event was reported that can't happen in the member's state."""

    def __init__(self, state: MemberState, event: MemberEvent) -> None:
        super().__init__(f"{event.value!r} can't happen to a member in state {state.value}")


_S, _E = MemberState, MemberEvent
_ENDINGS = (_E.LEFT, _E.EXPIRED, _E.FENCED, _E.REPLACED)

TRANSITIONS: Mapping[tuple[MemberState, MemberEvent], MemberState] = {
    # JoinGroup is legal in every state.
    **{(state, _E.JOIN_ANSWERED): _S.COMPLETING_REBALANCE for state in MemberState},
    # SyncGroup may repeat: a client that lost the answer asks again.
    (_S.COMPLETING_REBALANCE, _E.SYNC_ANSWERED): _S.STABLE,
    (_S.STABLE, _E.SYNC_ANSWERED): _S.STABLE,
    # A client that claims more than it was given has to revoke it and to join again without it.
    (_S.COMPLETING_REBALANCE, _E.SYNC_ANSWERED_WITHHOLDING): _S.PREPARE_REBALANCE,
    (_S.STABLE, _E.SYNC_ANSWERED_WITHHOLDING): _S.PREPARE_REBALANCE,
    # A client that lives and does not ask for its assignment did not hear the answer to its JoinGroup.
    (_S.COMPLETING_REBALANCE, _E.SYNC_MISSED): _S.PREPARE_REBALANCE,
    # A change that comes between JoinGroup and SyncGroup is carried by the SyncGroup answer.
    (_S.STABLE, _E.ASSIGNMENT_CHANGED): _S.PREPARE_REBALANCE,
    (_S.PREPARE_REBALANCE, _E.ASSIGNMENT_CHANGED): _S.PREPARE_REBALANCE,
    (_S.COMPLETING_REBALANCE, _E.ASSIGNMENT_CHANGED): _S.COMPLETING_REBALANCE,
    # A member found at the broker is asked to join: only its JoinGroup says what it subscribes to and holds.
    (_S.ABSENT, _E.ADOPTED): _S.PREPARE_REBALANCE,
    **{(state, event): _S.ABSENT for state in MemberState for event in _ENDINGS},
}


class MemberStateMachine:
    """One member's state; the only thing in the project that changes it."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = MemberState.ABSENT
        """The state that the member is in. :meth:`handle` alone changes it."""

    def handle(self, event: MemberEvent) -> MemberState:
        """Go through the table and return the new state.

        Raises :class:`IllegalTransition` if the event can't happen in the present state.
        """
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise IllegalTransition(self.state, event) from None
        return self.state
