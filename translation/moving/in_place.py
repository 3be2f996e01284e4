"""Converts a classic member to the new protocol in place, under its own id and with all its partitions, or decides
that it has to rejoin.

The conversion of a group gives each classic member its generation as member epoch (``ConsumerGroup.fromClassicGroup``).
So a heartbeat under the member's own id, with its generation as epoch, its subscription and its whole owned list,
repeats what the broker has already: the broker answers with the same epoch and the same assignment, and no member has
to rejoin. At epoch 0 the owned list would have to be empty, and the broker would give away what the target assignment
has moved meanwhile.

This happens at a Heartbeat that the broker itself has accepted a moment before, and only if all of it is certain:

* the member's JoinGroup and the SyncGroup of this generation passed through here
  (:mod:`translation.engine.classic_members`), and it has nothing left to give up;
* the call comes from the client that joined, on a connection that may describe all of its topics;
* with a member log, this replica serves the member; no commit of it is under way on another connection, since a commit
  below v9 is refused for a member of the new protocol;
* policy, gate and connection are still the same after each wait.

What is not certain costs its client one ordinary rebalance: the Heartbeat is answered REBALANCE_IN_PROGRESS. The client
gives up its partitions by its own rules, its commits count, and its JoinGroup is relayed; after that all is known.
"""

import math
from collections.abc import Collection
from enum import Enum, auto

