"""Before a client that this process does not know joins: who is it, and can its group be converted?

It may be new; a member of the new protocol that another process served; or a classic member, in a classic group
or in a mixed one. The broker is asked, because the first heartbeat of a new member converts the whole group,
and the conversion fails the pending JoinGroups of all its classic members.
"""

from functools import partial

from protocol_codecs import ErrorCode
from translation import member_id_required
from translation.actions import Connection, Request
from translation.engine.context import Context
from translation.engine.join_outcomes import (
    Failed,
    Outcome,
    PassesThrough,
    StaysClassic,
    wait_in_join,
)
from translation.engine.member import Group, Member
from translation.engine.member_parts import PendingMove
from translation.engine.procedure import Procedure
from translation.member_id_required import NeedsNewMemberId
from translation.migration.adoption import Found, Verdict, adopt_for_join, lookup_member, resync_epoch
from translation.migration.convertibility import (
    Obstacle,
    find_obstacle,
    has_classic_members,
    passthrough_backoff_s,
)
from translation.migration.last_consumer_member import has_to_wait_for_others
from translation.migration.old_membership import (
    leave_classic,
    leave_classic_membership,
    leave_consumer_membership,
)

_IN_A_CONSUMER_GROUP = frozenset({Verdict.CLASSIC_MEMBER, Verdict.UNKNOWN, Verdict.HIDDEN})
"""Verdicts that say that it is a consumer group, and name no membership of the new protocol that is the client's."""


def join_preflight(
    context: Context,
    member: Member,
    connection: Connection,
    request: Request,
    old_classic_membership: PendingMove | None,
    deadline: float,
    *,
    owns_partitions: bool,
) -> Procedure[None]:
    """See that nothing stands in the way of this member's first heartbeat.

    ``old_classic_membership`` is the classic membership that the client gave up because the policy changed;
    ``owns_partitions`` says that its JoinGroup reports owned partitions. Raises the outcome if the client is not to
    join the new protocol, or not yet.
    """
    if member.joined:
        if not context.settings.sole_process:
            yield from _ensure_latest(context, member, connection)
            ensure_client_waiting(context, member, request)
        return
    group = member.group
    # If the last try to begin this membership has failed, it is known already.
    old_classic_membership, member.join.old_classic_membership = (
        member.join.old_classic_membership or old_classic_membership,
        None,
    )
    instance_id = request.message.group_instance_id if request.message.member_id else None
    old_classic_membership = yield from _end_consumer_membership(
        context, member, connection, request, old_classic_membership, deadline
    )
    if (
        not group.is_consumer_group(context.now)
        or owns_partitions
        or instance_id
        or not context.ids.is_issued(member.member_id)
    ):
        look = partial(
            _lookup_member,
            context,
            member,
            connection,
            request,
            deadline,
            instance_id=instance_id,
            owns_partitions=owns_partitions,
        )
        verdict, found = yield from look()
        told = _completes_a_move(old_classic_membership, owns_partitions=owns_partitions)
        if verdict is Verdict.CLASSIC_GROUP and not told and not context.ids.is_issued(member.member_id):
            if (yield from has_classic_members(group.group_id)):
                raise StaysClassic  # if it is none of them, the broker says so
            # It is no classic group either. Another client's first heartbeat may have converted it between the answers.
            verdict, found = yield from look()
        if _must_relay(verdict, owns_partitions=owns_partitions):
            raise StaysClassic
        if verdict in _IN_A_CONSUMER_GROUP:
            left = yield from _leave_classic_memberships(
                context, member, request, verdict, old_classic_membership
            )
            old_classic_membership = None
            if left and _may_have_become_classic(group, context.now):
                verdict, found = yield from look()
        if found is not None:
            adopt_for_join(context, member, found)
        elif verdict is Verdict.CLASSIC_GROUP:
            old_classic_membership = yield from _await_convertible(
                context, member, request, old_classic_membership, deadline
            )
    if old_classic_membership is not None:
        yield from leave_classic(group, old_classic_membership)
    member_id_required.ensure_id_of_ours(context, member, request, owns_partitions=owns_partitions)
    # What was asked and ended took its time, in which the client may have joined elsewhere under the same id.
    ensure_client_waiting(context, member, request)


