"""Takes over a member that the broker has and this process does not know, when any call of its client comes, also
after a restart of the proxy; or one that the broker has fenced.

The proxy was restarted, or the client came from another replica. Replicas share nothing, so the broker is asked with
ConsumerGroupDescribe. What that says of ownership is not used, because it can be incomplete; only the client knows what
it owns, and reports it in a JoinGroup:

* A Heartbeat, SyncGroup or commit adopts the member and is then handled as usual (:meth:`~Adoption.adopt_then`); the
  client is told to rejoin, unless a member log says what it has (:mod:`translation.joining.resumption`).
* A JoinGroup adopts it and goes on (:meth:`~Adoption.adopt_for_join`). :mod:`translation.joining.join_preflight`
  decides that, because a JoinGroup under an unknown id may also be a new client's, or a classic member's.
* A member that is known here, but was served by another process since, is adopted again (:meth:`~Adoption.readopt`,
  :meth:`~Adoption.resync_epoch`).
"""

from collections.abc import Callable

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponseMember
from translation.actions import Connection, EventKind, Request
from translation.engine.context import Context
from translation.engine.member_lookup import Described, Found
from translation.joining.resumption import Resumption
from translation.member_log.outputs import JoinTerms
from translation.members import generation, session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure
from translation.membership import static_members
from translation.moving.in_place import InPlaceConversion
from translation.moving.upgrade import Upgrade
from translation.policy.policy import Mode, Rule


