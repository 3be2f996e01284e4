"""Observes members whose requests the broker itself answers, and reports the same events as for translated ones.

These are classic members of groups that are not translated, and members that speak the new protocol themselves. The
proxy shows the observer each such request when it forwards it, and the response when it comes. Nothing here changes a
request. Sans-IO: time is an argument.

A member owns what SyncGroup (or a ConsumerGroupHeartbeat) assigned to it, until a JoinGroup (or an owned list) no
longer names it.
"""

from collections.abc import Iterable
from typing import Any

from protocol_codecs import ApiKey, CodecError, ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.consumer_protocol import decode_assignment, decode_subscription
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from translation import rebalance_timeout
from translation.actions import Connection, ConnectionId, Event, EventKind, MemberProtocol, Request
from translation.member_state import MemberEvent, MemberState
from translation.passthrough.observed_member import NOTHING, ObservedMember, Owned, to_topic_partitions
from translation.passthrough.topic_names import TopicNames

OBSERVED: frozenset[int] = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""The APIs whose answers are looked at when the broker gives them."""

ASKED: frozenset[int] = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT})
"""Those whose requests tell something already when they are passed on. So do those of JoinGroup, which is never passed
on without the translation's word (:class:`translation.actions.Admitted`)."""

_MEMBERS_LIMIT = 50_000
_LONGEST_TEXT = 255
"""Characters. A member with a longer id, or whose client says more of itself, is told of, and not remembered."""
_ENDED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
_ENDINGS = {
    EventKind.LEFT: MemberEvent.LEFT,
    EventKind.FENCED: MemberEvent.FENCED,
    EventKind.SESSION_EXPIRED: MemberEvent.EXPIRED,
}
_CODES = frozenset(ErrorCode)
_CONSUMER = "consumer"


