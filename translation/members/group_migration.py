"""How far a group is with its move to the new protocol, everything that changes that, and when one that could not be
converted is tried again.

Theory of operation
-------------------
A broker converts a classic group when the first heartbeat of a member of the new protocol arrives (KIP-848, "Supporting
Online Consumer Group Upgrade"). It refuses some groups: for good (not consumers, an unknown assignor), for now (a
rebalance under way), or as long as they have members (an assignor that keeps user data in the assignments). What a
process has found out about a group are two things that change independently:

:class:`Routing`, who answers the group's calls:

* ``Translated``: the proxy does. So it is for every group until something stands in the way.
* ``RelayedUntilJoin``: the broker does, because a client that can't be translated has joined. The next JoinGroup of a
  client that can be is translated all the same, and the broker decides.
* ``RelayedUntilTime``: the broker does until a time, and then it is tried again.
* ``RelayedUntilPolicyChange``: the broker does, because it has said that it will never convert the group.

:class:`Pace`, how its members are moved:

* ``OneByOne``: each is converted in place, at a Heartbeat of its own.
* ``AllAtOnce``: each has to rejoin, at its next Heartbeat, so that the group is empty in between. That has a time
  limit. When it has passed, no further member has to, and the group is relayed for a while, longer after each failure.

Two rules hold this file together, as in :mod:`translation.members.member_state`: whatever changes these is in this
file, and this file knows no message and no member. Times are seconds of the caller's clock. Asking changes nothing: a
time limit that has passed counts at once, and is recorded by :meth:`GroupMigration.expire`.
"""

import math
from collections.abc import Mapping
from enum import StrEnum


class Routing(StrEnum):
    """Who answers the calls of a group that the policy says to translate."""

    TRANSLATED = "Translated"
    RELAYED_UNTIL_JOIN = "RelayedUntilJoin"
    RELAYED_UNTIL_TIME = "RelayedUntilTime"
    RELAYED_UNTIL_POLICY_CHANGE = "RelayedUntilPolicyChange"


class Pace(StrEnum):
    """How the members of a live group are moved."""

    ONE_BY_ONE = "OneByOne"
    ALL_AT_ONCE = "AllAtOnce"


class GroupEvent(StrEnum):
    """What a process finds out about the migration of a group."""

    CONVERTED = "a first heartbeat was answered"
    JOIN_TRANSLATED = "a JoinGroup is translated"
    UNTRANSLATABLE_JOINED = "a client that can't be translated joined"
    REFUSED_FOR_NOW = "can't be converted for now"
    REFUSED = "can't be converted"
    TIME_PASSED = "the time has passed"
    HAS_TO_BE_EMPTY = "has to be empty to be converted"
    MEMBERS_REMAIN = "members remain when the time has passed"
    POLICY_CHANGED = "the policy changed"


_R, _P, _E = Routing, Pace, GroupEvent

ROUTING: Mapping[Routing, Mapping[GroupEvent, Routing]] = {
    _R.TRANSLATED: {
        _E.UNTRANSLATABLE_JOINED: _R.RELAYED_UNTIL_JOIN,
        _E.REFUSED_FOR_NOW: _R.RELAYED_UNTIL_TIME,
        _E.REFUSED: _R.RELAYED_UNTIL_POLICY_CHANGE,
    },
    _R.RELAYED_UNTIL_JOIN: {
        _E.JOIN_TRANSLATED: _R.TRANSLATED,
        _E.CONVERTED: _R.TRANSLATED,
        _E.POLICY_CHANGED: _R.TRANSLATED,
        _E.REFUSED_FOR_NOW: _R.RELAYED_UNTIL_TIME,
        _E.REFUSED: _R.RELAYED_UNTIL_POLICY_CHANGE,
    },
    _R.RELAYED_UNTIL_TIME: {
        _E.TIME_PASSED: _R.TRANSLATED,
        # A client that is a member of the new protocol already is translated whatever is known of the others.
        _E.JOIN_TRANSLATED: _R.TRANSLATED,
        _E.CONVERTED: _R.TRANSLATED,
        _E.POLICY_CHANGED: _R.TRANSLATED,
        _E.UNTRANSLATABLE_JOINED: _R.RELAYED_UNTIL_JOIN,
        _E.REFUSED: _R.RELAYED_UNTIL_POLICY_CHANGE,
    },
    _R.RELAYED_UNTIL_POLICY_CHANGE: {
        _E.POLICY_CHANGED: _R.TRANSLATED,
        _E.JOIN_TRANSLATED: _R.TRANSLATED,
        # Two JoinGroups raced, and the broker converted the group for the other one.
        _E.CONVERTED: _R.TRANSLATED,
        _E.UNTRANSLATABLE_JOINED: _R.RELAYED_UNTIL_JOIN,
        _E.REFUSED_FOR_NOW: _R.RELAYED_UNTIL_TIME,
    },
}
"""An event that a state does not name leaves it as it is; a time limit is set anew."""

PACE: Mapping[Pace, Mapping[GroupEvent, Pace]] = {
    _P.ONE_BY_ONE: {
        _E.HAS_TO_BE_EMPTY: _P.ALL_AT_ONCE,
    },
    _P.ALL_AT_ONCE: {
        _E.CONVERTED: _P.ONE_BY_ONE,
        _E.MEMBERS_REMAIN: _P.ONE_BY_ONE,
        _E.TIME_PASSED: _P.ONE_BY_ONE,
        _E.POLICY_CHANGED: _P.ONE_BY_ONE,
    },
}
"""An event that a state does not name leaves it as it is."""