class Adoption:
    """Takes over members that the broker has and this process does not know, or not any more."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._events = context.events
        self._connections = context.connections
        self._lookup = context.lookup
        self._natives = context.natives
        self._resumption = Resumption(context)
        self._in_place_conversion = InPlaceConversion(context)
        self._upgrade = Upgrade(context)

    def adopt_then(
        self,
        member: Member,
        request: Request,
        rule: Rule,
        proceed: Callable[[], Procedure[None]],
        refuse: Callable[[ErrorCode], None],
        looked_up: Found | None,
    ) -> Procedure[None]:
        """Ask the broker about the member of a call; adopt it and ``proceed``, relay the call, or ``refuse`` it.

        ``looked_up`` is what the broker has just said, if it was asked already.

        It is refused if the broker does not know the member either, and if another replica has come to serve the member
        meanwhile. The Heartbeat of a classic member whose turn it is to switch is answered by
        :mod:`translation.moving.upgrade`.
        """
        if not member.joined:
            group_id, instance_id = member.group.group_id, request.message.group_instance_id
            snapshot, group, record = None, None, None  # without a record the broker has been asked already
            if looked_up is None:
                if self._member_log.is_served_elsewhere(member):
                    # Since the log was asked: it waited for its turn. Those behind it need not wait for the broker too.
                    refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                    return
                record = self._member_log.record(member)
                snapshot = yield from self._resumption.accepted_snapshot(member, request)
                described, found, group = yield from self._lookup.with_group(
                    group_id, member.member_id, request.connection, instance_id=instance_id
                )
            else:
                described, found = looked_up
            if described in (Described.UNKNOWN, Described.HIDDEN, Described.REPLACED):
                replaced = described is Described.REPLACED
                refuse(ErrorCode.FENCED_INSTANCE_ID if replaced else ErrorCode.UNKNOWN_MEMBER_ID)
                if described is not Described.HIDDEN and self._member_log.record(member) is record:
                    # Else the description may be from before its client joined under this id through another replica.
                    self._member_log.end(group_id, member.member_id)
                return
            if described is not Described.MEMBER or found is None:
                yield from self._convert_or_relay(member, request, rule, refuse, described)
                return
            if not self._member_log.may_speak_for(member):
                refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return
            is_resumed = False
            if snapshot is not None and group is not None:
                is_resumed = yield from self._resumption.resume(member, request, snapshot, found, group)
            elif request.api_key == ApiKey.HEARTBEAT:
                is_resumed = yield from self._in_place_conversion.repeat_conversion(member, request)
            if not is_resumed:
                self._adopt(member, request, found)
        yield from proceed()

    def _convert_or_relay(
        self,
        member: Member,
        request: Request,
        rule: Rule,
        refuse: Callable[[ErrorCode], None],
        described: Described,
    ) -> Procedure[None]:
        """Relay a call that is the broker's to answer, unless it is a Heartbeat by which its classic member is
        converted.

        The member is of the new protocol by itself, or a classic one, or the broker gives no description now.
        """
        if described is Described.NATIVE_MEMBER:
            self._natives.add(member.group.group_id, member.member_id)
        elif (
            request.api_key == ApiKey.HEARTBEAT
            and rule.mode is Mode.TRANSLATE
            and described in (Described.CLASSIC_MEMBER, Described.CLASSIC_GROUP)
        ):
            mixed = described is Described.CLASSIC_MEMBER
            with member.converting():
                code = yield from self._upgrade.switch_classic_member(member, request, rule, mixed=mixed)
            if code is not None:
                refuse(code)
                return
        self._connections.forward(request)

    def readopt(self, member: Member, request: Request) -> Procedure[ErrorCode | None]:
        """Adopt a known member again: the broker has it at an epoch that is unknown here, so another process has served
        it.

        What is known here does not count any more. The call shows that the client is here now. Returns NONE if the
        member was adopted, else the code for the client: UNKNOWN_MEMBER_ID if the broker does not know the member
        either, COORDINATOR_NOT_AVAILABLE if the broker gives no description, or hides the member while its JoinGroup
        waits. ILLEGAL_GENERATION, and nothing changes, if the call has a generation that is above the broker's epoch
        too: it is of a classic group before this membership.

        Returns None if the call has been forwarded: another process has moved the client back to the classic protocol,
        so the broker itself serves it.
        """
        instance_id = request.message.group_instance_id
        described, found = yield from self._lookup.member(
            member.group.group_id, member.member_id, request.connection, instance_id=instance_id
        )
        # A principal that may not see the members may be somebody else's: a JoinGroup that waits is its client's own.
        is_hidden = described is Described.HIDDEN and member.join.waiting is not None
        if is_hidden or described in (Described.LOADING, Described.UNAVAILABLE):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        carried = generation.in_request(request)
        if found is not None and generation.is_of_another_membership(member, carried, found.member_epoch):
            reason = f"generation {carried}, and the broker is at epoch {found.member_epoch}"
            self._events.emit(EventKind.CALL_REFUSED, member, reason=reason)
            return ErrorCode.ILLEGAL_GENERATION
        if member.joined:
            reason = ErrorCode.FENCED_MEMBER_EPOCH.name
            self._memberships.end(member, MemberEvent.FENCED, EventKind.FENCED, reason)
        if described is Described.REPLACED:
            return ErrorCode.FENCED_INSTANCE_ID
        if described in (Described.CLASSIC_MEMBER, Described.CLASSIC_GROUP):
            static_members.forget_instance(member)
            self._connections.forward(request)
            return None
        if found is None:
            return static_members.membership_error(self._environment, self._registry, member, request.message)
        self._adopt(member, request, found)
        return ErrorCode.NONE

    def _adopt(self, member: Member, request: Request, found: ConsumerGroupDescribeResponseMember) -> None:
        self._connections.bind(member, request.connection)
        member.client.client_id = request.client_id
        member.client.instance_id = found.instance_id
        static_members.claim_instance(self._environment, member)
        generation.adopt(member, request, found.member_epoch)
        member.adopted = True
        member.broker.taken_over_at = self._environment.now
        member.may_have_moved = False
        member.deadlines.keep_alive_at = self._environment.now + member.broker.keep_alive_s
        if member.join.waiting is None:
            self._describe_client(member, found)
            session_timeout.renew(member, self._environment.now)
        self._memberships.change_state(member, MemberEvent.ADOPTED, "found at the broker")
        self._events.emit(EventKind.ADOPTED, member)
        self._environment.book(member)

    def _describe_client(self, member: Member, found: ConsumerGroupDescribeResponseMember) -> None:
        """Take what is known of a client until its JoinGroup says it; one that waits for its answer has said it
        already."""
        terms = self._member_log.terms(member) or JoinTerms()
        member.client.session_timeout_ms = terms.session_timeout_ms
        member.client.rebalance_timeout_ms = terms.rebalance_timeout_ms
        member.client.subscription = frozenset(found.subscribed_topic_names)

    def adopt_for_join(self, member: Member, found: ConsumerGroupDescribeResponseMember) -> None:
        """Adopt a member in its client's JoinGroup, which says everything else, also what the client owns."""
        _take_epoch(self._environment, member, found)
        self._events.emit(EventKind.ADOPTED, member)

    def resync_epoch(self, member: Member, connection: Connection) -> Procedure[bool]:
        """In a JoinGroup, take over the broker's epoch if another process has moved it; return whether it has.

        False too if the broker has no such member. To leave and join again instead would give away at once what the
        client reports as owned.
        """
        _, found = yield from self._lookup.member(member.group.group_id, member.member_id, connection)
        if found is None or found.member_epoch == member.member_epoch:
            return False
        _take_epoch(self._environment, member, found)
        return True


def _take_epoch(environment: Environment, member: Member, found: ConsumerGroupDescribeResponseMember) -> None:
    """Take over the broker's epoch. What the client owns at it is unknown until its JoinGroup is answered."""
    member.member_epoch = found.member_epoch
    member.adopted = True
    member.broker.taken_over_at = environment.now
