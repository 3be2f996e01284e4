"""Goes on with a member without a rejoin at another replica (``fleet.resumes``), although another one has served its
client, or may have.

A replica is replaced, a connection breaks: the client calls another replica, or the same one on another connection. It
has lost nothing, and a rejoin would stop an eager client's partitions. So its Heartbeat or SyncGroup goes on with what
the member log has of it (:mod:`translation.member_log.snapshots`), or with what is known here, if and only if

1. the call has the snapshot's generation;
2. the broker accepts a heartbeat at the snapshot's member epoch on this connection, and it changes nothing. This also
   makes what is described next recent: a description shows committed state only, which lags after a failover;
3. the broker describes the member with the snapshot's epoch, topics and assignment, and assignment epoch and group
   epoch are the same, so nothing is pending. (Partitions that are to be revoked are described since 4.3 only.)

Why that is enough, however old the snapshot is. What the client works on lies within what the broker has as assigned or
pending revocation, since a partition leaves these only when an owned list omits it, and owned lists are the client's.
Nothing is pending, so it lies within the assignment. And it is the whole assignment: a SyncGroup gave it that in this
generation. If the assignment had been another one since, a JoinGroup would have given up what was withdrawn, and after
that the client has another generation.

Without a member log there is no such way: nothing tells whether another process serves the client at this moment.
"""

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from translation.actions import EventKind, Request
from translation.engine.context import Context
from translation.engine.member_log_view import snapshot_of
from translation.engine.member_lookup import Described
from translation.error_mapping import NO_COORDINATOR
from translation.member_log.snapshots import Snapshot
from translation.members import generation, session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure
from translation.membership import static_members
from translation.partitions import NONE, Partitions, from_topics
from translation.policy.assignors import SERVER_ASSIGNORS
from translation.upstream.assignor_vote import assignor_for
from translation.upstream.consumer_group_heartbeat import HeartbeatProcedure, to_send
from translation.upstream.metadata_lookup import learn_topic_names

_CALLS = frozenset({ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP})
"""A JoinGroup says itself what its client has, and a commit does not show where its client is."""


