"""The states of a group member, and everything that changes them (``epochgate_member_state_changes_total``).

Theory of operation
-------------------
KIP-848 ("Supporting Online Consumer Group Upgrade") names the states that a coordinator keeps for each
classic member of a consumer group. They describe how far the *client* is, not how far the broker is:

* ``PrepareRebalance``: the client has to join again; its next Heartbeat says REBALANCE_IN_PROGRESS.
* ``CompletingRebalance``: its JoinGroup was answered; it has a generation, and has not asked for the
  assignment of that generation yet.
* ``Stable``: SyncGroup gave it its assignment, and that assignment is still what the broker wants.
* ``Absent``: it is not a member: not yet, or not any more.

Two kinds of members have these states, and each kind has its table:

* :data:`TRANSITIONS` is for members that the proxy translates. The proxy itself answers their calls, so it knows
  each event to be true, and an event that is not in the table is a bug of the caller.
* :data:`OBSERVED_TRANSITIONS` is for members whose calls pass through to the broker. The proxy sees the broker's
  answers only, and may see the first one in the middle of the member's life.

Two rules hold this file together:

1. Whatever changes a member's state is in this file. Everybody else reports an *event* and reads the state.
2. This file knows no message, no partition and no time; what an event means on the wire is not its business.

A pair that is not in the table raises :class:`IllegalTransition` and leaves the state as it was. The diagrams in
``docs/explanation/translation.md`` are generated from the tables (``python -m tools.docs``).
"""

from collections.abc import Mapping
from enum import StrEnum


class MemberState(StrEnum):
    """How far a client is with its rebalance, as KIP-848 names it."""

    ABSENT = "Absent"
    PREPARE_REBALANCE = "PrepareRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class MemberEvent(StrEnum):
    """What can happen to a member, as far as its state is concerned."""

    JOIN_ANSWERED = "JoinGroup answered"
    SYNC_ANSWERED = "SyncGroup answered"
    SYNC_ANSWERED_WITHHOLDING = "SyncGroup answered, owned partitions withheld"
    ASSIGNMENT_CHANGED = "assignment changed"
    ADOPTED = "adopted"
    RESUMED = "goes on where another replica stopped"
    CONVERTED = "converted in place"
    LEFT = "left"
    EXPIRED = "deadline expired"
    FENCED = "fenced"
    REPLACED = "replaced by a member with the same instance id"
    TAKEN = "taken over by another replica"

    # of members whose calls pass through
    FIRST_SEEN = "first seen in its group"
    JOIN_FORWARDED = "JoinGroup forwarded"
    REBALANCE_ANNOUNCED = "the broker announced a rebalance"
    CONSUMER_JOINED = "heartbeat with epoch 0 answered"
    REVOCATION_ACKNOWLEDGED = "everything to be revoked was given up"


class IllegalTransition(Exception):
    """An event was reported that can't happen in the member's state."""

    def __init__(self, state: MemberState, event: MemberEvent) -> None:
        super().__init__(f"{event.value!r} can't happen to a member in state {state.value}")


Transitions = Mapping[MemberState, Mapping[MemberEvent, MemberState]]
"""For each state its exits: the events that can happen in it, and the state that each leads to."""

_S, _E = MemberState, MemberEvent

