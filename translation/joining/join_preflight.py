"""Checks a JoinGroup before its first heartbeat: whose is a member id that this process does not know, and can the
group be converted?

The client may be new; a member of the new protocol that another process served; or a classic member, in a classic group
or in one with members of both protocols. The broker is asked, because the first heartbeat of a new member converts a
classic group, and the conversion fails the pending JoinGroups of all its classic members.
"""

from functools import partial

from protocol_codecs import ErrorCode
from translation.actions import Connection, Request
from translation.conversion.convertibility import (
    Obstacle,
    find_obstacle,
    has_classic_members,
    passthrough_backoff_s,
)
from translation.conversion.last_consumer_member import has_to_wait_for_others
from translation.conversion.old_membership import (
    leave_classic,
    leave_classic_membership,
    leave_consumer_membership,
)
from translation.engine.context import Context
from translation.engine.join_outcomes import (
    Failed,
    Outcome,
    PassesThrough,
    StaysClassic,
    ensure_client_waiting,
)
from translation.engine.join_wait import wait_in_join
from translation.engine.member_log_view import MemberLogView
from translation.engine.member_lookup import Described, Found
from translation.joining.adoption import Adoption
from translation.joining.starting import await_first_members
from translation.members import session_timeout
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_parts import PendingSwitch
from translation.members.procedure import Procedure
from translation.membership import member_id_required
from translation.membership.member_id_required import NeedsNewMemberId
from translation.moving.slot_admission import SlotAdmission, why_only_as_a_whole
from translation.policy.client_offer import lacks_owned_list

_IN_A_CONSUMER_GROUP = frozenset({Described.CLASSIC_MEMBER, Described.UNKNOWN, Described.HIDDEN})
"""Descriptions of a consumer group in which the client has no membership of the new protocol."""

_NO_SUCH_MEMBER = frozenset({Described.UNKNOWN, Described.HIDDEN, Described.CLASSIC_GROUP})
"""The broker has no member with the id, or does not show it: a membership would begin with epoch 0."""


