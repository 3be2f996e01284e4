"""The calls of hosted groups where several replicas share a member log: which of them hosts a group. An experiment.

One replica is the host of a group (:mod:`hosting.host_log`). The others answer its calls with NOT_COORDINATOR:
clients close the connection then and look for the coordinator again, and behind a load balancer that does not bind
clients to a replica they come to the host sooner or later. Nothing is answered by what was read too long ago, also not
that nobody hosts a group: whoever joins at the broker then might have what a hosted member has.

Only a call whose sender may act in the group is a use of it, or makes this replica follow a host that has gone.
"""

import math
from collections.abc import Mapping
from typing import Any

from hosting.host_log import HostLog, HostSeat
from hosting.process_room import Answers
from hosting.state import Hosting
from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from translation.actions import Request
from translation.admission.guarded_joins import HEARTBEAT_RESPONSES
from translation.apis import commit_messages
from translation.engine.join_outcomes import refused

LOOK_EVERY_S = 5.0
"""How often the groups are looked at of which this replica is the host."""

UNUSED_S = 30.0
"""A group without members is given up when nobody has asked for it for so long."""

MOST_GROUPS = 1_000
"""Groups of which this replica is the host, or was lately, at a time: each has records in the log."""

_JOINS = 0

_RESPONSES: Mapping[int, Any] = {
    ApiKey.HEARTBEAT: HeartbeatResponse,
    ApiKey.SYNC_GROUP: SyncGroupResponse,
    ApiKey.LEAVE_GROUP: LeaveGroupResponse,
    **HEARTBEAT_RESPONSES,
}


def is_elsewhere(hosting: Hosting, group_id: str) -> bool:
    """Whether another replica is the host of a group, as far as is read."""
    hosts = hosting.hosts
    return hosts is not None and hosts.seat(group_id, hosting.context.now) is HostSeat.ELSEWHERE


def refused_by_log(hosting: Hosting, request: Request, *, authorized: bool) -> bool:
    """Refuse a call that this replica may not serve, nor let through; return whether it was one.

    ``authorized``: the broker has said that its sender may act in the group.
    """
    hosts = hosting.hosts
    if hosts is None:
        return False
    group_id: str = request.message.group_id
    match hosts.seat(group_id, hosting.context.now):
        case HostSeat.ELSEWHERE:
            if authorized:
                _claim(hosting, hosts, group_id)  # its host may have gone
            code = ErrorCode.NOT_COORDINATOR
        case HostSeat.UNKNOWN:
            if not (_joins(request) or hosting.room.has_members(group_id) or hosts.is_named(group_id)):
                return False
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        case HostSeat.BEGINS:
            if authorized:
                _note_use(hosting, group_id)
            if not hosting.room.has_members(group_id):
                return False
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # the log was lost and read anew
        case HostSeat.HERE:
            if authorized:
                _note_use(hosting, group_id)
            return False
        case HostSeat.NOBODY:
            return False
    hosting.context.connections.answer(request, refusal_of(request, code))
    return True


def why_not_here(hosting: Hosting, group_id: str) -> str | None:
    """Why this replica lets nobody into a group that is to be hosted, as far as the log says; None if it may."""
    hosts = hosting.hosts
    if hosts is None:
        return None
    seat = hosts.seat(group_id, hosting.context.now)
    if seat is HostSeat.HERE:
        return None
    if seat is HostSeat.NOBODY:
        _claim(hosting, hosts, group_id)
    return f"by the log its host is: {seat}"


def why_not_back(hosting: Hosting, request: Request) -> str | None:
    """Why a JoinGroup may not reach the broker yet, although nobody is a member here; None if it may."""
    hosts = hosting.hosts
    if hosts is None:
        return None
    group_id: str = request.message.group_id
    seat = hosts.seat(group_id, hosting.context.now)
    if seat is HostSeat.NOBODY:
        return None
    if seat is HostSeat.HERE and _former_members_are_gone(hosting, group_id, request):
        hosts.end(group_id, hosting.context.now)
    return f"by the log its host is: {seat}"


def _former_members_are_gone(hosting: Hosting, group_id: str, request: Request) -> bool:
    """Whether clients of a host that this replica has followed have no partitions any more, by this one's session."""
    hosts = hosting.hosts
    if hosts is None or not hosts.took_over(group_id):
        return True
    session_ms: int = request.message.session_timeout_ms
    return hosting.context.now >= hosts.began(group_id) + session_ms / 1000


def is_named(hosting: Hosting, group_id: str) -> bool:
    """Whether the log names a host of the group."""
    hosts = hosting.hosts
    return hosts is not None and hosts.is_named(group_id)


def keep_hosts(hosting: Hosting) -> Answers:
    """Look at the groups of which this replica is, or was, the host; to be called at each deadline."""
    hosts = hosting.hosts
    if hosts is None or hosting.context.now < hosting.look_at:
        return ()
    lost = [
        one for one in hosting.room.hosted() if hosts.seat(one, hosting.context.now) is HostSeat.ELSEWHERE
    ]
    answers = [answer for group_id in lost for answer in hosting.room.lose(group_id)]
    hosts.renew(hosting.context.now)
    for group_id, used_at in list(hosting.used_at.items()):
        seat = hosts.seat(group_id, hosting.context.now)
        if seat not in (HostSeat.HERE, HostSeat.BEGINS, HostSeat.UNKNOWN):
            if hosting.context.now - used_at >= UNUSED_S:
                del hosting.used_at[group_id]
        elif hosting.room.has_members(group_id):
            hosting.used_at[group_id] = hosting.context.now
        elif hosts.is_ending(group_id) or (
            seat is HostSeat.HERE and hosting.context.now - used_at >= UNUSED_S
        ):
            hosts.end(group_id, hosting.context.now)
    is_needed = hosting.used_at or hosting.room.hosted()
    hosting.look_at = hosting.context.now + LOOK_EVERY_S if is_needed else math.inf
    return answers


def _claim(hosting: Hosting, hosts: HostLog, group_id: str) -> None:
    used_at = hosting.used_at
    if group_id in used_at or len(used_at) < MOST_GROUPS:
        hosts.claim(group_id, hosting.context.now)
        _note_use(hosting, group_id)


def _note_use(hosting: Hosting, group_id: str) -> None:
    hosting.used_at[group_id] = hosting.context.now
    hosting.look_at = min(hosting.look_at, hosting.context.now + LOOK_EVERY_S)


def _joins(request: Request) -> bool:
    """Whether a call may make somebody a member."""
    if request.api_key in HEARTBEAT_RESPONSES:
        return bool(request.message.member_epoch == _JOINS)
    return request.api_key == ApiKey.JOIN_GROUP


def refusal_of(request: Request, code: int) -> Any:
    """The response that refuses a call of a group with this code."""
    if request.api_key == ApiKey.JOIN_GROUP:
        return refused(request, code)
    response = _RESPONSES.get(request.api_key)
    return commit_messages.refused(request, code) if response is None else response(error_code=code)
