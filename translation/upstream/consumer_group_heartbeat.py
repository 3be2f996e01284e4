"""The member's side of the new protocol: ConsumerGroupHeartbeat requests, and what their answers mean.

How the broker behaves here was read from Kafka 4.0 to 4.4 (``GroupMetadataManager``,
``CurrentAssignmentBuilder``):

* An owned list that is not null acknowledges the revocation of everything that it omits. A null list
  acknowledges nothing. So the list is sent for a JoinGroup only, which is the client's own word, and once
  after a lost answer, when it names everything that the client may hold.
* The assignment is in the answer at epoch 0, on a full request, and when it changed in this very call.
* After a lost answer the previous epoch is still accepted if the owned list is within the assignment.
"""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
)
from translation import rebalance_timeout
from translation.actions import Connection, EventKind
from translation.engine.context import Context, replaced
from translation.engine.member import Group, Member
from translation.engine.procedure import Procedure, Send, UpstreamLost
from translation.member_state import MemberState
from translation.partitions import NONE, Partitions, from_topics, to_topics
from translation.policy.policy import Mode
from translation.upstream.metadata_lookup import lookup_topics
from translation.upstream.owned_partitions import acknowledge, has_to_report_owned

HEARTBEAT_VERSION = 1
"""The version of ConsumerGroupHeartbeat. In v0 the broker chooses the member id, from v1 on the client does."""

LEAVE_EPOCH = -1
"""The member epoch that leaves the group."""

LEAVE_STATIC_EPOCH = -2
"""The member epoch with which a static member says that its instance id will be back."""

