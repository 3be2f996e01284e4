"""Builds the ConsumerGroupHeartbeat requests of a member, decides how often the broker gets one (keepalive), and
applies the broker's responses.

What the broker does, as read from Kafka 4.0 to 4.4 (``GroupMetadataManager``, ``CurrentAssignmentBuilder``):

* An owned list that is not null acknowledges the revocation of everything that it omits; a null list acknowledges
  nothing. When a list is sent is decided in :mod:`translation.upstream.owned_partitions`.
* The response has the assignment if the request had epoch 0 or was a full one, and if the request changed it.
* After a lost response the previous epoch is still accepted if the owned list is within the assignment.
"""

from contextlib import nullcontext

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
)
from translation.actions import Call, Connection, EventKind
from translation.engine.context import Context, replaced
from translation.engine.member_log_view import MemberLogView
from translation.engine.reach import Reach
from translation.members import rebalance_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberState
from translation.members.procedure import Procedure, UpstreamLost
from translation.partitions import NONE, Partitions, from_topics, to_topics
from translation.upstream.assignor_vote import assignor_in_full, changed_assignor
from translation.upstream.metadata_lookup import lookup_topics
from translation.upstream.owned_partitions import acknowledge, has_to_report_owned

HEARTBEAT_VERSION = 1
"""The version of ConsumerGroupHeartbeat. In v0 the broker chooses the member id, from v1 on the client does."""