from protocol_codecs import ApiKey, ErrorCode, MalformedMessage, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol_codecs.messages.consumer_protocol import (
    NEWEST_EMBEDDED_VERSION,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation.actions import Call, Connection, ConnectionId, EventKind, Request
from translation.admission import authorization
from translation.admission.serving import MemberServing
from translation.conversion import helper
from translation.conversion.helper import Helpers
from translation.conversion.last_consumer_member import CLASSIC
from translation.engine.classic_members import ClassicMember
from translation.engine.context import Context, replaced
from translation.error_mapping import NO_COORDINATOR
from translation.member_log.outputs import JoinTerms
from translation.members import generation, session_timeout
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_ids import LONGEST_MEMBER_ID
from translation.members.member_state import MemberEvent, MemberState
from translation.members.procedure import Procedure, ProcedureQueue, UpstreamLost
from translation.membership import static_members
from translation.partitions import NONE, Partitions, from_topics
from translation.policy.assignors import is_cooperative, map_assignor
from translation.policy.policy import Rule
from translation.upstream.assignor_vote import NO_VOTE, assignor_for
from translation.upstream.consumer_group_heartbeat import UpstreamHeartbeats
from translation.upstream.metadata_lookup import lookup_topics
from translation.upstream.rebalance_detection import client_has_all, detect_rebalance

_FIRST_WITH_OWNED = 1
_JOIN_GROUP_VERSION, _SYNC_GROUP_VERSION = 5, 3

_REJOIN_ASKED_S = 600.0
"""A client that has rejoined and is unknown all the same is not made to rejoin again before so long."""
_QUESTIONS = 50
"""While a commit is under way on another connection, so many questions to the broker are waited for: each takes a round
trip, in which the member's new calls wait for their turn."""

UNNOTICED = f"{MemberEvent.CONVERTED}: 0 ms, not noticed"
_NOTICED = f"{MemberEvent.CONVERTED}, and rejoins: the group's assignment has moved on"


class _Missing(Enum):
    """What keeps a member from being converted at this Heartbeat."""

    KNOWLEDGE = auto()
    """Its JoinGroup or SyncGroup has not passed through here: after an ordinary rebalance it has."""
    TIME = auto()
    """A rebalance or a revocation is not over, or something is under way: at a later Heartbeat."""
    RIGHT = auto()
    """It stays classic: something will not change by itself."""


class _NotConverted(Exception):
    """Raised where the conversion of a member stops; nothing has changed."""

    def __init__(self, missing: _Missing, why: str = "") -> None:
        super().__init__(why)
        self.missing = missing


class InPlaceConversion:
    """Converts classic members without a JoinGroup of their clients."""

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
        self._classic_members = context.classic_members
        self._topic_names = context.topic_names
        self._helpers = Helpers(context)
        self._member_serving = MemberServing(context)
        self._upstream_heartbeats = UpstreamHeartbeats(context)

    def convert_in_place(
        self, member: Member, request: Request, rule: Rule, *, mixed: bool
    ) -> Procedure[ErrorCode | None]:
        """Convert the member of a Heartbeat; return the code to answer it with, or None to relay it.

        ``mixed`` says that the group is a consumer group already. A member that can't be converted now stays classic.
        """
        group = member.group
        response: HeartbeatResponse = yield Call(ApiKey.HEARTBEAT, request.version, request.message)
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                self._classic_members.rebalance_announced(
                    group.group_id, member.member_id, self._environment.now
                )
            return ErrorCode(response.error_code)  # a rebalance has begun, or it is no member any more
        if not self._is_to_be_converted(group.group_id, rule):
            return ErrorCode.NONE  # nor need it rejoin
        try:
            return (yield from self._convert(member, request, rule, mixed=mixed))
        except _NotConverted as stopped:
            match stopped.missing:
                case _Missing.KNOWLEDGE:
                    return self._ask_to_rejoin(group, request)
                case _Missing.TIME:
                    self._registry.relay(
                        group,
                        member.member_id,
                        self._environment.now + self._environment.settings.assignment_interval_s,
                    )
                case _Missing.RIGHT:
                    self._registry.relay(group, member.member_id)
                    reason = f"not converted: {stopped}"
                    self._events.emit_group(EventKind.PASSED_THROUGH, group.group_id, request, reason)
            return ErrorCode.NONE

    def repeat_conversion(self, member: Member, request: Request) -> Procedure[bool]:
        """Convert a member that the broker has in the new protocol already, because the answer to that was lost.

        The same call may be repeated as long as the member's epoch is its generation. Return whether it was accepted.
        Not so if another process may have converted it, without a member log: the client may have got more there, and
        rejoined with the same generation, so that what is known here is not all that it owns.
        """
        if self._may_know_less():
            return False
        try:
            known = self._settled(member, request)
            if known is None:
                return False
            subscription, owned, topics = yield from self._facts(known)
            yield from self._claim(member, known, request.connection)
            if self._settled(member, request) is not known:
                return False
            self._describe(member, request.connection, known, subscription)
            yield from self._heartbeat(member, known, known.generation, topics, owned)
        except _NotConverted:
            return False
        self._finish(member, request.connection)
        return True

    def _may_know_less(self) -> bool:
        """Whether another process may have served a member since, and nothing says so."""
        return not self._environment.settings.sole_process and self._member_log.log is None

    def _convert(self, member: Member, request: Request, rule: Rule, *, mixed: bool) -> Procedure[ErrorCode]:
        connection = request.connection
        group = member.group
        known = self._settled(member, request)
        if known is None:
            raise _NotConverted(_Missing.KNOWLEDGE)

        def ensure_same_client() -> None:
            if (
                self._classic_members.find(group.group_id, member.member_id) is not known
                or known.assignment is None
                or not self._connections.is_still_connected(request)
            ):
                raise _NotConverted(_Missing.TIME)

        def ensure_unchanged() -> None:
            ensure_same_client()
            if not self._is_to_be_converted(group.group_id, rule):
                raise _NotConverted(_Missing.TIME)

        subscription, owned, topics = yield from self._facts(known)
        ensure_unchanged()
        yield from self._claim(member, known, connection)
        ensure_unchanged()
        yield from self._drain_commits(known, group.group_id, connection)
        ensure_unchanged()
        if not mixed:
            yield from self._convert_group(group, connection, known.generation)
        elif group.conversion is None:
            self._helpers.begin(group, connection)  # another process has converted it
        described = yield from helper.describe(connection, group.group_id)
        ensure_unchanged()
        if not mixed:
            yield from self._ensure_assigned(group, described)
            ensure_unchanged()
        if described is not None and not _is_described(described, known, owned):
            # A topic that is new is not known to the coordinator when it converts the group, and is lost without an
            # error.
            raise _NotConverted(
                _missing_while_it_differs(self._environment, known), "the broker describes it otherwise"
            )
        known.differs_since = math.inf
        member_epoch = known.generation
        if self._environment.now < known.timers_until:
            if described is None or described.group_epoch != known.generation:
                # A JoinGroup would move the member on.
                raise _NotConverted(_Missing.TIME, "a rebalance is not over")
            member_epoch, is_as_before = yield from _rejoin(
                self._environment, group.group_id, known, subscription
            )
            ensure_same_client()
            self._ensure_may_go_on(group.group_id, rule, is_as_before=is_as_before)
        self._describe(member, connection, known, subscription)
        yield from self._heartbeat(member, known, member_epoch, topics, owned)
        self._finish(member, connection)
        return (
            ErrorCode.REBALANCE_IN_PROGRESS
            if member.state is MemberState.PREPARE_REBALANCE
            else ErrorCode.NONE
        )

    def _is_to_be_converted(self, group_id: str, rule: Rule) -> bool:
        """Whether the policy is still the same after a wait, and no gate of the group's move has closed."""
        return self._rules.rule_for(group_id) is rule and (
            rule.abort_if is None or self._moves.gates.verdict(group_id, rule).may_move_members
        )

    def _ensure_may_go_on(self, group_id: str, rule: Rule, *, is_as_before: bool) -> None:
        """Raise if a member is not to be converted any more after its JoinGroup was sent once more.

        If a rebalance has begun that very moment, the broker has moved it on, and its client knows nothing of that. So
        it is converted whatever the policy says by now, and rejoins; but not in a move that is rolled back.
        """
        if is_as_before and not self._is_to_be_converted(group_id, rule):
            raise _NotConverted(_Missing.TIME)
        if group_id in self._rules.rolled_back:
            raise _NotConverted(_Missing.KNOWLEDGE)

    def _settled(self, member: Member, request: Request) -> ClassicMember | None:
        """What is known of the member of a Heartbeat, if that is all and the Heartbeat agrees with it."""
        message: HeartbeatRequest = request.message
        known = self._classic_members.find(member.group.group_id, member.member_id)
        if known is None or known.assignment is None or known.generation != message.generation_id:
            return None
        if not known.is_same_client(request) or known.instance_id != (message.group_instance_id or None):
            raise _NotConverted(_Missing.TIME)  # somebody else's call in its name
        return known

    def _facts(
        self, known: ClassicMember
    ) -> Procedure[tuple[ConsumerProtocolSubscription, Partitions, frozenset[str]]]:
        """The subscription of a member, the partitions that it owns, and the topics that its principal may describe."""
        try:
            _, subscription = decode_subscription(known.metadata)
            assigned = decode_assignment(known.assignment)[1].assigned_partitions if known.assignment else ()
        except MalformedMessage as error:
            raise _NotConverted(
                _Missing.RIGHT, f"what {known.member_id} sent or got is not readable: {error}"
            ) from None
        pairs = {(topic.topic, index) for topic in assigned for index in topic.partitions}
        reported = {
            (topic.topic, index) for topic in subscription.owned_partitions for index in topic.partitions
        }
        if not reported <= pairs:
            raise _NotConverted(
                _missing_while_it_differs(self._environment, known), "it has partitions to give up"
            )
        topics = frozenset(subscription.topics)
        _ensure_subscribed(known, pairs, topics)
        ids: dict[str, Uuid] = {}
        forbidden = set[str]()
        if topics:
            ids, forbidden = yield from lookup_topics(self._environment, self._topic_names, topics)
        if any(topic in forbidden for topic, _ in pairs):
            raise _NotConverted(
                _Missing.RIGHT, f"the principal of {known.member_id} may not describe its topics"
            )
        if any(topic not in ids for topic, _ in pairs):
            raise _NotConverted(_Missing.TIME, "the broker does not know a topic now")
        return subscription, frozenset((ids[topic], index) for topic, index in pairs), topics - forbidden

    def _claim(self, member: Member, known: ClassicMember, connection: Connection) -> Procedure[None]:
        terms = JoinTerms(known.session_timeout_ms, known.rebalance_timeout_ms, known.instance_id)
        if not (yield from self._member_serving.claim_classic_member(member, connection, terms)):
            raise _NotConverted(_Missing.TIME, "the member log does not say that it is served here")

    def _drain_commits(self, known: ClassicMember, group_id: str, connection: Connection) -> Procedure[None]:
        """Return when no commit of the member that was relayed on another connection is under way any more.

        The broker answers the requests of one connection in order, so a question behind the commit is answered after
        it. New commits of the member wait for their turn meanwhile.
        """
        others = {
            one
            for one in known.commits_on
            if one != connection.id and self._connections.connection(one) is not None
        }
        question = authorization.question(connection, group_id)

        def ask(connection_id: ConnectionId) -> Procedure[None]:
            try:
                yield question
            finally:
                others.discard(connection_id)

        for connection_id in sorted(others):
            self._scheduler.start(ask(connection_id), ProcedureQueue(), connection_id, known.client_id)
        for _ in range(_QUESTIONS):
            if not others:
                return
            yield question
        if others:
            raise _NotConverted(_Missing.TIME, "a commit is under way")

    def _convert_group(self, group: Group, connection: Connection, generation_id: int) -> Procedure[None]:
        """Have the group's helper convert it; return if each member's epoch is its generation now."""
        if group.conversion is not None and group.conversion.helper_id:
            return  # since the broker was asked
        if group.conversion is not None and not (group.conversion.is_return or group.conversion.stands_in):
            raise _NotConverted(_Missing.TIME, "its helper is joining")
        conversion = self._helpers.begin(group, connection)
        try:
            response = yield from self._helpers.join(conversion)
        except UpstreamLost:
            self._helpers.end(group)
            raise
        if response.error_code != ErrorCode.NONE:
            self._helpers.end(group)
            raise _refused(response)
        group.migration.converted()
        if response.member_epoch != generation_id:
            raise _NotConverted(_Missing.TIME, "its group has another generation")

    def _ensure_assigned(self, group: Group, described: helper.DescribedGroup | None) -> Procedure[None]:
        """Return if every partition has an owner in a group that has just been converted.

        Else a member had just left, or partitions were added that the classic leader had not assigned. The group epoch
        moves, and all classic members rejoin once, as they would have.
        """
        if described is not None and (yield from helper.has_every_partition(described)):
            return
        if group.conversion is not None and group.conversion.helper_id:
            yield from self._helpers.move_group_epoch(group.conversion)
        raise _NotConverted(_Missing.TIME, "partitions had no owner")

    def _heartbeat(
        self,
        member: Member,
        known: ClassicMember,
        member_epoch: int,
        topics: frozenset[str],
        owned: Partitions,
    ) -> Procedure[None]:
        """Send the heartbeat that converts the member; raise if the broker does not accept it, and nothing has
        changed."""
        generation.resume(member, known.generation, member_epoch)
        member.partitions.broker_assignment = member.partitions.synced_assignment = owned
        member.partitions.possibly_owned = owned
        try:
            response = yield from self._upstream_heartbeats.full_heartbeat(member, topics, owned)
        except UpstreamLost:
            _undo(member)
            raise
        if response.error_code != ErrorCode.NONE:
            _undo(member)
            raise _refused(response)

    def _describe(
        self,
        member: Member,
        connection: Connection,
        known: ClassicMember,
        subscription: ConsumerProtocolSubscription,
    ) -> None:
        """Take over what the client said in its JoinGroup."""
        client = member.client
        self._connections.bind(member, connection)
        client.client_id, client.instance_id = known.client_id, known.instance_id
        client.session_timeout_ms = known.session_timeout_ms
        client.rebalance_timeout_ms = known.rebalance_timeout_ms
        client.protocol_type, client.protocol_name = known.protocol_type, known.protocol_name
        client.cooperative = is_cooperative(known.offered)
        client.mapped_assignor = map_assignor(known.offered)
        client.embedded_version = min(_embedded_version(known), NEWEST_EMBEDDED_VERSION)
        client.subscription = frozenset(subscription.topics)
        client.rack = subscription.rack_id or None
        member.broker.effective_assignor = assignor_for(self._rules, member)
        member.broker.assignor = NO_VOTE
        member.last_join_on, member.last_join_host = known.joined_on, known.client_host
        # Until now the broker served it, and this Heartbeat shows where its client is.
        member.join_answered_on, member.may_have_moved = connection.id, False

    def _finish(self, member: Member, connection: Connection) -> None:
        """Record that the broker has the member in the new protocol, with the assignment of its response."""
        group = member.group
        self._classic_members.forget(group.group_id, member.member_id)
        group.relayed_until.pop(member.member_id, None)
        group.asked_to_rejoin.pop(member.member_id, None)
        group.migration.converted()
        static_members.claim_instance(self._environment, member)
        session_timeout.renew(member, self._environment.now)
        reason = UNNOTICED if client_has_all(self._topic_names, member) else _NOTICED
        self._memberships.change_state(member, MemberEvent.CONVERTED, reason)
        self._events.emit(EventKind.ADOPTED, member, reason=reason)
        self._member_log.has_begun(member)
        self._member_log.heard(member, connection.id)
        self._moves.has_begun(group.group_id, member.member_id)
        detect_rebalance(self._environment, self._topic_names, self._memberships, self._events, member)
        self._member_log.has_synced(member)
        if group.conversion is not None:
            group.conversion.stands_in = False
            group.conversion.changed_at = self._environment.now
            self._environment.timers.book(group.conversion, self._environment.now + 1.0)
        self._environment.book(member)

    def _ask_to_rejoin(self, group: Group, request: Request) -> ErrorCode:
        """Have a client rejoin by whose calls all becomes known; not again and again, if it stays unknown."""
        member_id: str = request.message.member_id
        if len(member_id) > LONGEST_MEMBER_ID:
            return ErrorCode.NONE  # nothing is remembered of it, so it would have to rejoin again and again
        asked = group.asked_to_rejoin
        first = asked.get(member_id)
        if first is None:
            asked[member_id] = self._environment.now
            while len(asked) > self._environment.settings.relayed_limit:
                del asked[next(iter(asked))]
            reason = "asked to rejoin: its subscription and assignment are not known here"
            self._events.emit_group(EventKind.PASSED_THROUGH, group.group_id, request, reason)
            return ErrorCode.REBALANCE_IN_PROGRESS
        if self._environment.now - first > _REJOIN_ASKED_S:
            del asked[member_id]
        self._registry.relay(group, member_id)
        return ErrorCode.NONE


def _missing_while_it_differs(environment: Environment, known: ClassicMember) -> _Missing:
    """What is missing while the broker has something else of a member, or it has partitions to give up.

    Time, since it rejoins when it has given them up. A client that reported what it did not have any more does not, nor
    does one whose topic was deleted and created again: those need a JoinGroup.
    """
    known.differs_since = min(known.differs_since, environment.now)
    is_late = environment.now - known.differs_since >= environment.settings.revocation_grace_s
    return _Missing.KNOWLEDGE if is_late else _Missing.TIME


def _ensure_subscribed(
    known: ClassicMember, pairs: Collection[tuple[str, int]], topics: frozenset[str]
) -> None:
    """Raise if the member has a topic outside its subscription: its client would break on a part of its assignment."""
    if any(topic not in topics for topic, _ in pairs):
        raise _NotConverted(
            _Missing.RIGHT, f"{known.member_id} is assigned a topic that it does not subscribe to"
        )


def _is_described(described: helper.DescribedGroup, known: ClassicMember, owned: Partitions) -> bool:
    """Whether the broker has the member as a classic one, with the epoch and the assignment that are known here."""
    return any(
        member.member_id == known.member_id
        and member.member_type == CLASSIC
        and member.member_epoch == known.generation
        and from_topics(member.assignment.topic_partitions) == owned
        for member in described.members
    )


def _rejoin(
    environment: Environment, group_id: str, known: ClassicMember, subscription: ConsumerProtocolSubscription
) -> Procedure[tuple[int, bool]]:
    """Send the member's JoinGroup and SyncGroup once more, to the consumer group, with all that it owns.

    Both are answered at once, and no other member notices. They stop the timers of the classic membership, which would
    remove the member after its conversion. Returns the member's epoch now, and whether that and its assignment are
    those that its client has.
    """
    owned = decode_assignment(known.assignment)[1].assigned_partitions if known.assignment else ()
    metadata = encode_subscription(
        replaced(subscription, owned_partitions=owned),
        min(max(_embedded_version(known), _FIRST_WITH_OWNED), NEWEST_EMBEDDED_VERSION),
    )
    joined: JoinGroupResponse = yield Call(
        ApiKey.JOIN_GROUP,
        _JOIN_GROUP_VERSION,
        JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=known.session_timeout_ms,
            rebalance_timeout_ms=known.rebalance_timeout_ms,
            member_id=known.member_id,
            group_instance_id=known.instance_id,
            protocol_type=known.protocol_type,
            protocols=(JoinGroupRequestProtocol(name=known.protocol_name, metadata=metadata),),
        ),
    )
    if joined.error_code != ErrorCode.NONE:
        raise _NotConverted(_Missing.TIME, "a rebalance has begun")
    synced: SyncGroupResponse = yield Call(
        ApiKey.SYNC_GROUP,
        _SYNC_GROUP_VERSION,
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=known.member_id,
            group_instance_id=known.instance_id,
        ),
    )
    is_at_same = joined.generation_id == known.generation
    if synced.error_code != ErrorCode.NONE:
        missing = _Missing.TIME if is_at_same else _Missing.KNOWLEDGE
        raise _NotConverted(missing, "a rebalance has begun")
    known.timers_until = environment.now
    return joined.generation_id, is_at_same and _pairs(synced.assignment) == _pairs(known.assignment or b"")


def _pairs(assignment: bytes) -> frozenset[tuple[str, int]]:
    """Raises MalformedMessage."""
    topics = decode_assignment(assignment)[1].assigned_partitions if assignment else ()
    return frozenset((topic.topic, index) for topic in topics for index in topic.partitions)


def _embedded_version(known: ClassicMember) -> int:
    return int.from_bytes(known.metadata[:2], "big")


def _undo(member: Member) -> None:
    generation.forget(member)
    partitions = member.partitions
    partitions.broker_assignment = partitions.synced_assignment = partitions.possibly_owned = NONE
    partitions.pending_revocation = NONE
    member.broker.reply_lost = False
    member.broker.assignor = None


def _refused(response: ConsumerGroupHeartbeatResponse) -> _NotConverted:
    code = response.error_code
    transient = code in NO_COORDINATOR or code in _NOT_NOW
    why = f"the broker answered {ErrorCode(code).name}: {response.error_message or 'no message'}"
    return _NotConverted(_Missing.TIME if transient else _Missing.RIGHT, why)


_NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The group has become a classic one again, or the member is at another generation, or is none: the answer to its next
Heartbeat says so."""