def _must_relay(verdict: Verdict, *, owns_partitions: bool) -> bool:
    """Whether the broker itself has to answer the JoinGroup.

    A classic member that claims partitions stays one: an epoch 0 heartbeat owns nothing, and the broker would free at
    once what the client still holds. A JoinGroup under a native member's id would make that a classic member.
    """
    return verdict is Verdict.NATIVE_MEMBER or (verdict is Verdict.CLASSIC_MEMBER and owns_partitions)


def _end_consumer_membership(
    context: Context,
    member: Member,
    connection: Connection,
    request: Request,
    old_classic_membership: PendingMove | None,
    deadline: float,
) -> Procedure[PendingMove | None]:
    """End the membership of a client that was to go back, and joins the new protocol after all.

    That is done before anything is asked about the group; gives what is still to be left behind.
    """
    before = (
        None if old_classic_membership is None else member.group.members.get(old_classic_membership.member_id)
    )
    if before is None or not before.joined:
        return old_classic_membership
    while (yield from has_to_wait_for_others(before, connection)):
        if context.now >= deadline:
            raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "others have partitions to give up")
        yield from wait_in_join(member, request, context.now + context.settings.join_poll_s)
    yield from leave_consumer_membership(context, before, "its client joined anew")
    context.registry.drop_if_idle(before)
    return None


def _completes_a_move(old_classic_membership: PendingMove | None, *, owns_partitions: bool) -> bool:
    """Whether this JoinGroup is that of a client that was told to move; one with partitions has joined again since."""
    return old_classic_membership is not None and not owns_partitions


def _leave_classic_memberships(
    context: Context,
    member: Member,
    request: Request,
    verdict: Verdict,
    old_classic_membership: PendingMove | None,
) -> Procedure[bool]:
    """End what a client that holds nothing has of classic memberships in a consumer group; whether it had any.

    Raises the outcome if it should not join the new protocol under the id that it had as a classic member.
    """
    group = member.group
    if verdict is Verdict.CLASSIC_MEMBER:
        yield from leave_classic_membership(group.group_id, member.member_id, member.client.instance_id)
    if old_classic_membership is not None:
        yield from leave_classic(group, old_classic_membership)
    if verdict is Verdict.CLASSIC_MEMBER and member_id_required.may_be_left_again(context, request):
        raise NeedsNewMemberId("another process may be ending its classic membership too")
    return verdict is Verdict.CLASSIC_MEMBER or old_classic_membership is not None


def _may_have_become_classic(group: Group, now: float) -> bool:
    """Whether a consumer group that a classic member has left may be a classic group now.

    If only classic members are left in it, the broker makes it one, and begins a rebalance, in which it takes the
    members' targets for what they hold.
    """
    return not group.is_consumer_group(now)


def _lookup_member(
    context: Context,
    member: Member,
    connection: Connection,
    request: Request,
    deadline: float,
    *,
    instance_id: str | None,
    owns_partitions: bool,
) -> Procedure[Found]:
    """Ask the broker who this is, for as long as it loads; raises the outcome if the JoinGroup is not to go on."""
    verdict, found = yield from lookup_member(context, member, connection, instance_id=instance_id)
    while verdict is Verdict.LOADING and context.now < deadline:
        yield from wait_in_join(member, request, context.now + context.settings.load_retry_s)
        verdict, found = yield from lookup_member(context, member, connection, instance_id=instance_id)
    if verdict is Verdict.REPLACED:
        raise Failed(ErrorCode.FENCED_INSTANCE_ID, "another process has its instance id")
    if owns_partitions and verdict is Verdict.HIDDEN and not context.ids.is_issued(member.member_id):
        # The broker knows who it is, and takes the classic JoinGroup of a member of either protocol at its word.
        raise StaysClassic
    if owns_partitions and verdict in (Verdict.LOADING, Verdict.UNAVAILABLE):
        # It may be a member still, and an epoch 0 heartbeat would free what it holds.
        raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker does not say whether it is a member")
    ensure_client_waiting(context, member, request)
    return verdict, found