class JoinPreflight:
    """Checks a JoinGroup before its first heartbeat."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._member_log = context.member_log
        self._moves = context.moves
        self._rules = context.rules
        self._connections = context.connections
        self._ids = context.ids
        self._lookup = context.lookup
        self._adoption = Adoption(context)
        self._slot_admission = SlotAdmission(context)
        self._context = context

    def join_preflight(
        self,
        member: Member,
        request: Request,
        old_classic_membership: PendingSwitch | None,
        deadline: float,
        *,
        owns_partitions: bool,
    ) -> Procedure[None]:
        """Return when the member may send its first heartbeat, after its old memberships have ended and its group is
        ready.

        ``old_classic_membership`` is the classic membership that the client gave up because the policy changed;
        ``owns_partitions`` says that its JoinGroup reports owned partitions. Until ``deadline`` the JoinGroup may wait.

        :raises StaysClassic: the broker itself has to answer the JoinGroup.
        :raises Outcome: the client must not join the new protocol, or not yet, or not under this id.
        """
        if member.joined:
            if not self._environment.settings.sole_process:
                yield from self._ensure_latest(member, request.connection)
                ensure_client_waiting(self._connections, member, request)
            return
        group = member.group
        instance_id = request.message.group_instance_id if request.message.member_id else None
        old_classic_membership = yield from self._end_consumer_membership(
            member, request, old_classic_membership, deadline
        )
        if (
            not group.is_consumer_group(self._environment.now)
            or owns_partitions
            or instance_id
            or not self._ids.is_issued(member.member_id)
        ):
            look = partial(
                self._lookup_member,
                member,
                request,
                deadline,
                instance_id=instance_id,
                owns_partitions=owns_partitions,
            )
            described, found = yield from look()
            told = _completes_a_move(old_classic_membership, owns_partitions=owns_partitions)
            if (
                described is Described.CLASSIC_GROUP
                and not told
                and not self._ids.is_issued(member.member_id)
            ):
                if (yield from has_classic_members(group.group_id)):
                    raise StaysClassic  # if it is not a member, the broker refuses it
                # It is no classic group either. Another client's first heartbeat may have converted it in between.
                described, found = yield from look()
            stays = owns_partitions or (
                old_classic_membership is None and not lacks_owned_list(request.message)
            )
            if _must_relay(described, stays_classic=stays):
                raise StaysClassic
            if described in _IN_A_CONSUMER_GROUP:
                left = yield from _leave_classic_memberships(
                    self._environment, member, request, described, old_classic_membership
                )
                old_classic_membership = None
                if left and _may_have_become_classic(group, self._environment.now):
                    described, found = yield from look()
            if found is not None:
                self._adoption.adopt_for_join(member, found)
            elif described is Described.CLASSIC_GROUP:
                ensure_may_begin(self._member_log, member)
                yield from self._await_convertible(member, request, deadline, old_classic_membership)
                old_classic_membership = None
        if old_classic_membership is not None:
            yield from self._leave_before_joining(member, request, old_classic_membership, deadline)
        member_id_required.ensure_id_of_ours(self._registry, member, request, owns_partitions=owns_partitions)
        # All this took time, in which the client may have hung up and joined through another process under the same id.
        ensure_client_waiting(self._connections, member, request)

    def _end_consumer_membership(
        self,
        member: Member,
        request: Request,
        old_classic_membership: PendingSwitch | None,
        deadline: float,
    ) -> Procedure[PendingSwitch | None]:
        """End the membership of a client that was told to move back to the classic protocol, and is to be translated
        again.

        This comes before the broker is asked about the group. Returns the classic membership that is still to be ended.
        """
        before = (
            None
            if old_classic_membership is None
            else member.group.members.get(old_classic_membership.member_id)
        )
        if before is None or not before.joined:
            return old_classic_membership
        while (yield from has_to_wait_for_others(before, request.connection)):
            if self._environment.now >= deadline:
                raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "others have partitions to give up")
            # Its client waits here, and goes on being that member until it ends.
            session_timeout.renew(before, self._environment.now)
            yield from wait_in_join(
                member, request, self._environment.now + self._environment.settings.join_poll_s
            )
        yield from leave_consumer_membership(self._context, before, "its client joined again")
        self._registry.drop_if_idle(before)
        return None

    def _leave_before_joining(
        self, member: Member, request: Request, old_classic_membership: PendingSwitch, deadline: float
    ) -> Procedure[None]:
        """End a client's classic membership; look at the group anew if its last translated member left meanwhile."""
        was_consumer_group = member.group.is_consumer_group(self._environment.now)
        yield from leave_classic(member.group, old_classic_membership)
        if was_consumer_group and _may_have_become_classic(member.group, self._environment.now):
            yield from self._await_convertible(member, request, deadline)

    def _lookup_member(
        self,
        member: Member,
        request: Request,
        deadline: float,
        *,
        instance_id: str | None,
        owns_partitions: bool,
    ) -> Procedure[Found]:
        """Ask the broker who the member is; raise if the JoinGroup must not go on.

        It is asked again while its coordinator loads, and while the group's last member of the new protocol leaves.
        """
        if not owns_partitions:
            yield from await_first_members(self._context, member, request, deadline)
        look = partial(
            self._lookup.member,
            member.group.group_id,
            member.member_id,
            request.connection,
            instance_id=instance_id,
        )
        group = member.group
        while True:
            departures = group.departures
            described, found = yield from look()
            if self._environment.now >= deadline:
                break
            if described is Described.LOADING:
                yield from wait_in_join(
                    member, request, self._environment.now + self._environment.settings.load_retry_s
                )
            elif described in _IN_A_CONSUMER_GROUP and _may_have_lost_its_last(
                group, departures, self._environment.now
            ):
                yield from wait_in_join(
                    member, request, self._environment.now + self._environment.settings.join_poll_s
                )
            else:
                break
        if described is Described.REPLACED:
            raise Failed(ErrorCode.FENCED_INSTANCE_ID, "another process has its instance id")
        if owns_partitions and described is Described.HIDDEN and not self._ids.is_issued(member.member_id):
            # The broker knows who it is, and believes what the classic JoinGroup of a member of either protocol
            # reports.
            raise StaysClassic
        if described in (Described.LOADING, Described.UNAVAILABLE) and (
            owns_partitions or self._member_log.why_not_begin(member) != ErrorCode.NONE
        ):
            # It may still be a member. A heartbeat with epoch 0 would give away what it works on, and to tell it that
            # it is none would make it give that up.
            raise Failed(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker does not say whether it is a member"
            )
        if described in _NO_SUCH_MEMBER and described is not Described.CLASSIC_GROUP:
            ensure_may_begin(self._member_log, member)
        ensure_client_waiting(self._connections, member, request)
        return described, found

    def _ensure_latest(self, member: Member, connection: Connection) -> Procedure[None]:
        """Raise if another process has served this client since this one last heard of it.

        Then the JoinGroup may be a delayed one of a client that has joined there since, and the owned partitions that
        it reports are out of date. A client that is here retries, and its next JoinGroup counts.
        """
        if (yield from self._adoption.resync_epoch(member, connection)):
            raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "another process has moved its epoch")

    def ensure_convertible(self, member: Member, request: Request, deadline: float) -> Procedure[None]:
        """Return when the group can be converted, before a first heartbeat that was refused is tried again.

        The check before the first try may not hold any more: a coordinator that has failed over has forgotten the
        rebalance that was under way, and a group without members may have classic ones now.
        """
        if member.joined or member.group.is_consumer_group(self._environment.now):
            return
        yield from self._await_convertible(member, request, deadline)

    def _await_convertible(
        self,
        member: Member,
        request: Request,
        deadline: float,
        old_classic_membership: PendingSwitch | None = None,
    ) -> Procedure[None]:
        """Wait until nothing stands in the way of converting the group.

        The client's old classic membership ends meanwhile: a rebalance, or the group that has to become empty, may wait
        for it. If it begins a rebalance in a group that could be converted, that ends first.
        """
        group = member.group
        while True:
            departures = group.departures
            yield from self._ensure_not_held(member, request)
            obstacle, why = yield from find_obstacle(self._environment, self._registry, self._rules, group)
            if obstacle is Obstacle.NONE and _may_have_lost_its_last(
                group, departures, self._environment.now
            ):
                obstacle, why = Obstacle.TRANSIENT, "a member of the new protocol leaves it"
            match obstacle:
                case Obstacle.NONE:
                    if old_classic_membership is None:
                        return
                case Obstacle.MEMBERS:
                    self._move_all(group, why)
                    if self._environment.now >= deadline:
                        raise _members_remain(self._environment, group, why)
                case Obstacle.PERMANENT:
                    raise PassesThrough(f"not converted: {why}", for_s=self._environment.settings.relayed_s)
                case Obstacle.TRANSIENT:
                    if self._environment.now >= deadline:
                        raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"not converted: {why}")
            if old_classic_membership is not None:
                yield from leave_classic(group, old_classic_membership)
                old_classic_membership = None
                if obstacle is Obstacle.NONE and group.migration.moves_all(self._environment.now):
                    return  # the group is empty
            yield from wait_in_join(
                member, request, self._environment.now + self._environment.settings.join_poll_s
            )

    def _move_all(self, group: Group, why: str) -> None:
        """Have all members told to rejoin, unless steps move only a part of them."""
        stays = why_only_as_a_whole(self._moves, group.group_id, why)
        if stays is not None:
            raise PassesThrough(stays, for_s=self._environment.settings.relayed_s)
        group.migration.move_all(self._environment.now)

    def _ensure_not_held(self, member: Member, request: Request) -> Procedure[None]:
        """Raise if the group moves by steps and has become a classic one again, after a slot was taken for this client.

        :raises StaysClassic: the move of its group is held.
        """
        connection = self._connections.connection_of(request)
        if connection is not None and (
            yield from self._slot_admission.hold_if_downgraded(connection, member)
        ):
            raise StaysClassic(as_new=True)