_TRIED_AGAIN = frozenset({ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Answers to a heartbeat after which it is sent once more, without what was refused."""

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


def send_heartbeat(member: Member, request: ConsumerGroupHeartbeatRequest) -> HeartbeatProcedure:
    """Send a heartbeat, and note what is known whatever the answer says."""
    membership = member.incarnation
    try:
        response: ConsumerGroupHeartbeatResponse = yield to_send(request)
    except UpstreamLost:
        mark_reply_lost(member, membership)
        raise
    return check_incarnation(member, membership, request, response)


def to_send(request: ConsumerGroupHeartbeatRequest) -> Send:
    """The question that a heartbeat is."""
    return Send(_HEARTBEAT, HEARTBEAT_VERSION, request)


def mark_reply_lost(member: Member, membership: int) -> None:
    """The answer to a heartbeat of this membership will never come."""
    member.broker.reply_lost = membership == member.incarnation


def check_incarnation(
    member: Member,
    membership: int,
    request: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
) -> ConsumerGroupHeartbeatResponse:
    """What an answer means to the member of now: it may have begun another membership meanwhile."""
    if membership != member.incarnation:  # it ended while the request was under way
        response = replaced(response, error_code=ErrorCode.UNKNOWN_MEMBER_ID, assignment=None)
    elif request.server_assignor is not None and response.error_code == ErrorCode.NONE:
        member.broker.assignor = request.server_assignor
    return response


def _full_request(
    context: Context, member: Member, topics: frozenset[str], owned: Partitions
) -> ConsumerGroupHeartbeatRequest:
    rebalance_timeout_ms = rebalance_timeout.told_to_broker_ms(
        member.client, context.settings.upstream_margin_ms
    )
    # One of several processes says it at each heartbeat of a client, and nearly always the same.
    says = (
        member.member_epoch,
        member.client.instance_id,
        member.client.rack,
        rebalance_timeout_ms,
        member.broker.effective_assignor,
    )
    said = member.broker.last_full_request
    if said is not None and said[0] == says and said[1] is topics and said[2] is owned:
        return said[3]
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group.group_id,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.client.instance_id,
        rack_id=member.client.rack,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=tuple(sorted(topics)),
        server_assignor=member.broker.effective_assignor,
        topic_partitions=to_topics(owned),
    )
    member.broker.last_full_request = says, topics, owned, request
    return request


def full_heartbeat(
    context: Context, member: Member, topics: frozenset[str], owned: Partitions
) -> HeartbeatProcedure:
    """Heartbeat with everything: to join (epoch 0, nothing owned), or to say what the client holds.

    ``owned`` is the client's own word (see the module's text); what it omits the broker takes as released.
    """
    # Taken before the answer: a repeated heartbeat must not mistake its own epoch for the one that was asked for.
    joining = member.member_epoch == 0
    response = yield from send_heartbeat(member, _full_request(context, member, topics, owned))
    if response.error_code == ErrorCode.NONE:
        member.broker.subscription = topics
        member.broker.subscribed_on = member.queue.running_on
        _apply_response(context, member, response, NONE if joining else owned)
    return response


def keepalive_heartbeat(
    context: Context, member: Member, *, client_is_here: bool = False
) -> HeartbeatProcedure:
    """Heartbeat to stay in the group; never acknowledges a revocation.

    After a lost answer it is a full request that owns everything that the client may hold, because a plain
    one would never bring the lost assignment again. So it is while the epoch is still 0, which means "join", and when
    the broker waits for partitions that the client never had, because they were withdrawn before SyncGroup could
    hand them out. The last is said only if ``client_is_here``: this heartbeat follows from a call of the client,
    so that no other process serves it and has handed out something else.

    An assignor that the policy has changed goes with it. One that the broker does not have is given up.
    """
    request = keepalive_request(context, member, client_is_here=client_is_here)
    response = yield from send_heartbeat(member, request)
    return (yield from complete_heartbeat(context, member, request, response, client_is_here=client_is_here))


def complete_heartbeat(
    context: Context,
    member: Member,
    request: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
    *,
    client_is_here: bool,
) -> HeartbeatProcedure:
    """What follows for the membership from the answer to a :func:`keepalive_request`; gives the answer that counts."""
    if response.error_code == _TOPIC_REFUSED and member.broker.subscribed_on != member.queue.running_on:
        # The topics are another connection's, and this one's principal may not describe all of them. That says nothing
        # of the client that subscribed to them.
        request = _minimal_request(member)
        response = yield from send_heartbeat(member, request)
    elif response.error_code in _TRIED_AGAIN:
        yield from _drop_what_was_refused(context, member, response.error_code)
        request = keepalive_request(context, member, client_is_here=client_is_here)
        response = yield from send_heartbeat(member, request)
    if response.error_code == _NONE:
        _apply_response(
            context,
            member,
            response,
            None if request.topic_partitions is None else member.partitions.possibly_owned,
        )
    return response


def is_unchanged(member: Member, response: ConsumerGroupHeartbeatResponse) -> bool:
    """Whether an answer leaves everything as it is, as most do, so that it is to be noted and no more.

    Else :func:`complete_heartbeat` and :func:`~translation.rebalance_detection.detect_rebalance` see to it.
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
    """Whether it is the assignment that the member has. The same bytes are the same object, as a rule."""
    known = member.broker.decoded_assignment
    if known is not None and known[0] is assignment and known[1] is member.partitions.broker_assignment:
        return True
    same = from_topics(assignment.topic_partitions) == member.partitions.broker_assignment
    if same:
        member.broker.decoded_assignment = assignment, member.partitions.broker_assignment
    return same


def _drop_what_was_refused(context: Context, member: Member, error_code: int) -> Procedure[None]:
    """The broker refused a heartbeat for something that it can do without."""
    if error_code == ErrorCode.UNSUPPORTED_ASSIGNOR:
        reason = (
            f"the broker does not have the assignor {member.broker.effective_assignor!r} that the policy says"
        )
        context.events.emit(EventKind.CALL_REFUSED, member, reason=reason)
        member.broker.effective_assignor = member.broker.assignor or member.client.mapped_assignor
    else:  # it was allowed when the client joined
        _, forbidden = yield from lookup_topics(context, member.broker.subscription)
        member.broker.subscription -= forbidden


def keepalive_request(
    context: Context, member: Member, *, client_is_here: bool
) -> ConsumerGroupHeartbeatRequest:
    """What :func:`keepalive_heartbeat` sends."""
    if has_to_report_owned(context, member, client_is_here=client_is_here):
        return _full_request(context, member, member.broker.subscription, member.partitions.possibly_owned)
    return _minimal_request(member)


def _minimal_request(member: Member) -> ConsumerGroupHeartbeatRequest:
    """All that is left out is null: unchanged."""
    return ConsumerGroupHeartbeatRequest(
        group_id=member.group.group_id,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.client.instance_id,
        server_assignor=_changed_assignor(member),
    )


def _changed_assignor(member: Member) -> str | None:
    """The assignor, if the broker was told another one. That of an adopted member is not known before it joins."""
    unchanged = member.adopted or member.broker.assignor in (None, member.broker.effective_assignor)
    return None if unchanged else member.broker.effective_assignor


def assignor_for(context: Context, member: Member) -> str:
    """The server-side assignor that a member votes for: what the policy says, else what stands in for the client's own.

    All members of a group that are served here vote for one, that of the member which is here for longest. Since Kafka
    4.4 (KAFKA-20434) a group epoch moves with each change of the assignor that most members vote for; of one vote each
    for two assignors the broker takes now this one and now that one, and the group never comes to rest.
    """
    rule = context.rules.rule_for(member.group.group_id)
    if rule.assignor is not None:
        return rule.assignor
    members = member.group.members.values()
    return next(
        (one.client.mapped_assignor for one in members if one.joined and not one.adopted),
        member.client.mapped_assignor,
    )


def update_assignors(context: Context, group: Group) -> None:
    """See that the broker hears which assignor each member of a live group is to have now.

    It goes with a heartbeat, and no client is asked to join again for it: brokers keep what a member says in any
    heartbeat. It takes effect when they next compute the group's assignment, since 4.4 at once.
    """
    if context.rules.rule_for(group.group_id).mode is not Mode.TRANSLATE:
        return
    changed = False
    for member in group.members.values():
        assignor = assignor_for(context, member)
        if (
            assignor != member.broker.effective_assignor
        ):  # also while its first JoinGroup is under way with the older one
            member.broker.effective_assignor = assignor
            changed = True
    if changed:
        context.memberships.heartbeat_group(group)


def leave(member: Member, epoch: int = LEAVE_EPOCH) -> HeartbeatProcedure:
    """Leave the group on the member's behalf: -1 for good, -2 for a static member whose instance comes back."""
    return (yield from leave_for(member, member.member_id, epoch))


def leave_for(member: Member, member_id: str, epoch: int) -> HeartbeatProcedure:
    """The same for another member id with the same instance id: one that this member replaces."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group.group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=member.client.instance_id,
    )
    response: ConsumerGroupHeartbeatResponse = yield Send(_HEARTBEAT, HEARTBEAT_VERSION, request)
    return response


def _apply_response(
    context: Context, member: Member, response: ConsumerGroupHeartbeatResponse, owned: Partitions | None
) -> None:
    """Take over epoch and assignment of an answer.

    ``owned`` is the list that the request carried: what it omitted is acknowledged. None if it carried none.
    """
    epoch_before = member.member_epoch
    assigned = member.partitions.broker_assignment
    if response.assignment is not None:
        assigned = from_topics(response.assignment.topic_partitions)
    released = acknowledge(member, assigned, owned)
    member.member_epoch = response.member_epoch
    member.broker.reply_lost = False
    record_contact(context, member, response)
    if released or member.member_epoch > epoch_before > 0:
        # Released partitions are free for the others; a moved epoch says that the target is a new one.
        context.memberships.heartbeat_group(member.group)


def record_contact(context: Context, member: Member, response: ConsumerGroupHeartbeatResponse) -> None:
    """The broker has the member at this moment, and says when it wants to hear of it again."""
    member.broker.replied_at = context.now
    if response.heartbeat_interval_ms > 0:  # the answer to a leave names none
        member.broker.keep_alive_s = response.heartbeat_interval_ms / 1000
    schedule_keepalive(context, member)


def schedule_keepalive(context: Context, member: Member) -> None:
    """Book the heartbeat that keeps the broker's session alive if the client's own come more slowly."""
    member.deadlines.keep_alive_at = context.now + member.broker.keep_alive_s
    if (
        member.timer_at > member.deadlines.keep_alive_at
        or member.timer_at > member.deadlines.session_deadline
    ):
        context.book(member)  # else it is called early enough, as nearly always: both have moved back