def ensure_client_waiting(context: Context, member: Member, request: Request) -> None:
    """Before a JoinGroup counts whose client may have been elsewhere: is the client still there?"""
    if not any(
        context.connections.is_still_connected(waiting)
        for waiting in (request, *member.join.superseded_requests)
    ):
        raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody waits for it any more")


def _ensure_latest(context: Context, member: Member, connection: Connection) -> Procedure[None]:
    """Before a JoinGroup counts: has another process served this client since this one heard of it?

    Then the call may be a late one of a client that has joined there since, and what it claims is not true any more.
    A client that is here tries again, and is taken at its word.
    """
    if (yield from resync_epoch(context, member, connection)):
        raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "another process has moved its epoch")


def _may_join_before_leaving(context: Context, member: Member, old_classic_membership: PendingMove) -> bool:
    """Whether a client may be a member of the new protocol before its classic membership ends.

    Leaving a classic group begins a rebalance. A heartbeat that comes when that is over, but its members have not given
    up all that they are to give up, converts the group at the one moment at which it must not be. A member of either
    protocol that leaves a consumer group begins nothing of the kind. With an instance id the broker puts the new member
    in the place of the classic one.

    But one member id has one membership; and where all members are moved together, the group has to be empty first.
    """
    return (
        old_classic_membership.member_id != member.member_id
        and old_classic_membership.instance_id in (None, member.client.instance_id)
        and not member.group.migration.moves_all(context.now)
    )


def ensure_convertible(
    context: Context, member: Member, request: Request, deadline: float
) -> Procedure[None]:
    """Before the first heartbeat is tried once more: what was found out before the first try may not hold any more.

    A coordinator that has failed over has forgotten the rebalance that was under way.
    """
    if member.joined or member.group.is_consumer_group(context.now):
        return
    old_classic_membership, member.join.old_classic_membership = member.join.old_classic_membership, None
    old_classic_membership = yield from _await_convertible(
        context, member, request, old_classic_membership, deadline
    )
    if old_classic_membership is not None:
        yield from leave_classic(member.group, old_classic_membership)


def _await_convertible(
    context: Context,
    member: Member,
    request: Request,
    old_classic_membership: PendingMove | None,
    deadline: float,
) -> Procedure[PendingMove | None]:
    """Wait until nothing stands in the way of converting the group.

    Gives what is to be left behind before it is; what is to be left behind after that is kept with the member.
    """
    group = member.group
    while True:
        obstacle, why = yield from find_obstacle(context, group)
        match obstacle:
            case Obstacle.NONE:
                if old_classic_membership is None or not _may_join_before_leaving(
                    context, member, old_classic_membership
                ):
                    return old_classic_membership
                member.join.old_classic_membership = old_classic_membership
                return None
            case Obstacle.MEMBERS:
                group.migration.move_all(context.now)
                if context.now >= deadline:
                    raise _members_remain(context, group, why)
            case Obstacle.PERMANENT:
                raise PassesThrough(f"not converted: {why}", for_s=context.settings.relayed_s)
            case Obstacle.TRANSIENT:
                if context.now >= deadline:
                    raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"not converted: {why}")
        if old_classic_membership is not None and (
            old_classic_membership.member_id != member.member_id or group.migration.moves_all(context.now)
        ):
            # What is waited for, a rebalance or an empty group, may wait for what this client has left behind.
            yield from leave_classic(group, old_classic_membership)
            old_classic_membership = None
        yield from wait_in_join(member, request, context.now + context.settings.join_poll_s)


def _members_remain(context: Context, group: Group, why: str) -> Outcome:
    """How a JoinGroup ends for which the group should have been empty by now.

    It is not tried meanwhile whether the broker converts the group: a refused conversion, too, fails the JoinGroups
    that wait there.
    """
    if group.migration.moves_all(context.now) and not context.settings.sole_process:
        # Another process tells its clients when it sees the group at rest, so not all of them at the same moment.
        return Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "others have still to leave the classic group")
    return PassesThrough(
        f"not all of its members have left it: {why}", for_s=passthrough_backoff_s(context, group)
    )
