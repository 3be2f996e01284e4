"""For how long a JoinGroup waits for its member's assignment, and a SyncGroup for the other members of a new group.

There are three reasons to wait. In the initial rebalance of a group the JoinGroups of all its members wait, so that
each client gets its final share at once (:mod:`translation.members.initial_rebalance`). Later a client that owns
nothing waits until the broker has assigned something to its member, and then a short time more for the rest of its
share: others give up their partitions one by one, each at its own Heartbeat, and a client that had been answered with
the first of them would rebalance again for the next.
"""

import math

from protocol_codecs import ErrorCode
from translation import error_mapping
from translation.actions import Connection, Request
from translation.engine.context import Context
from translation.engine.join_outcomes import Failed
from translation.engine.join_wait import awaits_others, wait_in_join
from translation.engine.member_lookup import has_settled as settled_at_broker
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_state import MemberState
from translation.members.procedure import Procedure
from translation.partitions import NONE, Partitions, from_topics, visible_to_client
from translation.upstream.heartbeat_outcome import HeartbeatOutcomes
from translation.upstream.metadata_lookup import lookup_topics

_POLLS_APART = 2
"""In the initial rebalance the heartbeats are so many times ``join_poll_s`` apart: nobody can read before its end."""


class AssignmentWait:
    """Waits in JoinGroups for assignments."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._connections = context.connections
        self._lookup = context.lookup
        self._topic_names = context.topic_names
        self._heartbeat_outcomes = HeartbeatOutcomes(context)

    def await_assignment(
        self, member: Member, request: Request, owned_partitions: Partitions, deadline: float
    ) -> Procedure[bool]:
        """Wait with the answer to a client that owns nothing until it has partitions, or until ``deadline``.

        Since Kafka 4.3 assignments are computed in batches, and other members may have to revoke partitions first. No
        heartbeat response tells "nothing yet" from "nothing for you"; but while none of its topics exists nothing will
        come, so the broker is asked for them when the wait gets long. Returns False if the membership was lost
        meanwhile.

        In the initial rebalance of its group it waits for the end of that in any case, and then no longer than until
        the group has settled. A client that joins others waits for the rest of its share too.
        """
        if owned_partitions or not member.client.subscription:
            return True
        settings = self._environment.settings
        is_initial = _joins_initially(self._environment, member)
        has_settled = has_waited = False
        asks_at = self._environment.now + settings.topics_asked_after_s
        while self._environment.now < deadline and (
            (
                awaits_others(self._environment, member)
                and not (yield from _others_have_theirs(self._environment, member, request.connection))
            )
            or self._has_to_wait(member, is_initial=is_initial, has_settled=has_settled)
        ):
            yield from wait_in_join(
                member, request, min(deadline, _next_heartbeat_at(self._environment, member))
            )
            if not member.joined:
                _fail_if_served_elsewhere(self._environment)
                return False
            if awaits_others(self._environment, member) and _is_too_early(self._environment, member):
                continue
            # Before its heartbeat, which brings what is left for it.
            has_settled = is_initial and _has_settled(self._environment, member)
            # What was to be its client's for a moment and goes to others now, it gives up: they wait for that.
            gives_up = awaits_others(self._environment, member) and self._connections.is_still_connected(
                request
            )
            if not (yield from self._has_heartbeated(member, client_is_here=gives_up)):
                return False
            has_waited = not (is_initial or awaits_others(self._environment, member))
            if member.group.initial_rebalance.is_under_way(self._environment.now):
                asks_at = self._environment.now + settings.topics_asked_after_s
            elif self._environment.now >= asks_at:
                asks_at = math.inf
                existing, _ = yield from lookup_topics(
                    self._environment, self._topic_names, member.broker.subscription
                )
                if not existing:  # its heartbeats will tell the client when there is one
                    return member.joined
        if has_waited and self._environment.now < deadline:
            return (yield from self._await_rest(member, request, deadline))
        return True

    def _await_rest(self, member: Member, request: Request, deadline: float) -> Procedure[bool]:
        """Wait until the client's member has all that the broker means it to have, ``rest_wait_s`` at most.

        As long is the usual interval of Heartbeats, in which all others hear that they have to give something up.
        Returns False if the membership was lost meanwhile.
        """
        settings = self._environment.settings
        until = min(deadline, self._environment.now + settings.rest_wait_s)
        _, described = yield from self._lookup.member(
            member.group.group_id, member.member_id, request.connection
        )
        target = NONE if described is None else from_topics(described.target_assignment.topic_partitions)
        while self._environment.now < until and _lacks_any(member, target):
            yield from wait_in_join(member, request, min(until, self._environment.now + settings.join_poll_s))
            if not (yield from self._has_heartbeated(member, client_is_here=False)):
                return False
        if not member.joined:
            _fail_if_served_elsewhere(self._environment)
        return member.joined

    def _has_heartbeated(self, member: Member, *, client_is_here: bool) -> Procedure[bool]:
        """Heartbeat for a client that waits; False if its membership is lost."""
        if not member.joined:
            _fail_if_served_elsewhere(self._environment)
            return False
        code = yield from self._heartbeat_outcomes.heartbeat_upstream(member, client_is_here=client_is_here)
        if code in error_mapping.MEMBERSHIP_LOST:
            _fail_if_served_elsewhere(self._environment)
            return False
        if code != ErrorCode.NONE:
            raise Failed(error_mapping.for_join(code), f"a heartbeat was answered {ErrorCode(code).name}")
        return True

    def _has_to_wait(self, member: Member, *, is_initial: bool, has_settled: bool) -> bool:
        """Whether there is nothing to tell the client yet; ``has_settled`` if its group is complete without a share for
        it.

        A member that came first has been assigned what others are to have. It gives that up with its client's
        SyncGroup, so its client is answered as soon as the initial rebalance has ended; the others wait for what it
        gives up.
        """
        if is_initial and member.group.initial_rebalance.is_under_way(self._environment.now):
            return True
        assigned = visible_to_client(
            member.partitions.broker_assignment, self._topic_names, member.client.subscription
        )
        is_complete = assigned and not (is_initial and others_give_up(self._environment, member))
        keeps_from_others = is_initial and member.partitions.pending_revocation
        return not (is_complete or keeps_from_others or has_settled)


def _lacks_any(member: Member, target: Partitions) -> bool:
    """Whether partitions of the target are still to come. What is to be given up again goes with the SyncGroup, for
    which others wait."""
    partitions = member.partitions
    return member.joined and not (partitions.pending_revocation or target <= partitions.broker_assignment)


def _others_have_theirs(environment: Environment, member: Member, connection: Connection) -> Procedure[bool]:
    """Whether nobody in the group is to get or to give up anything, as the broker has it.

    It is not asked while a member here has no connection: that member is at no epoch of the group, or has to be ended.
    Nor for each member that waits: a description has all members of the group.
    """
    group, settings = member.group, environment.settings
    if _has_unheard(group):
        return False
    if environment.now >= group.settled_asked_at + settings.join_poll_s:
        group.settled_asked_at, group.settled = environment.now, False
        settled = yield from settled_at_broker(group.group_id, connection)
        if settled is None:
            # Until the broker has computed the assignment: it may have begun an interval with the end of another one.
            settled = environment.now - group.ended_at >= 2 * settings.assignment_interval_s
        group.settled = settled
    return group.settled


def _has_unheard(group: Group) -> bool:
    return len(group.members) > group.connected


def _is_too_early(environment: Environment, member: Member) -> bool:
    """Whether a heartbeat would only have the broker assign what others have still to leave.

    It assigns at most once in each assignment interval, so the whole would come an interval later.
    """
    return _has_unheard(member.group) and environment.now < member.broker.sent_at + member.broker.keep_alive_s


def _joins_initially(environment: Environment, member: Member) -> bool:
    """Whether the client joins in the initial rebalance of its group, and has got nothing in this membership."""
    return (
        member.state is MemberState.ABSENT
        and not member.partitions.possibly_owned
        and member.group.initial_rebalance.is_under_way(environment.now)
    )


def others_give_up(environment: Environment, member: Member) -> bool:
    """Whether the initial rebalance has just ended, and another member has still to give up what it had in it.

    Such a member reaches the epoch of the others only when it has given that up.
    """
    return member.group.initial_rebalance.is_settling(environment.now) and not _has_lowest_epoch(member)


def _has_lowest_epoch(member: Member) -> bool:
    others = member.group.members.values()
    return all(other.member_epoch >= member.member_epoch for other in others if other.joined)


def _has_settled(environment: Environment, member: Member) -> bool:
    """Whether the initial rebalance is over, the broker has assigned to everybody in the group, and nobody has anything
    to give up.

    Of several processes none knows all members.
    """
    initial = member.group.initial_rebalance
    return (
        environment.settings.sole_process
        and not initial.is_under_way(environment.now)
        and environment.now >= initial.last_joined_at + environment.settings.assignment_interval_s
        and _has_lowest_epoch(member)
    )


def _next_heartbeat_at(environment: Environment, member: Member) -> float:
    """When the member is heartbeated next while its client waits.

    In the initial rebalance that is not before the broker has assigned to those who have joined.
    """
    now, settings, initial = environment.now, environment.settings, member.group.initial_rebalance
    if not initial.is_under_way(now):
        return now + settings.join_poll_s
    assigned_at = initial.last_joined_at + settings.assignment_interval_s
    return min(initial.ends_at(now), max(now + _POLLS_APART * settings.join_poll_s, assigned_at))


def _fail_if_served_elsewhere(environment: Environment) -> None:
    """Raise if a new membership here could end one that the client has begun through another process meanwhile."""
    if not environment.settings.sole_process:
        raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "its membership was lost while it waited")
