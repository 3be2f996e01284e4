"""The groups that this process hosts (``mode: host``), and who has been told to leave which side. An experiment.

The room itself is the shell's (:mod:`coordinator.hosted_groups`); the translation knows it by :class:`HostedRoom`.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from protocol_codecs import ErrorCode
from translation.actions import Connection, ConnectionId, Request
from translation.fleet.hosts import HostLog, HostSeat
from translation.policy.policy import Mode, Rule

HostedAnswers: TypeAlias = Sequence[tuple[Request, Any]]
"""Requests that are answered now, each with its response."""

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


def with_hosted(rule_for: Callable[[str], Rule], hosts: Callable[[str], bool]) -> Callable[[str], Rule]:
    """Return what sessions go by: as long as a group has hosted members, it is hosted, whatever the policy says now.

    Else a session would relay what may join at the broker on the way back, before the translation has seen it.
    """
    return lambda group_id: Rule(mode=Mode.HOST, group=group_id) if hosts(group_id) else rule_for(group_id)


class HostedRoom(Protocol):
    """All hosted groups of this process. Times are in seconds of the translation's clock."""

    count_failure: Callable[[], None]
    """Called when a bug has ended a group, and only that group."""

    def follow(self, may_act: Callable[[str], bool], closed_from: Callable[[str], float]) -> None:
        """Ask these from now on: whether this process may act as a group's host, and since when clients of another one
        may own partitions until their sessions end.
        """
        ...

    def lose(self, group_id: str) -> HostedAnswers:
        """Forget a group that another process hosts now."""
        ...

    def hosted(self) -> Sequence[str]:
        """The groups that have members."""
        ...

    def is_member(self, group_id: str, member_id: str) -> bool:
        """Whether this is a member of a hosted group."""
        ...

    def has_members(self, group_id: str) -> bool:
        """Whether a group is hosted here now."""
        ...

    def why_refused(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """The error of a call with this generation; NONE if it is the member's present one."""
        ...

    def handle(self, now: float, connection: Connection, request: Request) -> HostedAnswers:
        """Serve a JoinGroup, SyncGroup, Heartbeat or LeaveGroup; its own answer may come later."""
        ...

    def remove(self, now: float, group_id: str, member_id: str) -> HostedAnswers:
        """Remove a member whose client has shown that it owns nothing any more."""
        ...

    def renew(self, now: float, group_id: str, member_id: str) -> None:
        """Note that a member's client is alive."""
        ...

    def client_gone(self, now: float, connection_id: ConnectionId) -> HostedAnswers:
        """Forget the JoinGroups that wait on a connection that has ended."""
        ...

    def next_deadline(self) -> float:
        """When :meth:`advance` has something to do; infinity for never."""
        ...

    def advance(self, now: float) -> HostedAnswers:
        """Do what is due."""
        ...


class _Return(msgspec.Struct):
    """Workers that have left their hosted group for the broker, and until when (seconds) they count."""

    workers: int
    until: float


class Hosting:
    """The room, and the members that were told UNKNOWN_MEMBER_ID so that they move between it and the broker.

    Such a member keeps its membership until its client joins without a member id on the same connection: by then it
    has given up its partitions. A client that never comes back loses it when its session ends.
    """

    def __init__(self, room: HostedRoom | None, hosts: HostLog | None) -> None:
        self.room = room
        self.hosts = hosts
        """Which replica hosts a group; None if there is only this process."""
        self.look_at = math.inf
        """When the groups are looked at of which this replica is the host."""
        self.used_at: dict[str, float] = {}
        """When somebody last asked for each of them, which then may have no members for a while."""
        self._told: dict[ConnectionId, OrderedDict[str, str]] = {}
        self._left: OrderedDict[str, None] = OrderedDict()
        self._returns: OrderedDict[str, _Return] = OrderedDict()

    def is_hosted(self, group_id: str, now: float) -> bool:
        """Whether a group is hosted now, here or elsewhere, or whether that is not known.

        Workers of Connect that have left for the broker count until their leader knows of all of them.
        """
        if self.room is None:
            return False
        if self.room.has_members(group_id) or self.returning_workers(group_id, now):
            return True
        return self.hosts is not None and self.hosts.seat(group_id, now) is not HostSeat.NOBODY

    def concerns(self, group_id: str, mode: Mode, now: float) -> bool:
        """Whether calls of a group are looked at because it is hosted, or is to be by this mode."""
        return self.room is not None and (mode is Mode.HOST or self.is_hosted(group_id, now))

    def next_deadline(self) -> float:
        """When the room, or what is hosted by the log, is to be looked at; infinity for never."""
        if self.room is None:
            return math.inf
        return min(self.room.next_deadline(), self.look_at)

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