ALL_AT_ONCE_S = 30.0
"""Longer than any client's heartbeat interval: within it every member has been told."""

_DOUBLINGS = 10
"""Of the time between two tries to move a group all at once, at most."""


class GroupMigration:
    """What a process has found out about the migration of one group."""

    __slots__ = (
        "_all_told_until",
        "_failures",
        "_grace_until",
        "_relayed_until",
        "classic_assignor",
        "pace",
        "routing",
    )

    def __init__(self) -> None:
        self.routing = Routing.TRANSLATED
        self.pace = Pace.ONE_BY_ONE
        self._relayed_until = -math.inf
        self._all_told_until = -math.inf
        self._failures = 0
        """How often all members were told at once, and somebody stayed in the classic group all the same."""
        self._grace_until = math.inf
        self.classic_assignor = ""
        """The assignor of the classic group, as the broker described it last."""

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known that would have to be remembered while no member of the group is here."""
        return (
            self.routing is Routing.TRANSLATED
            and self.pace is Pace.ONE_BY_ONE
            and not self._failures
            and self._grace_until == math.inf
        )

    def _handle(self, event: GroupEvent) -> None:
        self.routing = ROUTING[self.routing].get(event, self.routing)
        self.pace = PACE[self.pace].get(event, self.pace)

    # -- who answers -------------------------------------------------------------------------------------------

    def relays(self, now: float) -> bool:
        """Whether the broker answers the group's calls."""
        return self.routing is not Routing.TRANSLATED and not self._relay_time_passed(now)

    def relays_joins(self, now: float) -> bool:
        """Whether it answers the JoinGroups of clients that can be translated too."""
        return self.relays(now) and self.routing is not Routing.RELAYED_UNTIL_JOIN

    def _relay_time_passed(self, now: float) -> bool:
        return self.routing is Routing.RELAYED_UNTIL_TIME and self._relayed_until <= now

    def relay_until_join(self) -> None:
        """A client that can't be translated is a member now."""
        self._handle(GroupEvent.UNTRANSLATABLE_JOINED)

    def relay_for(self, seconds: float, now: float) -> None:
        """The broker does not convert the group: relay it for so long, ``math.inf`` until the policy changes."""
        self._relayed_until = now + seconds
        self._handle(GroupEvent.REFUSED if seconds == math.inf else GroupEvent.REFUSED_FOR_NOW)

    def translate_join(self, now: float) -> None:
        """A JoinGroup is translated. If the time is over for which the group was relayed, begin anew."""
        self.expire(now)
        self._handle(GroupEvent.JOIN_TRANSLATED)

    def expire(self, now: float) -> None:
        """Record that the time has passed for which the group was relayed, if it has."""
        if self._relay_time_passed(now):
            self._handle(GroupEvent.TIME_PASSED)

    def converted(self) -> None:
        """The broker has answered a first heartbeat: it has a consumer group, whatever was tried in vain."""
        self._handle(GroupEvent.CONVERTED)
        self._failures = 0

    def policy_changed(self) -> None:
        """What the broker refused before is tried again."""
        self._handle(GroupEvent.POLICY_CHANGED)
        self._failures = 0
        self._grace_until = math.inf

    # -- how members are moved ---------------------------------------------------------------------------------

    def moves_all(self, now: float) -> bool:
        """Whether all members are told at once, so that the broker's group is empty in between."""
        return self.pace is Pace.ALL_AT_ONCE and now < self._all_told_until

    def move_all(self, now: float) -> None:
        """From now on tell every member at its next Heartbeat, if that has not begun yet."""
        if self.pace is Pace.ONE_BY_ONE:
            self._all_told_until = now + ALL_AT_ONCE_S
        self._handle(GroupEvent.HAS_TO_BE_EMPTY)

    def back_off(self, now: float, first_s: float) -> float:
        """The broker did not convert the group: for how long (seconds) it is to be relayed.

        Until the policy changes, if nothing is seen that stands in the way. If its members were told all at once, not
        all of them have left it in time: one that died is out of it when its session ends, and one that does not come
        through here never is. So it is tried again, after ``first_s`` and then twice as long each time, so that the
        others are disturbed less and less often.
        """
        told_all = self.pace is Pace.ALL_AT_ONCE
        self._handle(GroupEvent.MEMBERS_REMAIN)
        if self.relays_joins(now):  # another of its clients has found out before
            return (
                math.inf if self.routing is Routing.RELAYED_UNTIL_POLICY_CHANGE else self._relayed_until - now
            )
        if not told_all:
            return math.inf
        self._failures += 1
        return first_s * float(2 ** min(self._failures - 1, _DOUBLINGS))

    # -- partitions to be given up -----------------------------------------------------------------------------

    def awaits_revocation(self, now: float, grace_s: float) -> bool:
        """A cooperative member has partitions to give up: whether the conversion waits for it, ``grace_s`` at most."""
        self._grace_until = min(self._grace_until, now + grace_s)
        return now < self._grace_until

    def nothing_to_revoke(self) -> None:
        """No member has partitions to give up."""
        self._grace_until = math.inf