class Resumption:
    """Goes on with memberships of other replicas from their snapshots."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._rules = context.rules
        self._events = context.events
        self._connections = context.connections
        self._classic_members = context.classic_members
        self._lookup = context.lookup
        self._topic_names = context.topic_names

    def accepted_snapshot(self, member: Member, request: Request) -> Procedure[Snapshot | None]:
        """Return what the member log has of a member, if the call and the broker's answer to a heartbeat agree with
        it."""
        if request.api_key not in _CALLS or member.join.waiting is not None:
            return None
        if self._classic_members.find(member.group.group_id, member.member_id) is not None:
            return None  # any heartbeat under its id would convert it
        snapshot = self._member_log.snapshot(member)
        if snapshot is None or not _is_of_caller(snapshot, request):
            return None
        response = yield from _beat(member, snapshot, request)
        return snapshot if _changes_nothing(snapshot, response) else None

    def resume(
        self,
        member: Member,
        request: Request,
        snapshot: Snapshot,
        found: ConsumerGroupDescribeResponseMember,
        group: ConsumerGroupDescribeResponseDescribedGroup,
    ) -> Procedure[bool]:
        """Serve a member that is unknown here as its snapshot has it; return False, and change nothing, if it
        disagrees.

        ``snapshot`` is an :meth:`accepted_snapshot`; ``found`` and ``group`` are what the broker described after that.
        """
        assignment = _assignment_of(snapshot)
        if not _agrees(snapshot, assignment, found, group):
            return False
        yield from learn_topic_names(self._environment, self._topic_names, assignment)
        if any(topic_id not in self._topic_names for topic_id, _ in assignment):
            return False  # what its principal may not describe is not handed out
        if member.joined or member.join.waiting is not None or not self._member_log.may_speak_for(member):
            return False
        self._restore(member, snapshot, assignment)
        self._connections.bind(member, request.connection)
        member.client.client_id = request.client_id
        member.client.instance_id = found.instance_id
        static_members.claim_instance(self._environment, member)
        member.deadlines.keep_alive_at = self._environment.now + member.broker.keep_alive_s
        session_timeout.renew(member, self._environment.now)
        self._memberships.change_state(member, MemberEvent.RESUMED, MemberEvent.RESUMED.value)
        self._events.emit(EventKind.ADOPTED, member)
        self._environment.book(member)
        return True

    def has_stayed(self, member: Member, request: Request) -> Procedure[bool | None]:
        """Whether a client that was away comes back to a member that is as it left it; if so, it goes on here.

        Its connection was closed, so that another replica might have served it; the member log says that none does.
        None: the coordinator has not loaded the group, or has moved away, so its client has to ask again.
        """
        before = snapshot_of(member)
        if (
            not self._member_log.resumes
            or before is None
            or before.generation != generation.in_request(request)
            or not self._member_log.may_speak_for(member)
        ):
            return False
        response = yield from _beat(member, before, request)
        if response.error_code in NO_COORDINATOR:
            return None
        if not _changes_nothing(before, response):
            return False
        described, found, group = yield from self._lookup.with_group(
            member.group.group_id,
            member.member_id,
            request.connection,
            instance_id=request.message.group_instance_id,
        )
        if described in (Described.LOADING, Described.UNAVAILABLE):
            return None
        if found is None or group is None or not _agrees(before, _assignment_of(before), found, group):
            return False
        if snapshot_of(member) != before or not self._member_log.may_speak_for(member):
            return False
        self._connections.bind(member, request.connection)
        member.may_have_moved = False
        return True

    def _restore(self, member: Member, snapshot: Snapshot, assignment: Partitions) -> None:
        """Take over what the snapshot has, and the terms of the record in which it was written."""
        client, broker, partitions = member.client, member.broker, member.partitions
        terms = self._member_log.terms(member)
        if terms is not None:
            client.session_timeout_ms = terms.session_timeout_ms
            client.rebalance_timeout_ms = terms.rebalance_timeout_ms
        client.subscription = broker.subscription = frozenset(snapshot.subscription)
        client.protocol_type, client.protocol_name = snapshot.protocol_type, snapshot.protocol_name
        client.embedded_version = snapshot.embedded_version
        client.cooperative = snapshot.cooperative
        client.mapped_assignor = snapshot.mapped_assignor
        client.rack = snapshot.rack
        broker.assignor = snapshot.assignor
        broker.effective_assignor = assignor_for(self._rules, member)
        partitions.broker_assignment = partitions.synced_assignment = partitions.possibly_owned = assignment
        partitions.pending_revocation, partitions.reported_owned = NONE, None
        broker.taken_over_at = self._environment.now
        member.adopted = member.may_have_moved = False
        generation.resume(member, snapshot.generation, snapshot.member_epoch)


def _is_of_caller(snapshot: Snapshot, request: Request) -> bool:
    """Whether the call agrees with the snapshot, which may be somebody else's forgery.

    A SyncGroup that names another assignor would be refused for it, and with an assignor that brokers do not have, the
    whole group would vote for that.
    """
    return (
        snapshot.generation == generation.in_request(request)
        and snapshot.mapped_assignor in SERVER_ASSIGNORS.values()
        and (
            request.api_key != ApiKey.SYNC_GROUP
            or request.message.protocol_name in (None, snapshot.protocol_name)
        )
    )


def _assignment_of(snapshot: Snapshot) -> Partitions:
    return frozenset(
        (Uuid(topic_id), index) for topic_id, indexes in snapshot.assignment for index in indexes
    )


def _beat(member: Member, snapshot: Snapshot, request: Request) -> HeartbeatProcedure:
    """Send a heartbeat at the snapshot's epoch that changes nothing at the broker."""
    response: ConsumerGroupHeartbeatResponse = yield to_send(
        ConsumerGroupHeartbeatRequest(
            group_id=member.group.group_id,
            member_id=member.member_id,
            member_epoch=snapshot.member_epoch,
            instance_id=request.message.group_instance_id,
        )
    )
    return response


def _changes_nothing(snapshot: Snapshot, response: ConsumerGroupHeartbeatResponse) -> bool:
    return (
        response.error_code == ErrorCode.NONE
        and response.member_epoch == snapshot.member_epoch
        and response.assignment is None
    )


def _agrees(
    snapshot: Snapshot,
    assignment: Partitions,
    found: ConsumerGroupDescribeResponseMember,
    group: ConsumerGroupDescribeResponseDescribedGroup,
) -> bool:
    """Whether the broker describes the member as the snapshot has it, with nothing pending in its group."""
    return (
        snapshot.member_epoch == found.member_epoch == group.assignment_epoch == group.group_epoch
        and set(found.subscribed_topic_names) == set(snapshot.subscription)
        and from_topics(found.assignment.topic_partitions) == assignment
    )
