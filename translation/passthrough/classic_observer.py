"""Observes classic members whose calls pass through, by their JoinGroup, SyncGroup, Heartbeat and LeaveGroup calls.

Workers of Kafka Connect are classic members too. What they run, and who leads them, is in what they embed into these
calls.
"""

import msgspec

from protocol_codecs import ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from translation.actions import ConnectWorker, EventKind, MemberProtocol, Request
from translation.members import rebalance_timeout
from translation.members.member_state import MemberEvent, MemberState
from translation.passthrough import connect_messages
from translation.passthrough.observed_member import ObservedMember
from translation.passthrough.observed_members import MEMBERSHIP_ERRORS, ObservedMembers
from translation.passthrough.observed_partitions import (
    CONSUMER,
    NOTHING,
    Owned,
    in_assignment,
    in_join_group,
)


class ClassicObserver:
    """Applies the calls of classic members to ``members``. ``now`` is in seconds of the caller's clock."""

    def __init__(self, members: ObservedMembers) -> None:
        self._members = members

    def join_forwarded(self, now: float, member: ObservedMember, message: JoinGroupRequest) -> None:
        """A member joins again: it gives up at once what it no longer reports as owned."""
        member.wait_in_join_group(now)
        if member.state is MemberState.STABLE:
            self._members.change(member, MemberEvent.JOIN_FORWARDED, "it joins again")
        reported_owned = _reported(message)
        given_up = NOTHING if reported_owned is None else (member.owned or NOTHING) - reported_owned
        if given_up:
            member.owned = reported_owned
            self._members.emit(EventKind.REVOKED, member, partitions=given_up)

    def join_answered(self, now: float, request: Request, response: JoinGroupResponse) -> None:
        """The broker answered a JoinGroup: the client has a generation now, or an error."""
        message: JoinGroupRequest = request.message
        members = self._members
        if response.error_code != ErrorCode.NONE:
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                members.call_failed(request, response.error_code, "JoinGroup")
            return
        members.fence_predecessor(message.group_id, response.member_id, message.group_instance_id)
        protocol = _protocol_of(message.protocol_type)
        member = members.get_or_add(request, response.member_id, protocol)
        member.instance_id = message.group_instance_id
        member.session_timeout_ms = member.declared_session_timeout_ms = message.session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout.of_client_ms(message)
        member.is_consumer = message.protocol_type == CONSUMER
        members.touch(member, now)
        member.generation = response.generation_id
        member.owned = _reported(message)
        if protocol is MemberProtocol.CONNECT:
            member.worker = connect_messages.worker_in(message, member.worker)
        members.change(member, MemberEvent.JOIN_ANSWERED, "JoinGroup answered")
        members.emit(EventKind.JOINED, member, partitions=member.owned or NOTHING)

    def sync_answered(self, now: float, request: Request, response: SyncGroupResponse) -> None:
        """The broker answered a SyncGroup: the client has its assignment now, or an error."""
        message, members = request.message, self._members
        if response.error_code != ErrorCode.NONE:
            members.call_failed(request, response.error_code, "SyncGroup")
            return
        member = members.by_id.get((message.group_id, message.member_id))
        if member is None:  # its JoinGroup went another way
            member = self._first_seen(request, _protocol_of(message.protocol_type))
            member.is_consumer = message.protocol_type in {None, CONSUMER}
            member.owned = None if member.protocol is MemberProtocol.CONNECT else NOTHING
            members.emit(EventKind.JOINED, member, reason="first seen at its SyncGroup")
        member.connection_id = request.connection.id
        members.touch(member, now)
        assigned = self._assigned(member, response.assignment)
        added, to_revoke = (NOTHING, NOTHING) if assigned is None else member.assign(assigned)
        if assigned is None:
            member.owned = None
        if added:
            members.emit(EventKind.ASSIGNED, member, partitions=added)
        if to_revoke:
            members.emit(EventKind.REVOKE_REQUESTED, member, partitions=to_revoke)
        members.change(member, MemberEvent.SYNC_ANSWERED, _synced(member))

    def heartbeat_answered(self, now: float, request: Request, response: HeartbeatResponse) -> None:
        """The broker answered a Heartbeat: the member is alive, has to join again, or is none any more."""
        message, members, code = request.message, self._members, response.error_code
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            if code in MEMBERSHIP_ERRORS:
                members.call_failed(request, code, "Heartbeat")
            return
        member = members.by_id.get((message.group_id, message.member_id))
        if member is None:
            member = self._first_seen(request)
            member.machine.handle(MemberEvent.FIRST_SEEN)
            members.emit(EventKind.ADOPTED, member, reason="first seen at its Heartbeat")
        member.connection_id = request.connection.id
        members.touch(member, now)
        if code == ErrorCode.REBALANCE_IN_PROGRESS and member.state is MemberState.STABLE:
            members.change(member, MemberEvent.REBALANCE_ANNOUNCED, ErrorCode.REBALANCE_IN_PROGRESS.name)

    def leave_answered(self, message: LeaveGroupRequest, response: LeaveGroupResponse) -> None:
        """The broker answered a LeaveGroup: those that it removed, or did not know, are members no longer."""
        if response.error_code != ErrorCode.NONE:
            return
        members = self._members
        gone: list[tuple[str, str | None, int]] = []
        if message.member_id:
            gone.append((message.member_id, None, ErrorCode.NONE))
        gone += [(one.member_id, one.group_instance_id, one.error_code) for one in response.members]
        for member_id, instance_id, code in gone:
            member = members.by_id.get((message.group_id, member_id))
            member = member or members.with_instance_id(message.group_id, instance_id)
            if member is not None and code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
                members.end(member, EventKind.LEFT, "LeaveGroup")

    def _assigned(self, member: ObservedMember, assignment: bytes) -> Owned | None:
        """Return all that a SyncGroup's answer leaves or gives to a member; None if that is not known."""
        if member.protocol is not MemberProtocol.CONNECT:
            return in_assignment(assignment) if member.is_consumer else NOTHING
        assigned = connect_messages.assigned_in(assignment)
        if assigned is None:
            return None
        member.worker = msgspec.structs.replace(
            member.worker or ConnectWorker(url=""),
            leader=assigned.leader,
            leader_url=assigned.leader_url,
            delay_ms=assigned.delay_ms,
        )
        if assigned.failed:
            reason = f"SyncGroup: {connect_messages.CONFIG_MISMATCH}"
            self._members.emit(EventKind.CALL_REFUSED, member, reason=reason)
        if not assigned.incremental:
            return assigned.taken_up
        return None if member.owned is None else (member.owned - assigned.given_up) | assigned.taken_up

    def _first_seen(
        self, request: Request, protocol: MemberProtocol = MemberProtocol.CLASSIC
    ) -> ObservedMember:
        """Return a new member for the sender of a SyncGroup or a Heartbeat."""
        message = request.message
        member = self._members.get_or_add(request, message.member_id, protocol)
        member.instance_id = message.group_instance_id
        member.generation = message.generation_id
        return member


def _synced(member: ObservedMember) -> str:
    """Return the reason of a SyncGroup's effect: with it workers of Connect may have been told to join again later."""
    delay_ms = 0 if member.worker is None else member.worker.delay_ms
    return f"SyncGroup answered, to join again in {delay_ms} ms" if delay_ms else "SyncGroup answered"


def _protocol_of(protocol_type: str | None) -> MemberProtocol:
    return MemberProtocol.CONNECT if protocol_type == connect_messages.CONNECT else MemberProtocol.CLASSIC


def _reported(message: JoinGroupRequest) -> Owned | None:
    """Return what the sender of a JoinGroup goes on to own; None if that is not known."""
    if message.protocol_type == connect_messages.CONNECT:
        return connect_messages.allocated_in(message)
    return in_join_group(message)