TRANSITIONS: Transitions = {
    _S.ABSENT: {
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        # Only its JoinGroup says what a member found at the broker subscribes to and owns, so it is asked to join.
        _E.ADOPTED: _S.PREPARE_REBALANCE,
        # Unless the log of the fleet says, and the broker confirms, what its client has.
        _E.RESUMED: _S.STABLE,
        # A classic member whose client keeps everything that it has.
        _E.CONVERTED: _S.STABLE,
        # The broker has a membership from the first heartbeat on, before the client has its JoinGroup answer. It may
        # end in between.
        _E.LEFT: _S.ABSENT,
        _E.EXPIRED: _S.ABSENT,
        _E.FENCED: _S.ABSENT,
        _E.REPLACED: _S.ABSENT,
        _E.TAKEN: _S.ABSENT,
    },
    _S.PREPARE_REBALANCE: {
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        _E.LEFT: _S.ABSENT,
        _E.EXPIRED: _S.ABSENT,
        _E.FENCED: _S.ABSENT,
        _E.REPLACED: _S.ABSENT,
        _E.TAKEN: _S.ABSENT,
    },
    _S.COMPLETING_REBALANCE: {
        # An assignment that changes now is carried by the SyncGroup answer, and is no event.
        _E.SYNC_ANSWERED: _S.STABLE,
        # A client that owns more than it was given has to revoke it and to join again without it.
        _E.SYNC_ANSWERED_WITHHOLDING: _S.PREPARE_REBALANCE,
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        _E.LEFT: _S.ABSENT,
        _E.EXPIRED: _S.ABSENT,
        _E.FENCED: _S.ABSENT,
        _E.REPLACED: _S.ABSENT,
        _E.TAKEN: _S.ABSENT,
    },
    _S.STABLE: {
        _E.ASSIGNMENT_CHANGED: _S.PREPARE_REBALANCE,
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        # SyncGroup may repeat: a client that lost the answer asks again.
        _E.SYNC_ANSWERED: _S.STABLE,
        _E.SYNC_ANSWERED_WITHHOLDING: _S.PREPARE_REBALANCE,
        _E.LEFT: _S.ABSENT,
        _E.EXPIRED: _S.ABSENT,
        _E.FENCED: _S.ABSENT,
        _E.REPLACED: _S.ABSENT,
        _E.TAKEN: _S.ABSENT,
    },
}
"""Members that the proxy translates."""

OBSERVED_TRANSITIONS: Transitions = {
    _S.ABSENT: {
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        # The first call of a member that is seen may be any.
        _E.SYNC_ANSWERED: _S.STABLE,
        _E.FIRST_SEEN: _S.STABLE,
        _E.CONSUMER_JOINED: _S.STABLE,
    },
    _S.PREPARE_REBALANCE: {
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        # The broker completes the rebalance for a client whose JoinGroup went another way.
        _E.SYNC_ANSWERED: _S.STABLE,
        _E.CONSUMER_JOINED: _S.STABLE,
        _E.ASSIGNMENT_CHANGED: _S.PREPARE_REBALANCE,
        _E.REVOCATION_ACKNOWLEDGED: _S.STABLE,
        _E.LEFT: _S.ABSENT,
        _E.EXPIRED: _S.ABSENT,
        _E.FENCED: _S.ABSENT,
    },
    _S.COMPLETING_REBALANCE: {
        _E.SYNC_ANSWERED: _S.STABLE,
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        _E.REBALANCE_ANNOUNCED: _S.PREPARE_REBALANCE,
        # A classic member's id may go on as that of a member of the new protocol.
        _E.ASSIGNMENT_CHANGED: _S.PREPARE_REBALANCE,
        _E.LEFT: _S.ABSENT,
        _E.EXPIRED: _S.ABSENT,
        _E.FENCED: _S.ABSENT,
    },
    _S.STABLE: {
        _E.JOIN_FORWARDED: _S.PREPARE_REBALANCE,
        _E.REBALANCE_ANNOUNCED: _S.PREPARE_REBALANCE,
        _E.ASSIGNMENT_CHANGED: _S.PREPARE_REBALANCE,
        _E.JOIN_ANSWERED: _S.COMPLETING_REBALANCE,
        _E.SYNC_ANSWERED: _S.STABLE,
        _E.CONSUMER_JOINED: _S.STABLE,
        _E.LEFT: _S.ABSENT,
        _E.EXPIRED: _S.ABSENT,
        _E.FENCED: _S.ABSENT,
    },
}
"""Members whose calls pass through, as the broker's answers show them."""


class MemberStateMachine:
    """One member's state; the only thing in the project that changes it."""

    __slots__ = ("_transitions", "state")

    def __init__(self, transitions: Transitions = TRANSITIONS) -> None:
        self._transitions = transitions
        self.state = MemberState.ABSENT
        """The state that the member is in. :meth:`handle` alone changes it."""

    def handle(self, event: MemberEvent) -> MemberState:
        """Go through the table and return the new state.

        Raises :class:`IllegalTransition` if the event can't happen in the present state.
        """
        try:
            self.state = self._transitions[self.state][event]
        except KeyError:
            raise IllegalTransition(self.state, event) from None
        return self.state
