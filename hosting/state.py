"""The groups that this process hosts, the replica that hosts each, and the clients that were told to leave one side."""

import math
from collections import OrderedDict

import msgspec

from hosting.host_log import HostLog, HostSeat
from hosting.process_room import ProcessRoom
from translation.actions import ConnectionId
from translation.engine.context import Context

_MOST_LEFT = 1_024
"""Groups that are remembered as left to the broker; the one that was used least lately is forgotten."""
_MOST_TOLD = 16
"""Groups that are remembered for a connection; a client has few on one."""
_LONGEST_TOLD = 1_024
"""Characters of a member id that is remembered. Brokers make them of the client id; one that is longer ends with its
session."""

_MOST_RETURNING = 1_024
"""Groups of workers on their way back that are remembered; the one that began first is forgotten."""
_LONGEST_RETURN_S = 60.0
"""For how long at most a group of workers is taken to be on its way back."""

_LONG_AGO_S = 1e9
"""Longer than any session timeout."""


class _Return(msgspec.Struct):
    """Workers that have left their hosted group for the broker, and until when (seconds) they count."""

    workers: int
    until: float


class Hosting:
    """The room, and the members that were told UNKNOWN_MEMBER_ID so that they move between it and the broker.

    Such a member keeps its membership until its client joins without a member id on the same connection: by then it
    has given up its partitions. A client that never comes back loses it when its session ends.
    """

    def __init__(self, context: Context, room: ProcessRoom) -> None:
        self.context = context
        self.room = room
        log = context.member_log.log
        self.hosts = None if log is None else HostLog(log.groups)
        """Which replica hosts a group; None if there is only this process."""
        self.look_at = math.inf
        """When the groups are looked at of which this replica is the host."""
        self.used_at: dict[str, float] = {}
        """When somebody last asked for each of them, which then may have no members for a while."""
        self._told: dict[ConnectionId, OrderedDict[str, str]] = {}
        self._left: OrderedDict[str, None] = OrderedDict()
        self._returns: OrderedDict[str, _Return] = OrderedDict()
        if self.hosts is not None:
            _follow(room, self.hosts, context)

    def is_hosted(self, group_id: str, now: float) -> bool:
        """Whether a group is hosted now, here or elsewhere, or whether that is not known.

        Workers of Connect that have left for the broker count until their leader knows of all of them.
        """
        if self.room.has_members(group_id) or self.returning_workers(group_id, now):
            return True
        return self.hosts is not None and self.hosts.seat(group_id, now) is not HostSeat.NOBODY

    def note_told(self, connection_id: ConnectionId, group_id: str, member_id: str) -> None:
        """Note that a member's client has been told, on this connection, to join without a member id."""
        if len(member_id) > _LONGEST_TOLD:
            return
        told = self._told.setdefault(connection_id, OrderedDict())
        told[group_id] = member_id
        told.move_to_end(group_id)
        if len(told) > _MOST_TOLD:
            told.popitem(last=False)

    def take_told(self, connection_id: ConnectionId, group_id: str) -> str | None:
        """The member that was told on this connection, once; None if there is none."""
        told = self._told.get(connection_id)
        return None if told is None else told.pop(group_id, None)

    def note_return(self, group_id: str, until: float, now: float) -> None:
        """Note that a worker of Connect has left its hosted group, and joins at the broker with what it runs."""
        until = min(until, now + _LONGEST_RETURN_S)
        known = self._returns.setdefault(group_id, _Return(0, until))
        known.workers += 1
        known.until = max(known.until, until)
        if len(self._returns) > _MOST_RETURNING:
            self._returns.popitem(last=False)

    def returning_workers(self, group_id: str, now: float) -> int:
        """How many workers have left a group that was hosted, as long as their leader may not know all of them."""
        known = self._returns.get(group_id)
        if known is not None and known.until <= now:
            del self._returns[group_id]
            return 0
        return 0 if known is None else known.workers

    def end_return(self, group_id: str) -> None:
        """Note that a leader at the broker knows all workers, or that the group is hosted again."""
        self._returns.pop(group_id, None)

    def leave_to_broker(self, group_id: str) -> None:
        """Note that a group can't be hosted, whatever the policy says: it passes through until this process ends."""
        self._left[group_id] = None
        if len(self._left) > _MOST_LEFT:
            self._left.popitem(last=False)

    def is_left_to_broker(self, group_id: str) -> bool:
        """Whether a group passes through because it can't be hosted."""
        if group_id not in self._left:
            return False
        self._left.move_to_end(group_id)
        return True

    def forget(self, connection_id: ConnectionId) -> None:
        """Forget a connection that has ended."""
        self._told.pop(connection_id, None)


def _follow(room: ProcessRoom, hosts: HostLog, context: Context) -> None:
    """Have the room act as the member log says."""
    room.follow(
        may_act=lambda group_id: hosts.seat(group_id, context.now) is HostSeat.HERE,
        closed_from=lambda group_id: hosts.began(group_id) if hosts.took_over(group_id) else -_LONG_AGO_S,
    )