class Observer:
    """The members of one process whose calls pass through. Each method gives the events that follow, in order."""

    def __init__(self, topics: TopicNames, *, members_limit: int = _MEMBERS_LIMIT) -> None:
        self._topics = topics
        self._limit = members_limit
        self._members: dict[tuple[str, str], ObservedMember] = {}
        self._events: list[Event] = []

    def request_forwarded(self, now: float, request: Request) -> list[Event]:
        """A request is forwarded whose sender the broker has accepted before; its answer will follow, or the connection
        ends."""
        member = self._members.get((request.message.group_id, getattr(request.message, "member_id", "")))
        if member is not None:
            if request.api_key == ApiKey.JOIN_GROUP:
                waits_s = max(member.rebalance_timeout_ms, member.session_timeout_ms) / 1000
                member.alive_until = now + waits_s + member.session_timeout_ms / 1000
                if member.state is MemberState.STABLE:
                    self._change(member, MemberEvent.JOIN_FORWARDED, "it joins again")
                self._give_up(member, _reported_owned(request.message))
            elif request.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
                self._apply_owned(member, request.message)
        return self._take()

    def response_received(
        self, now: float, connection: Connection, request: Request, response: Any
    ) -> list[Event]:
        """The broker answered a request that was forwarded.

        A refusal says something of a member only on the connection on which the broker has accepted calls of that
        member: anybody can send a call in its name.
        """
        match request.api_key:
            case ApiKey.JOIN_GROUP:
                self._joined(now, connection, request, response)
            case ApiKey.SYNC_GROUP:
                self._synced(now, connection, request, response)
            case ApiKey.HEARTBEAT:
                self._beat(now, connection, request, response)
            case ApiKey.LEAVE_GROUP:
                self._left(request.message, response)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                self._consumer_beat(now, connection, request, response)
        return self._take()

    def kept_alive(self, now: float, connection_id: ConnectionId, message: HeartbeatRequest) -> bool:
        """The broker accepted a Heartbeat; False if the member is unknown, so :meth:`response_received` has to see it.

        For a known member this is all that :meth:`response_received` does with such a Heartbeat; no event follows.
        """
        member = self._members.get((message.group_id, message.member_id))
        if member is None:
            return False
        member.connection_id = connection_id
        member.touch(now)
        return True

    def member_moved(self, group_id: str, member_id: str, reason: str) -> list[Event]:
        """The translation told a member to join anew: it gives up its partitions, and its membership ends."""
        member = self._members.get((group_id, member_id))
        if member is not None:
            self._end(member, EventKind.LEFT, reason)
        return self._take()

    def member_translated(self, group_id: str, member_id: str) -> None:
        """The translation has this member now, under the same id."""
        self._members.pop((group_id, member_id), None)

    def handle_time(self, now: float) -> list[Event]:
        """Forget who has been silent for its session timeout."""
        for member in [member for member in self._members.values() if member.alive_until < now]:
            self._end(member, EventKind.SESSION_EXPIRED, "no sign of life within the session timeout")
        return self._take()

    # -- classic members -------------------------------------------------------------------------------------

    def _joined(
        self, now: float, connection: Connection, request: Request, response: JoinGroupResponse
    ) -> None:
        message: JoinGroupRequest = request.message
        if response.error_code != ErrorCode.NONE:
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                self._failed(connection, request, response.error_code, "JoinGroup")
            return
        self._forget_predecessor(message.group_id, response.member_id, message.group_instance_id)
        member = self._member(connection, request, response.member_id, MemberProtocol.CLASSIC)
        member.instance_id = message.group_instance_id
        member.session_timeout_ms = message.session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout.of_client_ms(message)
        member.is_consumer = message.protocol_type == _CONSUMER
        member.touch(now)
        member.generation = response.generation_id
        member.owned = _reported_owned(message)
        self._change(member, MemberEvent.JOIN_ANSWERED, "JoinGroup answered")
        self._tell(EventKind.JOINED, member, partitions=member.owned)

    def _give_up(self, member: ObservedMember, reported_owned: Owned) -> None:
        """A JoinGroup does not claim any more what the client held."""
        given_up = (member.owned or NOTHING) - reported_owned
        if given_up:
            member.owned = reported_owned
            self._tell(EventKind.REVOKED, member, partitions=given_up)

    def _synced(
        self, now: float, connection: Connection, request: Request, response: SyncGroupResponse
    ) -> None:
        message = request.message
        member = self._members.get((message.group_id, message.member_id))
        if response.error_code != ErrorCode.NONE:
            self._failed(connection, request, response.error_code, "SyncGroup")
            return
        if member is None:  # its JoinGroup went another way
            member = self._member(connection, request, message.member_id, MemberProtocol.CLASSIC)
            member.instance_id = message.group_instance_id
            member.owned = NOTHING
            member.generation = message.generation_id
            self._tell(EventKind.JOINED, member, reason="first seen at its SyncGroup")
        member.connection_id = connection.id
        member.touch(now)
        handed = _assigned(response.assignment) if member.is_consumer else NOTHING
        kept = member.owned or NOTHING
        member.owned = handed | kept
        if handed - kept:
            self._tell(EventKind.ASSIGNED, member, partitions=handed - kept)
        if kept - handed:
            self._tell(EventKind.REVOKE_REQUESTED, member, partitions=kept - handed)
        self._change(member, MemberEvent.SYNC_ANSWERED, "SyncGroup answered")

    def _beat(
        self, now: float, connection: Connection, request: Request, response: HeartbeatResponse
    ) -> None:
        message = request.message
        member = self._members.get((message.group_id, message.member_id))
        code = response.error_code
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            if code in _ENDED or code in _REJOIN:
                self._failed(connection, request, code, "Heartbeat")
            return
        if member is None:
            member = self._member(connection, request, message.member_id, MemberProtocol.CLASSIC)
            member.instance_id = message.group_instance_id
            member.generation = message.generation_id
            member.machine.handle(MemberEvent.FIRST_SEEN)
            self._tell(EventKind.ADOPTED, member, reason="first seen at its Heartbeat")
        member.connection_id = connection.id
        member.touch(now)
        if code == ErrorCode.REBALANCE_IN_PROGRESS and member.state is MemberState.STABLE:
            self._change(member, MemberEvent.REBALANCE_ANNOUNCED, ErrorCode.REBALANCE_IN_PROGRESS.name)

    def _left(self, message: LeaveGroupRequest, response: LeaveGroupResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            return
        gone: list[tuple[str, str | None, int]] = []
        if message.member_id:
            gone.append((message.member_id, None, ErrorCode.NONE))
        gone += [(one.member_id, one.group_instance_id, one.error_code) for one in response.members]
        for member_id, instance_id, code in gone:
            member = self._members.get((message.group_id, member_id)) or self._static(
                message.group_id, instance_id
            )
            if member is not None and code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
                self._end(member, EventKind.LEFT, "LeaveGroup")

    def _failed(self, connection: Connection, request: Request, code: int, what: str) -> None:
        """A call in the name of a member was answered with an error."""
        member = self._members.get((request.message.group_id, request.message.member_id))
        if member is None or member.connection_id != connection.id:
            return
        name = ErrorCode(code).name if code in _CODES else str(code)
        if code in _ENDED:
            self._end(member, EventKind.FENCED, name)
        elif code in _REJOIN:
            if member.state is not MemberState.PREPARE_REBALANCE:
                self._change(member, MemberEvent.REBALANCE_ANNOUNCED, name)
        else:
            self._tell(EventKind.CALL_REFUSED, member, reason=f"{what}: {name}")

    def _static(self, group_id: str, instance_id: str | None) -> ObservedMember | None:
        if instance_id is None:
            return None
        for member in self._members.values():
            if member.group_id == group_id and member.instance_id == instance_id:
                return member
        return None

    def _forget_predecessor(self, group_id: str, member_id: str, instance_id: str | None) -> None:
        """A newer process has the instance id now."""
        before = self._static(group_id, instance_id)
        if before is not None and before.member_id != member_id:
            self._end(before, EventKind.FENCED, "replaced by a member with the same instance id")

    # -- members of the new protocol -------------------------------------------------------------------------

    def _apply_owned(self, member: ObservedMember, message: ConsumerGroupHeartbeatRequest) -> None:
        """A native member says what it owns: what it leaves out it has given up."""
        if message.topic_partitions is None or member.owned is None:
            return
        given_up = member.owned - _by_id(message.topic_partitions)
        if given_up & member.pending_revocation:
            member.owned -= given_up
            member.pending_revocation -= given_up
            self._tell(EventKind.REVOKED, member, partitions=given_up)
        if not member.pending_revocation and member.state is MemberState.PREPARE_REBALANCE:
            self._change(member, MemberEvent.REVOCATION_ACKNOWLEDGED, "everything asked back was given up")

    def _consumer_beat(
        self, now: float, connection: Connection, request: Request, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        message: ConsumerGroupHeartbeatRequest = request.message
        member_id = response.member_id or message.member_id
        member = self._members.get((message.group_id, member_id))
        if response.error_code != ErrorCode.NONE:
            self._failed(connection, request, response.error_code, "ConsumerGroupHeartbeat")
            return
        if member is not None:
            self._apply_owned(member, message)  # if that was not believed when it was sent
        if message.member_epoch < 0:
            if member is not None:
                self._end(member, EventKind.LEFT, f"epoch {message.member_epoch}")
            return
        if message.subscribed_topic_names:
            self._topics.subscribed(message.group_id, member_id, message.subscribed_topic_names)
        if member is None or message.member_epoch == 0:
            member = self._new_consumer(connection, request, member_id, response.member_epoch)
        member.connection_id = connection.id
        member.touch(now)
        moved = member.member_epoch != response.member_epoch
        member.member_epoch = member.generation = response.member_epoch
        if response.assignment is not None:
            self._reassigned(member, response)
        elif moved:
            self._tell(EventKind.EPOCH_MOVED, member)

    def _new_consumer(
        self, connection: Connection, request: Request, member_id: str, epoch: int
    ) -> ObservedMember:
        message: ConsumerGroupHeartbeatRequest = request.message
        self._forget_predecessor(message.group_id, member_id, message.instance_id)
        member = self._member(connection, request, member_id, MemberProtocol.CONSUMER)
        member.instance_id = message.instance_id
        member.rebalance_timeout_ms = message.rebalance_timeout_ms
        member.member_epoch = member.generation = epoch
        if message.member_epoch == 0:
            member.owned = NOTHING
            self._tell(EventKind.JOINED, member)
            self._change(member, MemberEvent.CONSUMER_JOINED, "joined")
        else:
            member.machine.handle(MemberEvent.FIRST_SEEN)
            self._tell(EventKind.ADOPTED, member, reason="first seen at its heartbeat")
        return member

    def _reassigned(self, member: ObservedMember, response: ConsumerGroupHeartbeatResponse) -> None:
        assert response.assignment is not None  # noqa: S101  the caller looked
        target = _by_id(response.assignment.topic_partitions)
        owned = member.owned or NOTHING
        member.owned = owned | target
        member.pending_revocation = owned - target
        if target - owned:
            self._tell(EventKind.ASSIGNED, member, partitions=target - owned)
        if member.pending_revocation:
            self._change(member, MemberEvent.ASSIGNMENT_CHANGED, "partitions are to be revoked")
            self._tell(EventKind.REVOKE_REQUESTED, member, partitions=member.pending_revocation)

    # -- all -------------------------------------------------------------------------------------------------

    def _member(
        self, connection: Connection, request: Request, member_id: str, protocol: MemberProtocol
    ) -> ObservedMember:
        key = (request.message.group_id, member_id)
        member = self._members.get(key)
        if member is None or member.protocol is not protocol:
            member = ObservedMember(group_id=key[0], member_id=member_id, protocol=protocol)
            if len(self._members) < self._limit and not _is_long(connection, request, member_id):
                self._members[key] = member
        member.connection_id = connection.id
        member.client_id = request.client_id
        member.client_host = connection.client_host
        member.software = connection.software
        return member

    def _change(self, member: ObservedMember, event: MemberEvent, reason: str) -> None:
        before = member.state
        if member.machine.handle(event) is not before:
            self._tell(EventKind.STATE_CHANGED, member, reason=reason, previous_state=before)

    def _end(self, member: ObservedMember, kind: EventKind, reason: str) -> None:
        self._members.pop((member.group_id, member.member_id), None)
        member.owned = NOTHING
        self._change(member, _ENDINGS[kind], reason)
        self._tell(kind, member, reason=reason)
        self._topics.forget(member.group_id, member.member_id)

    def _tell(
        self,
        kind: EventKind,
        member: ObservedMember,
        *,
        reason: str = "",
        previous_state: str = "",
        partitions: Owned = NOTHING,
    ) -> None:
        def name_of(topic_id: Uuid) -> str:
            return self._topics.name(member.group_id, member.member_id, topic_id)

        event = Event(
            kind=kind,
            group_id=member.group_id,
            member_id=member.member_id,
            instance_id=member.instance_id,
            protocol=member.protocol,
            client_id=member.client_id,
            client_host=member.client_host,
            software=member.software,
            generation=member.generation,
            epoch=member.member_epoch,
            state=member.state,
            previous_state=previous_state,
            partitions=to_topic_partitions(partitions, name_of),
            owned=None if member.owned is None else to_topic_partitions(member.owned, name_of),
            reason=reason,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
        )
        self._events.append(event)

    def _take(self) -> list[Event]:
        events, self._events = self._events, []
        return events


def _is_long(connection: Connection, request: Request, member_id: str) -> bool:
    """Whether a client makes up texts longer than real clients need."""
    message = request.message
    instance_id = getattr(message, "group_instance_id", None) or getattr(message, "instance_id", None)
    texts = (message.group_id, member_id, instance_id, request.client_id, connection.software)
    return any(len(text) > _LONGEST_TEXT for text in texts if text)


def _by_id(topics: Iterable[Any]) -> Owned:
    """The partitions of a ConsumerGroupHeartbeat."""
    return frozenset(("", topic.topic_id, index) for topic in topics for index in topic.partitions)


def _reported_owned(message: JoinGroupRequest) -> Owned:
    """What a consumer that joins says that it still owns; all its protocols carry the same list."""
    if message.protocol_type != _CONSUMER or not message.protocols:
        return NOTHING
    reported_owned: set[tuple[str, Any, int]] = set()
    for protocol in message.protocols:
        try:
            _, subscription = decode_subscription(protocol.metadata)
        except CodecError:
            continue
        reported_owned.update(
            (owned.topic, None, index)
            for owned in subscription.owned_partitions
            for index in owned.partitions
        )
    return frozenset(reported_owned)


def _assigned(assignment: bytes) -> Owned:
    try:
        _, message = decode_assignment(assignment)
    except CodecError:
        return NOTHING  # a leader may give a member zero bytes
    return frozenset(
        (topic.topic, None, index) for topic in message.assigned_partitions for index in topic.partitions
    )
