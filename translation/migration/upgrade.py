"""Moving the members of a live group from one protocol to the other when the policy changes.

One member after another, with the pause that the rule sets, a client is told UNKNOWN_MEMBER_ID on its Heartbeat: it
gives up its partitions and joins anew, which every client does by itself. Its old membership is ended when
that JoinGroup arrives owning nothing, not before: until then the broker must not give its partitions away. So at
no moment do two clients own one, and the other members go on working.

The broker carries both kinds in one group meanwhile (KIP-848, "Supporting Online Consumer Group Upgrade").
"""

from collections.abc import Iterable
from enum import Enum, auto

from protocol_codecs import ApiKey, ErrorCode, MalformedMessage
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
    lacks_owned_partitions,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from translation.actions import Connection, EventKind, Request
from translation.engine.context import Context
from translation.engine.join_outcomes import Failed, refused
from translation.engine.member import Group, Member, PendingMove
from translation.engine.procedure import Procedure, Send, Wait
from translation.error_mapping import NO_COORDINATOR
from translation.member_state import MemberEvent
from translation.partitions import owns_partitions
from translation.policy.assignors import why_not_translatable
from translation.policy.policy import Rule
from translation.upstream.consumer_group_heartbeat import leave

_DESCRIBE_VERSION = 5
_LEAVE_VERSION = 3
_JOIN_RETRIES = 50
_JOIN_RETRY_S = 0.2
_WITHOUT_MEMBERS = frozenset({"Dead", "Empty"})

_FORGET_S = 900.0
"""A client that was told to join anew and never did is gone; its membership has ended by its own timeouts."""


def passthrough_backoff_s(context: Context, group: Group) -> float:
    """For how long (seconds) a group is relayed that the broker did not convert
    (:meth:`~translation.group_migration.GroupMigration.give_up`)."""
    return group.migration.give_up(context.now, context.settings.relayed_s)


def request_rejoin(
    context: Context, group: Group, connection: Connection, request: Request, rule: Rule, reason: str
) -> None:
    """Remember a client that is told to join anew, mostly by its Heartbeat, and let the others wait for their turn."""
    message: HeartbeatRequest | JoinGroupRequest = request.message
    for forgotten in [
        move for move in group.pending_moves.values() if move.told_at < context.now - _FORGET_S
    ]:
        del group.pending_moves[forgotten.member_id]
    group.pending_moves[message.member_id] = PendingMove(
        message.member_id,
        message.group_instance_id,
        connection.id,
        request.client_id,
        connection.client_host,
        context.now,
    )
    group.migration.member_told(context.now, rule.switch_pause_ms / 1000)
    context.emit_group(EventKind.POLICY_CHANGED, group.group_id, request, reason)


def match_pending_move(
    group: Group, connection: Connection, request: Request, *, given_here: bool
) -> PendingMove | None:
    """The move that this JoinGroup completes: by member id, else by connection, else by client.

    Most clients forget their member id with UNKNOWN_MEMBER_ID, and some open a new connection. ``given_here`` says that
    its member id was given out here, with MEMBER_ID_REQUIRED. If a coordinator gave it, its client has completed its
    move before; another one of the same client id and host may not have, and work on.
    """
    message: JoinGroupRequest = request.message
    if message.member_id in group.pending_moves:
        return group.pending_moves[message.member_id]
    for move in reversed(
        group.pending_moves.values()
    ):  # it may have moved before, and left something behind there
        if move.connection_id == connection.id:
            return move
    is_new = given_here or not message.member_id
    for move in group.pending_moves.values():
        same_instance = (
            message.group_instance_id is not None and message.group_instance_id == move.instance_id
        )
        same_client = (move.client_id, move.client_host) == (request.client_id, connection.client_host)
        if same_instance or (same_client and is_new and move.instance_id is None):
            return move
    return None


def leave_consumer_membership(context: Context, member: Member, reason: str) -> Procedure[None]:
    """End the membership in the new protocol of a client that has given up its partitions, and joins anew.

    It may have ended by itself. Raises Failed if the coordinator was not there to do it.
    """
    group = member.group
    if member.joined:
        group.leaving.add(member.member_id)
        try:
            response = yield from leave(member)
        finally:
            group.leaving.discard(member.member_id)
        if (
            response.error_code in NO_COORDINATOR
        ):  # else it would stay in the group until its session ends there
            raise Failed(response.error_code, "its membership could not be ended")
    group.pending_moves.pop(member.member_id, None)
    if member.joined:
        context.end_membership(member, MemberEvent.LEFT, EventKind.POLICY_CHANGED, reason)


def keeps_membership(message: JoinGroupRequest, move: PendingMove) -> bool:
    """Whether a client that was told to join anew goes on with the classic membership that it had.

    It comes with its id, still claims partitions, or has an instance id, by which the broker itself puts it in the old
    one's place.
    """
    return (
        message.member_id == move.member_id
        or message.group_instance_id is not None
        or owns_partitions(message)
    )


