"""JoinGroup: makes the client a member of the new protocol, or reports what it still owns and fetches its assignment.
It chooses the client's protocol, rack and topics, without those that its principal may not describe.

Every client is answered as a follower: no leader and no member list, since the broker assigns the partitions and
SyncGroup hands them out. If there is no assignment yet, the answer waits here: JoinGroup is the one call in which every
client expects to wait.
"""

from protocol_codecs import ErrorCode, MalformedMessage
from protocol_codecs.messages.consumer_protocol import (
    NEWEST_EMBEDDED_VERSION,
    ConsumerProtocolSubscription,
    decode_subscription,
)
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from translation import error_mapping
from translation.actions import EventKind, Request
from translation.apis.assignment_wait import AssignmentWait
from translation.conversion.classic_join import ClassicJoins
from translation.conversion.convertibility import passthrough_backoff_s, type_of_other_group
from translation.engine.context import Context
from translation.engine.join_outcomes import (
    Failed,
    Outcome,
    PassesThrough,
    StaysClassic,
    ensure_client_waiting,
    refuse_superseded,
    refused,
    restart_session_timer,
)
from translation.engine.join_wait import join_wait_limit_s, take_over_waiting_join, wait_in_join
from translation.joining.adoption import Adoption
from translation.joining.join_preflight import (
    JoinPreflight,
    ensure_may_begin,
)
from translation.members import generation, rebalance_timeout, session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_parts import PendingSwitch
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure, UpstreamLost
from translation.membership import static_members
from translation.membership.expiry import Expiry
from translation.partitions import NONE, Partitions
from translation.policy.assignors import is_cooperative, map_assignor
from translation.policy.client_offer import offer_of
from translation.upstream.assignor_vote import assignor_for
from translation.upstream.consumer_group_heartbeat import UpstreamHeartbeats
from translation.upstream.leave_epoch import leave, leave_to_rejoin
from translation.upstream.metadata_lookup import learn_topic_names, lookup_topics
from translation.upstream.owned_partitions import emit_revoked, owned_in_join, reported_partitions

_POLLS_AT_ONCE = 3
"""For so many polls for an empty group, less the head start of an initial rebalance, its first member waits."""
_ATTEMPTS = 4