def ensure_may_begin(member_log: MemberLogView, member: Member) -> None:
    """Raise if a membership must not begin under the client's id, because another replica may have begun it."""
    code = member_log.why_not_begin(member)
    if code != ErrorCode.NONE:
        raise Failed(code, "another process has given out its member id, or serves it")


def _must_relay(described: Described, *, stays_classic: bool) -> bool:
    """Whether the broker itself has to answer the JoinGroup.

    A classic member that rejoins stays classic, and is converted at a later Heartbeat, with all that it owns then
    (:mod:`translation.moving.in_place`). Only one whose JoinGroup brokers can't read in a consumer group begins a
    membership of the new protocol here. A JoinGroup under a native member's id would make that a classic member.
    """
    return described is Described.NATIVE_MEMBER or (described is Described.CLASSIC_MEMBER and stays_classic)


def _completes_a_move(old_classic_membership: PendingSwitch | None, *, owns_partitions: bool) -> bool:
    """Whether this JoinGroup completes the move that its client was told to make; one that owns partitions does not."""
    return old_classic_membership is not None and not owns_partitions


def _leave_classic_memberships(
    environment: Environment,
    member: Member,
    request: Request,
    described: Described,
    old_classic_membership: PendingSwitch | None,
) -> Procedure[bool]:
    """End the classic memberships in a consumer group of a client that owns nothing; return whether it had any.

    :raises NeedsNewMemberId: it must not join the new protocol under the id that it had as a classic member.
    """
    group = member.group
    if described is Described.CLASSIC_MEMBER:
        yield from leave_classic_membership(group.group_id, member.member_id, member.client.instance_id)
    if old_classic_membership is not None:
        yield from leave_classic(group, old_classic_membership)
    if described is Described.CLASSIC_MEMBER and member_id_required.may_be_left_again(environment, request):
        raise NeedsNewMemberId("another process may be ending its classic membership too")
    return described is Described.CLASSIC_MEMBER or old_classic_membership is not None


def _may_have_become_classic(group: Group, now: float) -> bool:
    """Whether a consumer group that a classic member has left may be a classic group now.

    The broker makes it one if only classic members are left in it, and begins a rebalance. In that it takes the target
    assignment of each member for what the member owns, so the group must not be converted again before it has ended.
    """
    return not group.is_consumer_group(now)


def _may_have_lost_its_last(group: Group, departures: int, now: float) -> bool:
    """Whether the last member of the new protocol may have left the group since the broker was asked about it.

    ``departures`` are those of the group when it was asked. The broker may have answered that before it served them.
    """
    return bool(group.leaving or group.departures != departures) and not group.is_consumer_group(now)


def _members_remain(environment: Environment, group: Group, why: str) -> Outcome:
    """How a JoinGroup ends if its group, which has to be empty to be converted, still has members.

    No first heartbeat is sent to try: even a refused conversion fails the JoinGroups that wait at the broker.
    """
    if group.migration.moves_all(environment.now) and not environment.settings.sole_process:
        # Another process tells its clients only when it finds the group Stable, so not all are told at the same moment.
        return Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "others have still to leave the classic group")
    return PassesThrough(
        f"not all of its members have left it: {why}", for_s=passthrough_backoff_s(environment, group)
    )