def leave_classic(group: Group, move: PendingMove) -> Procedure[None]:
    """End the classic membership of a client that joins as a new member. Whether it still was one does not matter."""
    yield from leave_classic_membership(group.group_id, move.member_id, move.instance_id)
    group.pending_moves.pop(move.member_id, None)


def end_old_classic_membership(member: Member) -> Procedure[None]:
    """End the classic membership that was to end as soon as this one of the same client has begun, if there is one.

    That of a static client has ended: this one is in its place.

    Raises Failed as :func:`leave_classic_membership` does; it is tried again at the client's next JoinGroup.
    """
    move = member.old_classic_membership
    if move is None:
        return
    if move.instance_id is None:
        yield from leave_classic(member.group, move)
    member.group.pending_moves.pop(move.member_id, None)
    member.old_classic_membership = None


def leave_classic_membership(group_id: str, member_id: str, instance_id: str | None) -> Procedure[None]:
    """LeaveGroup for one classic member; that there is none such is no error.

    Raises Failed if the coordinator was not there to do it: the client is to try again, and so are we.
    """
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    message = LeaveGroupRequest(group_id=group_id, members=(identity,))
    response: LeaveGroupResponse = yield Send(ApiKey.LEAVE_GROUP, _LEAVE_VERSION, message)
    if response.error_code in NO_COORDINATOR:
        raise Failed(response.error_code, "its classic membership could not be ended")


