"""Suspends session and rebalance timeouts while a group's coordinator or the member log is away; afterwards each
client has one whole session timeout.

While the coordinator of a group is out of reach, or the member log is away, clients may live and nobody hears them. So
a deadline that passes meanwhile ends nothing. A coordinator that loads a group gives each member a whole session
timeout (Kafka: ``GroupMetadataManager.onLoaded``); so does this process when the coordinator answers again and the log,
if there is one, is ready. Whoever is silent then is ended as ever.

* A group is out of reach from the moment at which the last connection to the coordinator breaks on which a member of it
  is reached. The first answer of the coordinator to any call of the group ends that, and so does a ``served`` of
  another replica: the coordinator has admitted its client.
* Of several processes without a member log, or with one by which nobody is expired, none ends a silent member: there
  nothing is suspended.
* After :attr:`~translation.settings.TranslatorSettings.out_of_reach_limit_s` a suspended member is forgotten, and what
  is left is the broker's own session timeout.
"""

import math
from collections.abc import Iterable
from itertools import chain

from protocol_codecs import ErrorCode
from translation.actions import ConnectionId
from translation.engine.authorized_groups import AuthorizedGroups
from translation.engine.connections import ClientConnections
from translation.engine.member_log_view import MemberLogView
from translation.engine.registry import Registry
from translation.error_mapping import NO_COORDINATOR
from translation.member_log.records import partition_of
from translation.members import session_timeout
from translation.members.environment import Environment
from translation.members.member import Group, Member

END_AGAIN_S = 1.0
"""After so long epoch -1 is sent again for a dead id, or at all if the replica that was to do that has not."""

_DEAD_LIMIT = 1_000
"""Dead member ids of one group that are remembered as not ended at the broker yet."""


class Reach:
    """Knows which coordinators are out of reach, and on which connection the end of a member may be sent."""

    def __init__(
        self,
        environment: Environment,
        registry: Registry,
        member_log: MemberLogView,
        connections: ClientConnections,
        authorized_groups: AuthorizedGroups,
    ) -> None:
        self._environment = environment
        self._registry = registry
        self._member_log = member_log
        self._connections = connections
        self._authorized_groups = authorized_groups

    def suspend(self, member: Member) -> bool:
        """Whether a member whose timeout has passed can't be ended now; then its deadlines are suspended."""
        log = self._member_log.log
        if not self._environment.settings.sole_process and (log is None or not log.settings.expires):
            return False
        group = member.group
        if self._member_log.may_end(member):
            if self.connection_to_end(member) is not None or (log is not None and not group.out_of_reach):
                return False
            self.lose_sight(group)
        member.deadlines.suspended_until = (
            self._environment.now + self._environment.settings.out_of_reach_limit_s
        )
        self._environment.book(member)
        return True

    def connection_to_end(self, member: Member) -> ConnectionId | None:
        """A connection on which the end of a member may be sent: its own, or one of its group that the broker has
        authorized; None if there is none."""
        return member.connection_id if member.connection_id is not None else self.connection_of(member.group)

    def connection_of(self, group: Group, besides: ConnectionId | None = None) -> ConnectionId | None:
        """A connection that is authorized for a group, that of the coordinator's last answer first; None: there is none
        ``besides`` this one."""
        members = (one.connection_id for one in group.members.values() if one.connection_id is not None)
        for connection_id in chain((group.answered_on,), members):
            if (
                connection_id not in (None, besides)
                and self._connections.connection(connection_id) is not None
                and self._authorized_groups.includes(connection_id, group.group_id)
            ):
                return connection_id
        return None

    def coordinator_answered(self, group_id: str, connection_id: ConnectionId, code: int) -> None:
        """Learn from an answer to the question who may act in a group: its coordinator is in reach, unless it has moved
        away or has not loaded the group. While it loads it answers a classic Heartbeat with NONE.
        """
        group = self._registry.groups.get(group_id)
        if group is not None and code != ErrorCode.NONE and code not in NO_COORDINATOR:
            group.answered_on = connection_id
            self.in_reach(group)
            if group.dead:
                self._end_dead_now(group)

    def lose_sight(self, group: Group) -> None:
        """The coordinator of a group is out of reach."""
        group.out_of_reach = True
        self._member_log.await_group(group.group_id)

    def in_reach(self, group: Group) -> None:
        """The coordinator of a group has answered, here or another replica: sessions begin again."""
        if not group.out_of_reach:
            return
        group.out_of_reach = False
        group.in_reach_at = self._environment.now
        self._member_log.stop_awaiting(group.group_id)
        self._restart(group.members.values())
        if group.dead:
            self._end_dead_now(group)

    def reached(self, member: Member) -> None:
        """The broker has answered a member's heartbeat: its group is in reach.

        Epoch -1 can be sent on the same connection for dead ids that had none.
        """
        group = member.group
        if group.out_of_reach:
            group.answered_on = member.queue.running_on
            self.in_reach(group)
        elif group.dead and max(group.dead.values()) > self._environment.now + END_AGAIN_S:
            group.answered_on = member.queue.running_on
            again = self._environment.now + END_AGAIN_S
            group.dead = {member_id: min(when, again) for member_id, when in group.dead.items()}
            self._environment.timers.book(group, min(group.dead.values()))

    def _end_dead_now(self, group: Group) -> None:
        """Somebody is here on whose connection dead ids can be ended."""
        group.dead = dict.fromkeys(group.dead, self._environment.now)
        self._environment.timers.book(group, self._environment.now)

    def log_is_ready(self, partitions: frozenset[int]) -> None:
        """These partitions of the log are ready again: the sessions of clients that it kept from calling begin
        again."""
        log = self._member_log.log
        if log is None or not partitions:
            return
        for group in list(self._registry.groups.values()):
            if group.members and not group.out_of_reach:
                key = next(iter(group.members.values())).key
                if partition_of(key, log.settings.partitions) in partitions and self._restart(
                    group.members.values()
                ):
                    group.in_reach_at = self._environment.now

    def expiry_began(self) -> None:
        """Silent members are expired from now on: each client's session begins again, since it may have been heard by a
        process that does not write the log."""
        for group in list(self._registry.groups.values()):
            for member in group.members.values():
                if member.joined and member.deadlines.session_deadline < math.inf:
                    session_timeout.restart(member, self._environment.now)
                    self._environment.book(member)

    def _restart(self, members: Iterable[Member]) -> bool:
        """Give each client that may not have been heard a whole session timeout from now on. Return whether any is."""
        is_any = False
        for member in members:
            deadlines = member.deadlines
            if not member.joined or not self._member_log.may_end(member):
                continue
            unheard = member.connection_id is None or member.may_have_moved
            if (unheard and deadlines.session_deadline < math.inf) or deadlines.suspended_until < math.inf:
                session_timeout.restart(member, self._environment.now)
                self._environment.book(member)
                is_any = True
        return is_any

    def remember_dead(self, group: Group, member_id: str, due: float) -> None:
        """Have epoch -1 sent for a dead member id at ``due``, unless the log says by then that it is ended."""
        if len(group.dead) < _DEAD_LIMIT:
            group.dead[member_id] = due
            self._environment.timers.book(group, due)