class JoinGroups:
    """Translates JoinGroups."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._moves = context.moves
        self._rules = context.rules
        self._events = context.events
        self._scheduler = context.scheduler
        self._connections = context.connections
        self._ids = context.ids
        self._topic_names = context.topic_names
        self._join_preflight = JoinPreflight(context)
        self._assignment_wait = AssignmentWait(context)
        self._classic_joins = ClassicJoins(context)
        self._expiry = Expiry(context)
        self._upstream_heartbeats = UpstreamHeartbeats(context)
        self._adoption = Adoption(context)
        self._context = context

    def join(
        self, member: Member, request: Request, old_classic_membership: PendingSwitch | None
    ) -> Procedure[None]:
        """Handle a JoinGroup of the consumer protocol under a member id (the client's own, or one made for it).

        ``old_classic_membership`` is the classic membership that this client gave up because the policy changed. The
        JoinGroup is answered with a generation, relayed (:class:`StaysClassic`), or ended by an :class:`Outcome`.
        """
        message: JoinGroupRequest = request.message
        if message.member_id and static_members.is_fenced(
            self._environment, self._registry, message.group_id, member.member_id, message.group_instance_id
        ):
            # Replaced while this call waited.
            self._connections.answer(request, refused(request, ErrorCode.FENCED_INSTANCE_ID))
            return
        if self._connections.is_stale(member, request):
            self._connections.answer(
                request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id)
            )
            return
        try:
            embedded_version, subscription = decode_subscription(message.protocols[0].metadata)
        except MalformedMessage as error:
            reason = f"the subscription is not readable: {error}"
            self._events.emit_group(EventKind.PASSED_THROUGH, member.group.group_id, request, reason)
            self._connections.forward(request)
            return
        take_over_waiting_join(self._scheduler, member)
        holder = member.group.static_members.get(message.group_instance_id or "")
        self._describe_client(member, request, subscription)
        member.client.embedded_version = min(embedded_version, NEWEST_EMBEDDED_VERSION)
        # As classic brokers do: while the client waits for the answer, no deadline of its own runs.
        member.deadlines.stop()
        deadline = self._environment.now + join_wait_limit_s(
            self._environment, member.client.rebalance_timeout_ms, member.group
        )
        reported_owned = reported_partitions(subscription)
        incarnation = member.incarnation
        try:
            yield from self._join_preflight.join_preflight(
                member, request, old_classic_membership, deadline, owns_partitions=bool(reported_owned)
            )
            static_members.claim_after_preflight(self._environment, member, instead_of=holder)
            if not reported_owned:
                yield from self._end_abandoned_memberships(member, request)
            owned_partitions = yield from owned_in_join(
                self._environment, self._topic_names, member, reported_owned
            )
            emit_revoked(self._events, member, owned_partitions)
            while True:
                owned_partitions = yield from self._heartbeat_until_joined(
                    member, request, reported_owned, owned_partitions, deadline, incarnation
                )
                yield from learn_topic_names(
                    self._environment, self._topic_names, member.partitions.broker_assignment
                )
                if (
                    yield from self._assignment_wait.await_assignment(
                        member, request, owned_partitions, deadline
                    )
                ):
                    break
                # Its membership was lost. The broker may have made the group a classic one since, and in the rebalance
                # that follows it must not be converted.
                yield from self._join_preflight.join_preflight(
                    member, request, None, deadline, owns_partitions=False
                )
        except StaysClassic as stays:
            self._free_slot(member)
            refuse_superseded(self._connections, member)
            joins = self._classic_joins
            relay = joins.relay_as_member_or_new if stays.as_new else joins.relay_classic_join
            yield from relay(request)
        except Outcome as outcome:
            self._end_by(member, request, outcome)
        except UpstreamLost:
            restart_session_timer(self._environment, member)
            refuse_superseded(self._connections, member)  # on other connections, which are still there
            raise
        else:
            if self._member_log.may_speak_for(member):
                self._answer(member, request, owned_partitions)
            else:
                self._expiry.drop_taken(member)
                _taken(member).apply(self._context, member, request)

    def _end_by(self, member: Member, request: Request, outcome: Outcome) -> None:
        if isinstance(outcome, PassesThrough):
            self._free_slot(member)
        outcome.apply(self._context, member, request)

    def _free_slot(self, member: Member) -> None:
        """Free the slot of a client that stays classic, if nobody else may begin a membership under its id."""
        if not member.joined and self._ids.is_issued(member.member_id):
            self._moves.free_unused(member.group.group_id, member.member_id)

    def _describe_client(
        self, member: Member, request: Request, subscription: ConsumerProtocolSubscription
    ) -> None:
        message: JoinGroupRequest = request.message
        protocols = [protocol.name for protocol in message.protocols]
        self._connections.bind(member, request.connection)
        member.last_join_on, member.last_join_host = request.connection.id, request.connection.client_host
        member.client.client_id = request.client_id
        member.client.instance_id = message.group_instance_id or None
        static_members.claim_when_join_begins(self._environment, member, is_new=not message.member_id)
        member.client.session_timeout_ms = message.session_timeout_ms
        member.client.rebalance_timeout_ms = rebalance_timeout.of_client_ms(message)
        member.client.protocol_type = message.protocol_type
        member.client.protocol_name = protocols[0]
        member.client.cooperative = is_cooperative(protocols)
        member.client.mapped_assignor = map_assignor(protocols)
        member.client.offer = offer_of(message).bounded
        member.broker.effective_assignor = assignor_for(self._rules, member)
        member.client.subscription = frozenset(subscription.topics)
        # librdkafka writes an empty one, which the broker refuses.
        member.client.rack = subscription.rack_id or None

    def _heartbeat_until_joined(
        self,
        member: Member,
        request: Request,
        reported_owned: set[tuple[str, int]],
        owned_partitions: Partitions,
        deadline: float,
        incarnation: int,
    ) -> Procedure[Partitions]:
        """Send full heartbeats until the broker accepts one; return what the client owns in that membership.

        ``incarnation`` is the member's when the JoinGroup began: if it is another now, the broker has lost the
        membership of that time. Raises the :class:`Outcome` with which the JoinGroup ends if the broker does not accept
        any.
        """
        topics = member.client.subscription
        replaced: list[str] = []
        attempts = 0
        refused_before = False
        while True:
            joining = self._begins_membership(member, incarnation)
            membership = member.incarnation
            response = yield from self._upstream_heartbeats.full_heartbeat(
                member, topics, NONE if joining else owned_partitions
            )
            code = response.error_code
            if code == ErrorCode.NONE:
                if joining:
                    self._begin_membership(member, deadline, incarnation, replaced)
                return owned_partitions
            if self._environment.now < deadline and _is_transient(code, joining=joining):
                yield from wait_in_join(
                    member, request, self._environment.now + self._environment.settings.load_retry_s
                )
                yield from self._join_preflight.ensure_convertible(member, request, deadline)
                # Else it may own more elsewhere than it reported here.
                ensure_client_waiting(self._connections, member, request)
                continue
            # What follows ends memberships. If the client has hung up, that could be one it has begun elsewhere since.
            ensure_client_waiting(self._connections, member, request)
            attempts += 1
            why = f"the broker answered {ErrorCode(code).name}: {response.error_message or 'no message'}"
            if attempts == _ATTEMPTS:
                raise Failed(error_mapping.for_join(code), why)
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # Classic JoinGroup never asked for DESCRIBE on the topics: join with those that are allowed.
                _, forbidden = yield from lookup_topics(self._environment, self._topic_names, topics)
                topics -= forbidden
            elif (
                code == ErrorCode.FENCED_MEMBER_EPOCH
                and not joining
                and (yield from self._adoption.resync_epoch(member, request.connection))
            ):
                owned_partitions = yield from owned_in_join(
                    self._environment, self._topic_names, member, reported_owned
                )
            elif code in error_mapping.MEMBERSHIP_LOST or (
                code == ErrorCode.GROUP_ID_NOT_FOUND and not joining
            ):
                # The membership is lost, or an older one under this id is in the way. The client is not told: some
                # cooperative clients keep their partitions when JoinGroup fails. A new membership begins under the same
                # id. SyncGroup withholds what the client reports as owned and does not get back, so that it joins
                # again.
                yield from self._leave_old_membership(member, code, membership)
                # If it was the last one of the new protocol, the group is a classic one now, in a rebalance.
                yield from self._join_preflight.ensure_convertible(member, request, deadline)
                ensure_client_waiting(self._connections, member, request)
            elif code == ErrorCode.UNRELEASED_INSTANCE_ID:
                is_new = not request.message.member_id
                replaced += yield from static_members.release_instance(
                    self._context, member, request, is_new=is_new
                )
            elif joining and code in error_mapping.NOT_CONVERTIBLE:
                first = code == ErrorCode.GROUP_ID_NOT_FOUND and not refused_before
                yield from self._check_once_more(member, request, deadline, why, first=first)
                refused_before = True
            else:
                raise Failed(error_mapping.for_join(code), why)

    def _begins_membership(self, member: Member, incarnation: int) -> bool:
        """Whether the next heartbeat is the first of a membership; raises if that may not begin here.

        ``incarnation`` is the member's when the JoinGroup began.
        """
        if member.member_epoch > 0:
            return False
        if member.taken and member.incarnation != incarnation:
            raise _taken(member)  # since the JoinGroup began: the membership goes on elsewhere, or here again
        ensure_may_begin(self._member_log, member)
        # One that the broker has lost in the middle of this JoinGroup goes on: its client is not told.
        if member.incarnation == incarnation and not self._moves.may_begin(
            member.group.group_id, member.member_id
        ):
            raise Failed(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{member.member_id} has no slot of its group's step"
            )
        return True

    def _begin_membership(
        self, member: Member, deadline: float, incarnation: int, replaced: list[str]
    ) -> None:
        """Record that the broker accepted the first heartbeat: the group is a consumer group, and its members are
        heartbeated, because they may lose partitions to this one.

        ``replaced`` are the member ids that had this one's instance id before.
        """
        for replaced_id in replaced:
            self._member_log.end(member.group.group_id, replaced_id)
        _take_part_in_initial_rebalance(self._environment, member, deadline)
        member.group.migration.converted()
        self._member_log.has_begun(member)
        self._moves.has_begun(member.group.group_id, member.member_id)
        self._memberships.heartbeat_group(member.group)
        if member.incarnation != incarnation:
            self._events.emit(EventKind.REJOINED_AFTER_LOSS, member, reason="renewed inside JoinGroup")

    def _check_once_more(
        self, member: Member, request: Request, deadline: float, why: str, *, first: bool
    ) -> Procedure[None]:
        """Check again why the broker does not convert the group: a member may have joined that it can't carry over.

        Raises the outcome if that is so, or if it was checked before (``first`` is False).
        """
        if not first:
            other = yield from type_of_other_group(request.connection, member.group.group_id)
            if other is not None:
                why = f"its id belongs to a {other} group"
            raise PassesThrough(why, for_s=passthrough_backoff_s(self._environment, member.group))
        yield from self._join_preflight.ensure_convertible(member, request, deadline)

    def _end_abandoned_memberships(self, member: Member, request: Request) -> Procedure[None]:
        """End adopted memberships whose client joins anew as another member and owns nothing.

        A client does so when its own session timer ran out while it could not reach any broker. Its session timeout is
        unknown here before it joins, so without this its partitions would have no owner for much longer than it asked
        for.
        """
        for other in list(member.group.members.values()):
            if (
                other is not member
                and other.adopted
                and other.client.instance_id is None
                and (other.connection_id, other.client.client_id)
                == (request.connection.id, request.client_id)
                and other.queue.idle
            ):
                if self._member_log.log is not None:
                    # Its id may be used elsewhere: it goes the way of one whose client fell silent.
                    other.deadlines.session_deadline = self._environment.now
                    self._environment.book(other)
                    continue
                yield from leave(other)
                if other.joined:
                    reason = "its client joined again under another member id"
                    self._memberships.end(other, MemberEvent.LEFT, EventKind.LEFT, reason)
                    self._registry.drop_if_idle(other)

    def _leave_old_membership(self, member: Member, error_code: int, incarnation: int) -> Procedure[None]:
        """End an old membership under this member's id, whatever the broker still has of it.

        ``incarnation`` is the member's when the heartbeat was sent that the broker has answered with the error.
        """
        was_taken = member.taken and member.incarnation != incarnation
        # Also if it has come back meanwhile: then the answer is not of the membership that is served here now.
        if was_taken or not self._member_log.may_speak_for(member):
            raise _taken(member)
        yield from leave_to_rejoin(member)
        if member.joined:
            # The client goes on working on what it owns.
            possibly_owned, reported_owned = (
                member.partitions.possibly_owned,
                member.partitions.reported_owned,
            )
            self._memberships.end(member, MemberEvent.FENCED, EventKind.FENCED, ErrorCode(error_code).name)
            member.partitions.possibly_owned, member.partitions.reported_owned = (
                possibly_owned,
                reported_owned,
            )

    def _answer(self, member: Member, request: Request, owned_partitions: Partitions) -> None:
        """Answer with a generation: the client now owns what it reported, and its session timeout runs again."""
        generation.give(member)
        member.partitions.possibly_owned = owned_partitions
        member.partitions.reported_owned = None
        member.adopted = False
        # A client that has hung up meanwhile may have been elsewhere when it comes back.
        member.may_have_moved = not any(
            self._connections.is_waiting(waiting) for waiting in (request, *member.join.superseded_requests)
        )
        member.join_answered_on = member.last_join_on
        self._member_log.heard(member, member.last_join_on)
        session_timeout.renew(member, self._environment.now)
        # The client is within its contract until this has passed without a SyncGroup.
        rebalance_timeout.start(member, self._environment.now)
        self._memberships.change_state(member, MemberEvent.JOIN_ANSWERED, "JoinGroup answered")
        self._events.emit(EventKind.JOINED, member, partitions=owned_partitions)
        self._environment.book(member)
        response = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=member.generation,
            protocol_type=member.client.protocol_type,
            protocol_name=member.client.protocol_name,
            leader="",
            member_id=member.member_id,
            members=(),
        )
        for waiting in (*member.join.superseded_requests, request):
            self._connections.answer(waiting, response)
        member.join.superseded_requests.clear()


def _taken(member: Member) -> Failed:
    return Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"another replica serves {member.member_id}")


def _take_part_in_initial_rebalance(environment: Environment, member: Member, deadline: float) -> None:
    """Have the first member of an empty group wait for others, and prolong the wait for each that follows.

    In a group that had to become empty so that the broker converts it, the JoinGroups of the others are here or at
    another replica already, and find it empty at their next poll.
    """
    group, now, settings = member.group, environment.now, environment.settings
    is_first = not any(other.joined for other in group.members.values() if other is not member)
    longest_s = join_wait_limit_s(environment, member.client.rebalance_timeout_ms, group)
    came_at, delay_s = deadline - longest_s, settings.initial_rebalance_delay_s if is_first else 0.0
    if is_first and group.migration.moves_all(now):
        group.initial_rebalance.found_new(now)
        came_at, longest_s, delay_s = now, deadline - now, _POLLS_AT_ONCE * settings.join_poll_s
    group.initial_rebalance.member_joined(now, came_at=came_at, delay_s=delay_s, longest_s=longest_s)


def _is_transient(code: int, *, joining: bool) -> bool:
    """Whether the same heartbeat may be accepted a little later."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return True
    # Kafka's answer while it can't convert a classic group that has not completed its first rebalance.
    return joining and code == ErrorCode.UNKNOWN_SERVER_ERROR
