"""How long the first JoinGroups of a group without members wait for others (``initial_rebalance_delay_ms``).

A classic coordinator answers the JoinGroups of such a group together, ``group.initial.rebalance.delay.ms`` after the
first; if further members have joined by then, it waits once more for as long, and so on up to the rebalance timeout
(``GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule``). In the new protocol the first member gets all
partitions at once, and has to give most of them up again when the others come. So here each client becomes a member at
the broker as soon as it comes, and only its JoinGroup response waits for the end of the initial rebalance
(:mod:`translation.apis.assignment_wait`).

The members that came first give up what others are to have when their clients send SyncGroup, after the initial
rebalance. Until then the others have nothing to be told, also those that another replica serves. So replicas need not
agree on when it ends. With a member log a replica knows that the members which it finds in a group have got nothing
yet, so its own clients wait too.
"""

import math

_AHEAD_S = 0.5
"""So much earlier than at a broker it ends, or half of a shorter delay. What follows takes longer here: each member's
last heartbeat, and what the members that came first give up."""

_SETTLES_S = 1.0
"""For so long after its end a client waits in JoinGroup or SyncGroup for what other members give up."""


class InitialRebalance:
    """The initial rebalance of one group in this process. Times are absolute seconds of the caller's clock."""

    __slots__ = ("_delay_s", "_ends_at", "_latest_end", "_more_joined", "_new_at", "last_joined_at")

    def __init__(self) -> None:
        self._new_at = -math.inf
        """When the broker last described the group so that an initial rebalance may begin."""
        self._delay_s = 0.0
        self._ends_at = -math.inf
        self._latest_end = -math.inf
        self._more_joined = False
        """Whether members have joined since the end was set, for which the group waits once more."""
        self.last_joined_at = -math.inf
        """When the broker accepted the last first heartbeat of this process."""

    def found_new(self, now: float) -> None:
        """The broker has described the group without members of any protocol, but for those in their initial rebalance
        at another replica.
        """
        self._new_at = now

    def member_joined(self, now: float, *, came_at: float, delay_s: float, longest_s: float) -> None:
        """The broker has accepted a first heartbeat, whose JoinGroup came at ``came_at``.

        If the group was found new since then, it begins the initial rebalance: for ``delay_s`` from when it came, and
        until shortly before ``longest_s`` at most, however many follow. ``delay_s`` 0: it does not.

        ``longest_s`` is how long the JoinGroup may wait altogether. Those that came with it may wait no longer, and
        have to wait for what it gives up after the end.
        """
        if self.is_under_way(now):
            self._more_joined = True
        elif self._new_at >= came_at and delay_s > 0:
            self._delay_s = delay_s
            self._latest_end = came_at + longest_s - min(_SETTLES_S, longest_s / 4)
            self._ends_at = min(came_at + delay_s - min(_AHEAD_S, delay_s / 2), self._latest_end)
            self._more_joined = False
        self.last_joined_at = now

    def is_under_way(self, now: float) -> bool:
        """Whether JoinGroups of the group have to wait."""
        return now < self.ends_at(now)

    def is_settling(self, now: float) -> bool:
        """Whether it has just ended, so that members may have to give up what others are to have."""
        return self.ends_at(now) <= now < self._ends_at + _SETTLES_S

    def ends_at(self, now: float) -> float:
        """When it ends, unless further members join; a time that has passed if none is under way."""
        if self._ends_at <= now and self._more_joined:
            self._more_joined = False
            self._ends_at = min(self._ends_at + self._delay_s, self._latest_end)
        return self._ends_at