def relay_classic_join(
    context: Context, request: Request, cancelled_move: PendingMove | None = None
) -> Procedure[None]:
    """A classic JoinGroup in a group that is being converted.

    ``cancelled_move`` is the move of a client that was to go to the new protocol, and is not any more: the classic
    membership that it has left behind ends, or the group's rebalance would wait for it until its timeout.

    The broker fails the pending JoinGroups of the members that are still classic with REBALANCE_IN_PROGRESS, which is
    fatal for Java clients up to 2.7; so it is asked again instead.
    """
    if cancelled_move is not None:
        group = context.group(request.message.group_id)
        try:
            yield from leave_classic(group, cancelled_move)
        except Failed as failed:
            context.answer(request, refused(request, failed.error_code))
            return
        context.drop_group_if_empty(group)
    if _client_is_gone(context, request):
        context.answer(request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    response: JoinGroupResponse = yield Send(ApiKey.JOIN_GROUP, request.version, request.message)
    for _ in range(_JOIN_RETRIES):
        if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS or not context.connections.is_waiting(
            request
        ):
            break
        yield Wait(context.now + _JOIN_RETRY_S)
        response = yield Send(ApiKey.JOIN_GROUP, request.version, request.message)
    context.answer(request, response)


def _client_is_gone(context: Context, request: Request) -> bool:
    """Whether the client of a classic JoinGroup has gone, and has maybe joined elsewhere, while it waited.

    It waits for the end of what it leaves behind, or for the broker's word.
    """
    return not context.connections.is_still_connected(request)


class Obstacle(Enum):
    """What stands in the way of converting a live classic group."""

    NONE = auto()
    TRANSIENT = auto()
    """A rebalance under way, or a coordinator that is not there: try again soon."""
    MEMBERS = auto()
    """The broker can't keep what an assignor wrote into the assignments, or can't read what a client subscribes to.
    Without members it has nothing to keep or to read, so all of them are moved together."""
    REVOCATION_PENDING = auto()
    """A cooperative member has still to give up what it was not assigned again: try again soon, and go on when it has
    had time for it (kafka-python may never say that it did)."""
    PERMANENT = auto()
    """This is not a group of consumers, or not one that can be translated."""


def has_classic_members(group_id: str) -> Procedure[bool]:
    """Whether the broker may have a classic group of this name with members in it."""
    response: DescribeGroupsResponse = yield Send(
        ApiKey.DESCRIBE_GROUPS, _DESCRIBE_VERSION, DescribeGroupsRequest(groups=(group_id,))
    )
    return not any(
        group.error_code == ErrorCode.NONE and _has_no_classic_members(group) for group in response.groups
    )


def _has_no_classic_members(group: DescribedGroup) -> bool:
    """Whether a group that the broker describes without an error is no classic group, or has no members.

    A classic group with members has a protocol type. Of a consumer group Kafka says that it is Dead; franz-go's kfake
    says the state that it has, without a protocol type.
    """
    return group.group_state in _WITHOUT_MEMBERS or not group.protocol_type


def find_obstacle(context: Context, group: Group) -> Procedure[tuple[Obstacle, str]]:
    """Ask the broker whether a classic group can be converted, before any of its members is moved."""
    obstacle, why = yield from _described_obstacle(group.group_id, context.allowed_assignors)
    if obstacle is not Obstacle.REVOCATION_PENDING:
        group.migration.nothing_to_revoke()
        return obstacle, why
    waits = group.migration.awaits_revocation(context.now, context.settings.revocation_grace_s)
    return (Obstacle.TRANSIENT, why) if waits else (Obstacle.NONE, "")


def _described_obstacle(group_id: str, allowed_assignors: frozenset[str]) -> Procedure[tuple[Obstacle, str]]:
    response: DescribeGroupsResponse = yield Send(
        ApiKey.DESCRIBE_GROUPS, _DESCRIBE_VERSION, DescribeGroupsRequest(groups=(group_id,))
    )
    if not response.groups:
        return Obstacle.TRANSIENT, "the broker did not describe it"
    group = response.groups[0]
    if group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return (
            Obstacle.NONE,
            "",
        )  # it may not be described; the broker itself says what it thinks of the conversion
    if group.error_code != ErrorCode.NONE:
        return Obstacle.TRANSIENT, f"the broker answered {ErrorCode(group.error_code).name}"
    if _has_no_classic_members(group):
        return Obstacle.NONE, ""
    if group.group_state != "Stable":
        return Obstacle.TRANSIENT, f"it is in state {group.group_state}"
    why_not = why_not_translatable(group.protocol_type, (group.protocol_data,), allowed_assignors)
    if why_not is not None:
        return Obstacle.PERMANENT, why_not
    obstacles = [_obstacle_of(member) for member in group.members]
    for worst in (Obstacle.PERMANENT, Obstacle.MEMBERS, Obstacle.REVOCATION_PENDING):
        for obstacle, why in obstacles:
            if obstacle is worst:
                return obstacle, why
    return Obstacle.NONE, ""


def _obstacle_of(member: DescribedGroupMember) -> tuple[Obstacle, str]:
    try:
        _, assignment = decode_assignment(member.member_assignment)
        _, subscription = decode_subscription(member.member_metadata)
        cut_short = lacks_owned_partitions(member.member_metadata)
    except MalformedMessage as error:
        return Obstacle.PERMANENT, f"what {member.member_id} said or was assigned is not readable: {error}"
    if cut_short:
        return Obstacle.MEMBERS, f"the broker can't read the subscription of {member.member_id}"
    if assignment.user_data:
        return Obstacle.MEMBERS, f"the assignment of {member.member_id} carries user data of its assignor"
    if not _named(subscription.owned_partitions) <= _named(assignment.assigned_partitions):
        # A cooperative member gives up what it was not assigned again, and joins once more to say so. Until then the
        # broker knows its assignment only, and in a converted group would give away what the client still holds.
        return Obstacle.REVOCATION_PENDING, f"{member.member_id} has partitions to give up"
    return Obstacle.NONE, ""


def _named(topics: Iterable[ConsumerProtocolTopicPartition]) -> set[tuple[str, int]]:
    return {(topic.topic, index) for topic in topics for index in topic.partitions}


def move_classic_member(
    context: Context, member: Member, connection: Connection, request: Request, rule: Rule, *, mixed: bool
) -> Procedure[bool]:
    """A classic member of a group that is to be translated sent a Heartbeat: whether it is told to join anew.

    ``mixed`` says that the group is a consumer group already, so that nothing has to be asked. A member whose turn
    has not come is relayed until then.
    """
    group = member.group
    if not group.migration.may_move(context.now):
        context.relay(group, member.member_id, group.migration.next_move_at)
        return False
    obstacle, why = Obstacle.NONE, ""
    if not mixed and not group.migration.moves_all(context.now):
        obstacle, why = yield from find_obstacle(context, group)
    match obstacle:
        case Obstacle.TRANSIENT:
            context.relay(group, member.member_id, context.now + context.settings.assignment_interval_s)
        case Obstacle.PERMANENT:
            group.migration.relay_for(context.settings.relayed_s, context.now)
        case Obstacle.MEMBERS:
            group.migration.move_all(context.now)
            if not group.migration.moves_all(context.now):
                obstacle = Obstacle.PERMANENT
                group.migration.relay_for(passthrough_backoff_s(context, group), context.now)
    if obstacle in (Obstacle.TRANSIENT, Obstacle.PERMANENT):
        context.emit_group(EventKind.PASSED_THROUGH, group.group_id, request, f"not converted: {why}")
        return False
    # The Heartbeat is a sign of life at the broker too: what the client holds stays its own until it joins anew.
    response: HeartbeatResponse = yield Send(ApiKey.HEARTBEAT, request.version, request.message)
    # In a mixed group, and in one that all leave, each move makes those that are still classic rejoin; this one joins
    # anew either way.
    rebalances = mixed or group.migration.moves_all(context.now)
    alive = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) if rebalances else (ErrorCode.NONE,)
    if response.error_code not in alive:
        return False  # a rebalance has begun, or it is no member any more: the broker tells it so itself
    if not group.migration.may_move(
        context.now
    ):  # another was told while the broker was asked: heartbeats come together
        context.relay(group, member.member_id, group.migration.next_move_at)
        return False
    reason = "told to join the new protocol"
    request_rejoin(
        context, group, connection, request, rule, f"{reason}, all at once: {why}" if why else reason
    )
    return True