_TRIED_AGAIN = frozenset({ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Codes after which a heartbeat is sent once more, without what was refused."""

# What each heartbeat is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_NONE = ErrorCode.NONE
_TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_STABLE = MemberState.STABLE
_HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT

HeartbeatProcedure = Procedure[ConsumerGroupHeartbeatResponse]


def heartbeat_version(connection: Connection) -> int | None:
    """:data:`HEARTBEAT_VERSION` if this broker has it; None if it has no new protocol."""
    return connection.version(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, newest=HEARTBEAT_VERSION, oldest=HEARTBEAT_VERSION
    )


def send_heartbeat(
    environment: Environment,
    member_log: MemberLogView,
    member: Member,
    request: ConsumerGroupHeartbeatRequest,
) -> HeartbeatProcedure:
    """Send a heartbeat; record whether its response was lost, and which assignor the broker accepted with it.

    An owned list is not sent if another replica has come to serve the member: as if the coordinator were not there.
    """
    if request.topic_partitions is not None and not member_log.may_speak_for(member):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    membership = member.incarnation
    member.broker.sent_at = environment.now
    try:
        response: ConsumerGroupHeartbeatResponse = yield to_send(request)
    except UpstreamLost:
        mark_reply_lost(member, membership)
        raise
    return check_incarnation(member, membership, request, response)


def to_send(request: ConsumerGroupHeartbeatRequest) -> Call:
    """The request as a procedure yields it."""
    return Call(_HEARTBEAT, HEARTBEAT_VERSION, request)


def mark_reply_lost(member: Member, membership: int) -> None:
    """Record that the response to a heartbeat never comes, unless its membership has ended since.

    ``membership`` is the member's incarnation when the heartbeat was sent.
    """
    member.broker.reply_lost = membership == member.incarnation


def check_incarnation(
    member: Member,
    membership: int,
    request: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
) -> ConsumerGroupHeartbeatResponse:
    """Return a response as it is if its membership still lasts, else as UNKNOWN_MEMBER_ID; record the assignor.

    ``membership`` is the member's incarnation when the request was sent.
    """
    if membership != member.incarnation:  # it ended while the request was under way
        response = replaced(response, error_code=ErrorCode.UNKNOWN_MEMBER_ID, assignment=None)
    elif request.server_assignor is not None and response.error_code == ErrorCode.NONE:
        member.broker.assignor = request.server_assignor
    return response


def _full_request(
    environment: Environment,
    member_log: MemberLogView,
    member: Member,
    topics: frozenset[str],
    owned: Partitions,
) -> ConsumerGroupHeartbeatRequest:
    rebalance_timeout_ms = rebalance_timeout.told_to_broker_ms(
        member.client, _margin_ms(environment, member_log)
    )
    assignor = assignor_in_full(member)
    # One of several processes sends it often, and it is nearly always the same.
    contents = (
        member.member_epoch,
        member.client.instance_id,
        member.client.rack,
        rebalance_timeout_ms,
        assignor,
    )
    last = member.broker.last_full_request
    if last is not None and last[0] == contents and last[1] is topics and last[2] is owned:
        return last[3]
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group.group_id,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.client.instance_id,
        rack_id=member.client.rack,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=tuple(sorted(topics)),
        server_assignor=assignor,
        topic_partitions=to_topics(owned),
    )
    member.broker.last_full_request = contents, topics, owned, request
    return request


def _margin_ms(environment: Environment, member_log: MemberLogView) -> int:
    """By how much the broker is told more than the client's own timeouts."""
    settings = environment.settings
    if member_log.log is None:
        return settings.upstream_margin_ms
    return settings.upstream_margin_ms + int(settings.report_interval_s * 1000)


class UpstreamHeartbeats:
    """Sends the heartbeats of members, and applies the responses."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._events = context.events
        self._connections = context.connections
        self._reach = context.reach
        self._topic_names = context.topic_names

    def full_heartbeat(self, member: Member, topics: frozenset[str], owned: Partitions) -> HeartbeatProcedure:
        """Send a heartbeat with all fields: to join (epoch 0, nothing owned), or to report what the client owns.

        ``owned`` is the client's own report; the broker takes everything that it omits as given up.
        """
        # Taken before the answer: a repeated heartbeat must not mistake its own epoch for the one that was asked for.
        joining = member.member_epoch == 0
        with member.group.beginning() if joining else nullcontext():
            response = yield from send_heartbeat(
                self._environment,
                self._member_log,
                member,
                _full_request(self._environment, self._member_log, member, topics, owned),
            )
        if response.error_code == ErrorCode.NONE:
            member.broker.subscription = topics
            member.broker.subscribed_on = member.queue.running_on
            self._apply_response(member, response, NONE if joining else owned)
        return response

    def keepalive_heartbeat(self, member: Member, *, client_is_here: bool = False) -> HeartbeatProcedure:
        """Send a heartbeat to stay in the group; it never acknowledges the revocation of what the client may work on.

        After a lost response it is a full request with everything that the client may work on, because a minimal one
        would never bring the lost assignment again. It is a full one too while the epoch is 0, which means "join", and
        when the broker waits for partitions that the client never had, because they were withdrawn before SyncGroup
        handed them out. The last holds only if ``client_is_here``: a call of the client caused this heartbeat, so no
        other process serves it and has handed out anything else.

        An assignor that the policy has changed goes with it. One that the broker does not have is given up.
        """
        request = keepalive_request(
            self._environment, self._member_log, member, client_is_here=client_is_here
        )
        response = yield from send_heartbeat(self._environment, self._member_log, member, request)
        return (yield from self.complete_heartbeat(member, request, response, client_is_here=client_is_here))

    def complete_heartbeat(
        self,
        member: Member,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        *,
        client_is_here: bool,
    ) -> HeartbeatProcedure:
        """Apply the response to a :func:`keepalive_request`; send it once more if something was refused that it can
        omit.

        Returns the response that counts.
        """
        if response.error_code == _TOPIC_REFUSED and member.broker.subscribed_on != member.queue.running_on:
            # The client subscribed on another connection, and this one's principal may not describe all of its topics.
            # A minimal request would not bring a lost assignment again, and the known epoch may be an older one, for
            # which the broker fences the member. While the other connection is open, the next full request on it brings
            # both.
            if member.broker.reply_lost and self._connections.is_connected(member.broker.subscribed_on):
                return response
            return (yield from self._heartbeat_without_topics(member))
        if response.error_code in _TRIED_AGAIN:
            yield from self._drop_what_was_refused(member, response.error_code)
            request = keepalive_request(
                self._environment, self._member_log, member, client_is_here=client_is_here
            )
            response = yield from send_heartbeat(self._environment, self._member_log, member, request)
        if response.error_code == _NONE:
            self._apply_response(
                member,
                response,
                None if request.topic_partitions is None else member.partitions.possibly_owned,
            )
        return response

    def _heartbeat_without_topics(self, member: Member) -> HeartbeatProcedure:
        """Send a heartbeat for a principal that may not describe the member's topics.

        After a lost response it names what the client may work on: only then the broker accepts the epoch before its
        own, which may be the one that is known here. The lost assignment does not come so, and is asked for at the next
        call.
        """
        lost = member.broker.reply_lost
        owned = member.partitions.possibly_owned if lost else None
        request = _minimal_request(member, owned)
        response = yield from send_heartbeat(self._environment, self._member_log, member, request)
        if response.error_code == _NONE:
            self._apply_response(member, response, owned)
            member.broker.reply_lost = lost and response.assignment is None
        return response

    def _drop_what_was_refused(self, member: Member, error_code: int) -> Procedure[None]:
        """Give up the assignor, or the topics, for which the broker refused a heartbeat."""
        if error_code == ErrorCode.UNSUPPORTED_ASSIGNOR:
            reason = f"the broker does not have the assignor {member.broker.effective_assignor!r} that the policy says"
            self._events.emit(EventKind.CALL_REFUSED, member, reason=reason)
            member.broker.effective_assignor = member.broker.assignor or member.client.mapped_assignor
        else:  # it was allowed when the client joined
            _, forbidden = yield from lookup_topics(
                self._environment, self._topic_names, member.broker.subscription
            )
            member.broker.subscription -= forbidden

    def _apply_response(
        self, member: Member, response: ConsumerGroupHeartbeatResponse, owned: Partitions | None
    ) -> None:
        """Take over the epoch and the assignment of a response.

        ``owned`` is the owned list of the request, None if it had none.
        """
        epoch_before = member.member_epoch
        assigned = member.partitions.broker_assignment
        if response.assignment is not None:
            assigned = from_topics(response.assignment.topic_partitions)
        released = acknowledge(member, assigned, owned)
        member.member_epoch = response.member_epoch
        member.broker.reply_lost = False
        record_contact(self._environment, self._reach, member, response, reported=owned is not None)
        if released or member.member_epoch > epoch_before > 0:
            # Others may get the partitions that were given up; a moved epoch means a new target assignment.
            self._memberships.heartbeat_group(member.group)


def is_unchanged(member: Member, response: ConsumerGroupHeartbeatResponse) -> bool:
    """Whether a response changes nothing, as most do: then only :func:`record_contact` follows.

    All others go through :meth:`~UpstreamHeartbeats.complete_heartbeat` and
    :func:`~translation.upstream.rebalance_detection.detect_rebalance`.
    """
    partitions = member.partitions
    return not (
        response.error_code != _NONE
        or response.member_epoch != member.member_epoch
        or member.machine.state is not _STABLE
        or member.join.waiting is not None
        or member.broker.reply_lost
        or partitions.pending_revocation
        or partitions.synced_assignment != partitions.broker_assignment
        or (response.assignment is not None and not _has_assigned(member, response.assignment))
    )


def _has_assigned(member: Member, assignment: ConsumerGroupHeartbeatResponseAssignment) -> bool:
    """Whether a response has the assignment that the member has. The same bytes mostly decode to the same object."""
    known = member.broker.decoded_assignment
    if known is not None and known[0] is assignment and known[1] is member.partitions.broker_assignment:
        return True
    same = from_topics(assignment.topic_partitions) == member.partitions.broker_assignment
    if same:
        member.broker.decoded_assignment = assignment, member.partitions.broker_assignment
    return same


def keepalive_request(
    environment: Environment, member_log: MemberLogView, member: Member, *, client_is_here: bool
) -> ConsumerGroupHeartbeatRequest:
    """The request that :meth:`~UpstreamHeartbeats.keepalive_heartbeat` sends."""
    if has_to_report_owned(environment, member_log, member, client_is_here=client_is_here):
        return _full_request(
            environment, member_log, member, member.broker.subscription, member.partitions.possibly_owned
        )
    return _minimal_request(member)


def _minimal_request(member: Member, owned: Partitions | None = None) -> ConsumerGroupHeartbeatRequest:
    """A request that identifies the member and has its assignor if that changed; null fields mean "unchanged"."""
    return ConsumerGroupHeartbeatRequest(
        group_id=member.group.group_id,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.client.instance_id,
        server_assignor=changed_assignor(member),
        topic_partitions=None if owned is None else to_topics(owned),
    )


def record_contact(
    environment: Environment,
    reach: Reach,
    member: Member,
    response: ConsumerGroupHeartbeatResponse,
    *,
    reported: bool,
) -> None:
    """Record that the broker has the member at this moment, and schedule the next keep-alive at its interval.

    ``reported``: the request had an owned list.
    """
    member.broker.replied_at, member.broker.heard_at = environment.now, member.broker.sent_at
    if reported:
        member.broker.reported_at = environment.now
    if response.heartbeat_interval_ms > 0:  # the response to a leave has none
        member.broker.keep_alive_s = response.heartbeat_interval_ms / 1000
    if member.group.out_of_reach or member.group.dead:
        reach.reached(member)
    schedule_keepalive(environment, member)


def schedule_keepalive(environment: Environment, member: Member) -> None:
    """Book the heartbeat that keeps the broker's session alive if the client's own come less often."""
    member.deadlines.keep_alive_at = environment.now + member.broker.keep_alive_s
    if (
        member.timer_at > member.deadlines.keep_alive_at
        or member.timer_at > member.deadlines.session_deadline
    ):
        environment.book(member)  # else it is called early enough, as nearly always: both have moved back
