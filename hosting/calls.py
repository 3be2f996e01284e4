"""The calls of groups that this process hosts (``mode: host``), and the way in and back. An experiment.

Theory of operation. While a group is hosted, the broker has its offsets and no members of it. A group is on one side
or the other, never on both:

* **In.** A member that the broker has is told REBALANCE_IN_PROGRESS at its Heartbeat, and UNKNOWN_MEMBER_ID at the
  JoinGroup that follows. It joins without a member id then, on the same connection, and owns nothing any more: only now
  does its membership at the broker end. It is let in here when the broker describes the group as without members, so
  not before all others have come the same way, or have lost their membership there.
* **Back.** The same the other way round: nobody's JoinGroup reaches the broker before the last hosted member has come
  back with nothing.

* **Back, workers of Connect.** They go on with what they run. A leader to which the broker has not told all of them
  would give it to others as well, so its SyncGroup reaches the broker only if it assigns to as many as were here, or
  when a session timeout has passed. Else it is told REBALANCE_IN_PROGRESS, and joins again with what it runs.

Until then a JoinGroup is answered COORDINATOR_LOAD_IN_PROGRESS, with which clients try again. The membership that is
left behind guards the partitions of a client that was told and has not come back yet, as long as its session lasts.

A group of Connect's workers that stop for each rebalance (``connect.protocol=eager``) is left to the broker.

A call changes nothing here before the broker has said that its sender may act in the group: it is asked each time, as
in :mod:`translation.admission.authorization`. A commit with a member's present generation goes to the broker as that of
a simple consumer, without a member; the broker checks its sender itself.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hosting.broker_members import why_broker_has_it
from hosting.groups.connect.rules import CONNECT_PROTOCOL_TYPE, is_of_eager_worker
from hosting.process_room import Answers
from hosting.replicas import (
    is_elsewhere,
    is_named,
    refusal_of,
    refused_by_log,
    why_not_back,
    why_not_here,
)
from hosting.state import Hosting
from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation.actions import Authorized, Call, Connection, EventKind, Relayed, Request
from translation.admission.authorization import ALLOWED, NOBODY
from translation.admission.guarded_joins import HEARTBEAT_RESPONSES
from translation.apis import commit_messages
from translation.engine.context import replaced
from translation.engine.group_router import RouteAgain
from translation.engine.join_outcomes import refused
from translation.members import generation
from translation.members.procedure import Procedure, ProcedureQueue, Wait
from translation.policy.policy import Mode

_PAUSE_S = 0.5
"""How long a JoinGroup waits before the broker is asked a second time whether it has members of the group."""

_HEARTBEAT_VERSION, _LEAVE_VERSION = 3, 3
_JOINS = 0
_MS = 1000
_LAST_CALLS = frozenset({ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
_NO_GENERATION = -1

_Route = Callable[[Hosting, Request], bool]
"""Handles a call of a group that is hosted, or is to be; False if it goes the way of all others."""


def route_hosted(hosting: Hosting, request: Request, route_again: RouteAgain) -> bool:
    """Handle a call if its group is hosted, or is to be; return whether it was one.

    ``route_again`` is called for a JoinGroup that has waited until its group is not hosted any more, and for a call of
    a group that was hosted elsewhere, and is not when the broker has said that its sender may act in the group.
    """
    route = _ROUTES.get(request.api_key)
    if route is None and request.api_key != ApiKey.JOIN_GROUP:
        return False
    group_id: str = request.message.group_id
    if group_id and is_elsewhere(hosting, group_id):
        again = partial(route_again, request)
        _if_allowed(hosting, request, partial(refusal_of, request), again)
        return True
    if group_id and refused_by_log(hosting, request, authorized=False):
        return True
    if request.api_key == ApiKey.SYNC_GROUP and _route_sync_on_return(hosting, request):
        return True
    if not group_id or not (_is_to_be_hosted(hosting, group_id) or _is_hosted(hosting, group_id)):
        return False
    if not hosting.room.has_members(group_id) and _has_translated_members(hosting, group_id):
        return False  # they become classic members first
    if request.api_key == ApiKey.JOIN_GROUP:
        return _route_join(hosting, request, route_again)
    return route is not None and route(hosting, request)


def apply_answers(hosting: Hosting, answers: Answers) -> None:
    """Answer what the room has answered, and show it to observers: as that of classic members."""
    for request, response in answers:
        if hosting.context.connections.is_waiting(request):
            hosting.context.actions.append(Relayed(request, response))
        hosting.context.connections.answer(request, response)


def _is_to_be_hosted(hosting: Hosting, group_id: str) -> bool:
    is_meant_to_be = hosting.context.rules.rule_for(group_id).mode is Mode.HOST
    return is_meant_to_be and not hosting.is_left_to_broker(group_id)


def _is_hosted(hosting: Hosting, group_id: str) -> bool:
    return hosting.room.has_members(group_id) or is_named(hosting, group_id)


def _has_translated_members(hosting: Hosting, group_id: str) -> bool:
    group = hosting.context.registry.groups.get(group_id)
    return group is not None and any(
        member.joined or not member.queue.idle  # it may be about to be
        for member in group.members.values()
    )


# -- may its sender act in the group? ----------------------------------------------------------------------------------


def _if_allowed(
    hosting: Hosting, request: Request, refusal: Callable[[int], Any], proceed: Callable[[], None]
) -> None:
    """Ask the broker whether the sender of a call may act in its group, then ``proceed``; else refuse it.

    Such a call is never relayed: the broker may let it through a moment later, and would have a member then.
    """
    steps = _ask(hosting, request, refusal, proceed)
    hosting.context.scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)


def _ask(
    hosting: Hosting, request: Request, refusal: Callable[[int], Any], proceed: Callable[[], None]
) -> Procedure[None]:
    group_id: str = request.message.group_id
    version = request.connection.version(ApiKey.HEARTBEAT, newest=_HEARTBEAT_VERSION) or 0
    question = HeartbeatRequest(group_id=group_id, generation_id=_NO_GENERATION, member_id=NOBODY)
    response: HeartbeatResponse = yield Call(ApiKey.HEARTBEAT, version, question)
    if response.error_code not in ALLOWED:
        hosting.context.authorized_groups.withdraw(request.connection.id, group_id)
        hosting.context.connections.answer(request, refusal(response.error_code))
        return
    hosting.context.authorized_groups.add(request.connection.id, group_id)
    if refused_by_log(hosting, request, authorized=True):
        return
    # The client may have gone meanwhile: then only counts what clients send just before they close.
    if request.api_key in _LAST_CALLS or hosting.context.connections.is_waiting(request):
        proceed()


# -- JoinGroup ---------------------------------------------------------------------------------------------------------


def _route_join(hosting: Hosting, request: Request, route_again: RouteAgain) -> bool:
    proceed = partial(_join, hosting, request, route_again)
    _if_allowed(hosting, request, lambda code: refused(request, code), proceed)
    return True


def _join(hosting: Hosting, request: Request, route_again: RouteAgain) -> None:
    message: JoinGroupRequest = request.message
    group_id, member_id = message.group_id, message.member_id
    hosting.context.actions.append(Authorized(request.id))
    if is_of_eager_worker(message) and not hosting.room.has_members(group_id):
        hosting.leave_to_broker(group_id)
        route_again(request)
    elif not member_id:
        steps = _come_without_id(hosting, request, route_again)
        hosting.context.scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)
    elif _is_to_be_hosted(hosting, group_id) and hosting.room.is_member(group_id, member_id):
        apply_answers(hosting, hosting.room.handle(hosting.context.now, request))
    else:
        hosting.note_told(request.connection.id, group_id, member_id)
        reason = "told to join without a member id, because its group moves to or from mode host"
        hosting.context.events.emit_group(EventKind.CALL_REFUSED, group_id, request, reason)
        answer = refused(request, ErrorCode.UNKNOWN_MEMBER_ID)
        apply_answers(hosting, ((request, answer),))


def _come_without_id(hosting: Hosting, request: Request, route_again: RouteAgain) -> Procedure[None]:
    """A client joins that owns nothing: end the membership that it has left behind, and let it in if that is safe."""
    connection = request.connection
    group_id: str = request.message.group_id
    left = hosting.take_told(connection.id, group_id)
    if left is not None and hosting.room.is_member(group_id, left):
        if not _is_to_be_hosted(hosting, group_id) and request.message.protocol_type == CONNECT_PROTOCOL_TYPE:
            session_s = request.message.session_timeout_ms / _MS
            hosting.note_return(group_id, hosting.context.now + session_s, hosting.context.now)
        apply_answers(hosting, hosting.room.remove(hosting.context.now, group_id, left))
    elif left is not None:
        yield from _leave_broker(connection, group_id, left)
    for is_last in (False, True):
        if not _is_to_be_hosted(hosting, group_id):
            why = (
                "it is still hosted" if hosting.room.has_members(group_id) else why_not_back(hosting, request)
            )
        else:
            why = why_not_here(hosting, group_id) or (yield from why_broker_has_it(connection, group_id))
        if why is None or is_last:
            break
        yield Wait(hosting.context.now + _PAUSE_S)
    if not hosting.context.connections.is_waiting(request):
        return
    if why is not None:
        hosting.context.events.emit_group(EventKind.CALL_REFUSED, group_id, request, f"has to wait: {why}")
        hosting.context.connections.answer(request, refused(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    elif refused_by_log(hosting, request, authorized=True):
        return
    elif _is_to_be_hosted(hosting, group_id):
        if (why := why_not_here(hosting, group_id)) is None:
            hosting.end_return(group_id)
            apply_answers(hosting, hosting.room.handle(hosting.context.now, request))
        else:
            hosting.context.connections.answer(
                request, refused(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            )
    else:
        route_again(request)


def _leave_broker(connection: Connection, group_id: str, member_id: str) -> Procedure[None]:
    """End a classic membership at the broker. Whether that worked is seen when the broker describes the group."""
    version = connection.version(ApiKey.LEAVE_GROUP, newest=_LEAVE_VERSION) or 0
    leave = (
        LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id=member_id),))
        if version >= _LEAVE_VERSION
        else LeaveGroupRequest(group_id=group_id, member_id=member_id)
    )
    yield Call(ApiKey.LEAVE_GROUP, version, leave)


# -- Heartbeat, SyncGroup, LeaveGroup ----------------------------------------------------------------------------------


def _route_heartbeat(hosting: Hosting, request: Request) -> bool:
    message: HeartbeatRequest = request.message
    if hosting.room.is_member(message.group_id, message.member_id):
        proceed = partial(_member_call, hosting, request, HeartbeatResponse)
        _if_allowed(hosting, request, lambda code: HeartbeatResponse(error_code=code), proceed)
        return True
    if not _is_to_be_hosted(hosting, message.group_id):
        return False
    _call_of_brokers(hosting, request, HeartbeatResponse)
    return True


def _call_of_brokers(hosting: Hosting, request: Request, response_type: Callable[..., Any]) -> None:
    """Let the broker have a call of its member, which keeps it alive there, and tell its client to rejoin.

    A SyncGroup gives nothing: its JoinGroup may have reached the broker after somebody was let in here, since nothing
    orders the calls of two connections.
    """

    def steps() -> Procedure[None]:
        response = yield Call(request.api_key, request.version, request.message)
        if response.error_code == ErrorCode.NONE:
            response = response_type(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        apply_answers(hosting, ((request, response),))

    hosting.context.scheduler.start(steps(), ProcedureQueue(), request.connection.id, request.client_id)


def _route_sync(hosting: Hosting, request: Request) -> bool:
    message = request.message
    if not hosting.room.is_member(message.group_id, message.member_id):
        if not _is_to_be_hosted(hosting, message.group_id):
            return False
        _call_of_brokers(hosting, request, SyncGroupResponse)
        return True
    proceed = partial(_member_call, hosting, request, SyncGroupResponse)
    _if_allowed(hosting, request, lambda code: SyncGroupResponse(error_code=code), proceed)
    return True


def _route_sync_on_return(hosting: Hosting, request: Request) -> bool:
    """Let the broker have what a leader of workers assigns that were hosted only if it may know all of them."""
    message: SyncGroupRequest = request.message
    group_id = message.group_id
    workers = hosting.returning_workers(group_id, hosting.context.now)
    if (
        not workers
        or not message.assignments
        or _is_to_be_hosted(hosting, group_id)
        or hosting.room.is_member(group_id, message.member_id)
    ):
        return False

    def start(steps: Procedure[None]) -> None:
        hosting.context.scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)

    if len(message.assignments) >= workers:
        start(_assign_to_all(hosting, request))
        return True
    reason = f"it assigns to {len(message.assignments)} of {workers} workers"
    join_again = partial(_join_again, hosting, request, reason)
    _if_allowed(
        hosting, request, lambda code: SyncGroupResponse(error_code=code), lambda: start(join_again())
    )
    return True


def _assign_to_all(hosting: Hosting, request: Request) -> Procedure[None]:
    response = yield Call(request.api_key, request.version, request.message)
    if response.error_code == ErrorCode.NONE:
        hosting.end_return(request.message.group_id)
    apply_answers(hosting, ((request, response),))


def _join_again(hosting: Hosting, request: Request, reason: str) -> Procedure[None]:
    hosting.context.events.emit_group(EventKind.CALL_REFUSED, request.message.group_id, request, reason)
    yield Wait(hosting.context.now + _PAUSE_S)  # its client joins at once
    apply_answers(hosting, ((request, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)),))


def _member_call(
    hosting: Hosting, request: Request, response_type: Callable[..., HeartbeatResponse | SyncGroupResponse]
) -> None:
    """Serve a call of a hosted member; if its group is not to be hosted any more, tell it to rejoin."""
    message = request.message
    if _is_to_be_hosted(hosting, message.group_id):
        apply_answers(hosting, hosting.room.handle(hosting.context.now, request))
        return
    code = hosting.room.why_refused(
        message.group_id, message.member_id, message.group_instance_id, message.generation_id
    )
    if code == ErrorCode.NONE:
        hosting.room.renew(hosting.context.now, message.group_id, message.member_id)
        code = ErrorCode.REBALANCE_IN_PROGRESS
    apply_answers(hosting, ((request, response_type(error_code=code)),))


def _route_leave(hosting: Hosting, request: Request) -> bool:
    message: LeaveGroupRequest = request.message
    named = (message.member_id, *(one.member_id for one in message.members))
    instances = any(one.group_instance_id is not None and not one.member_id for one in message.members)
    if not any(hosting.room.is_member(message.group_id, member_id) for member_id in named) and not (
        instances and hosting.room.has_members(message.group_id)
    ):
        return False
    proceed = partial(_leave, hosting, request)
    _if_allowed(hosting, request, lambda code: LeaveGroupResponse(error_code=code), proceed)
    return True


def _leave(hosting: Hosting, request: Request) -> None:
    apply_answers(hosting, hosting.room.handle(hosting.context.now, request))


# -- commits, members of the new protocol ------------------------------------------------------------------------------


def _route_commit(hosting: Hosting, request: Request) -> bool:
    """Route a commit. While there are members, others may not commit, as at a broker that has the members
    (``ClassicGroup.validateOffsetCommit``); a transaction without a member always may.
    """
    message = request.message
    is_of_nobody = not message.member_id and message.group_instance_id is None
    if not hosting.room.has_members(message.group_id) or (
        is_of_nobody
        and request.api_key == ApiKey.TXN_OFFSET_COMMIT
        and generation.in_request(request) == _NO_GENERATION
    ):
        return False
    proceed = partial(_commit, hosting, request)
    if hosting.context.authorized_groups.includes(request.connection.id, message.group_id):
        proceed()  # nothing changes here, and the broker checks the sender of what it gets
        return True
    _if_allowed(hosting, request, lambda code: commit_messages.refused(request, code), proceed)
    return True


def _commit(hosting: Hosting, request: Request) -> None:
    message = request.message
    code = hosting.room.why_refused(
        message.group_id, message.member_id, message.group_instance_id, generation.in_request(request)
    )
    if code != ErrorCode.NONE:
        hosting.context.connections.answer(request, commit_messages.refused(request, code))
        return
    steps = _commit_simply(hosting, request)
    hosting.context.scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)


def _commit_simply(hosting: Hosting, request: Request) -> Procedure[None]:
    """Commit as a consumer without a group membership: the broker has no member that could."""
    message = replaced(request.message, member_id="", group_instance_id=None)
    response = yield from commit_messages.send_commit(
        _NO_GENERATION, request.api_key, request.version, message
    )
    hosting.context.connections.answer(request, response)


def _route_native(hosting: Hosting, request: Request) -> bool:
    """Keep members of the new protocols out while hosted members have partitions, also on the way back."""
    message = request.message
    if message.member_epoch != _JOINS or _is_to_be_hosted(hosting, message.group_id):
        return False  # the policy's rule keeps them out
    if not _is_hosted(hosting, message.group_id):
        return False
    response_type = HEARTBEAT_RESPONSES[request.api_key]
    response = response_type(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    _if_allowed(
        hosting,
        request,
        lambda code: response_type(error_code=code),
        lambda: hosting.context.connections.answer(request, response),
    )
    return True


_ROUTES: Mapping[int, _Route] = {
    ApiKey.HEARTBEAT: _route_heartbeat,
    ApiKey.SYNC_GROUP: _route_sync,
    ApiKey.LEAVE_GROUP: _route_leave,
    ApiKey.OFFSET_COMMIT: _route_commit,
    ApiKey.TXN_OFFSET_COMMIT: _route_commit,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _route_native,
    ApiKey.SHARE_GROUP_HEARTBEAT: _route_native,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _route_native,
}
