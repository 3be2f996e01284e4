"""Keeps the observed members of one process, and collects the events that report what happens to them."""

from heapq import heapify, heappop, heappush
from typing import Any

from protocol_codecs import ErrorCode, Uuid
from translation.actions import Event, EventKind, MemberProtocol, Request
from translation.members.member_state import MemberEvent, MemberState
from translation.passthrough.observed_member import ObservedMember
from translation.passthrough.observed_partitions import NOTHING, Owned, to_topic_partitions
from translation.passthrough.topic_names import TopicNames

MEMBERS_LIMIT = 50_000
"""Members that are remembered at the same time. Events of further ones are reported all the same."""

_SPARE_ENTRIES = 1000
_LONGEST_TEXT = 255
"""Characters of an id, of a client id or of a software name. A member with a longer one is not remembered either."""

_ENDS_MEMBERSHIP = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH}
)
_REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
MEMBERSHIP_ERRORS = _ENDS_MEMBERSHIP | _REJOIN
"""Errors that end a membership, or make its client join again."""

_ENDINGS = {
    EventKind.LEFT: MemberEvent.LEFT,
    EventKind.FENCED: MemberEvent.FENCED,
    EventKind.SESSION_EXPIRED: MemberEvent.EXPIRED,
}


class ObservedMembers:
    """Members by group id and member id. ``topics`` has the names of topics that members know by id only."""

    def __init__(self, topics: TopicNames, limit: int) -> None:
        self.by_id: dict[tuple[str, str], ObservedMember] = {}
        """By (group id, member id)."""
        self._due: list[tuple[float, int, ObservedMember]] = []
        """A heap of when to check whether a session has ended; entries that are not a member's newest are ignored."""
        self._topics = topics
        self._limit = limit
        self._events: list[Event] = []

    def get_or_add(self, request: Request, member_id: str, protocol: MemberProtocol) -> ObservedMember:
        """Return the member, a new one if it is unknown or has another protocol now, with its client as of this call.

        Beyond the limits a new one is not remembered.
        """
        key = (request.message.group_id, member_id)
        member = self.by_id.get(key)
        if member is None or member.protocol is not protocol:
            member = ObservedMember(group_id=key[0], member_id=member_id, protocol=protocol)
            if len(self.by_id) < self._limit and not _is_long(request, member_id):
                self.by_id[key] = member
        member.connection_id = request.connection.id
        member.client_id = request.client_id
        member.client_host = request.connection.client_host
        member.software = request.connection.software
        return member

    def touch(self, member: ObservedMember, now: float) -> None:
        """Restart a member's session at a sign of life, and expire others. ``now`` is in the caller's seconds.

        What an expired member owned may be assigned by the very response that is the sign of life.
        """
        member.alive_until = now + member.session_timeout_ms / 1000
        if member.alive_until < member.due:
            self._schedule(member)
            if len(self._due) > 2 * len(self.by_id) + _SPARE_ENTRIES:
                self._due = [(one.due, id(one), one) for one in self.by_id.values()]
                heapify(self._due)
        self.expire(now)

    def _schedule(self, member: ObservedMember) -> None:
        member.due = member.alive_until
        heappush(self._due, (member.due, id(member), member))

    def expire(self, now: float) -> None:
        """End the members that have been silent for their session timeout."""
        while self._due and self._due[0][0] < now:
            due, _, member = heappop(self._due)
            if due != member.due or self.by_id.get((member.group_id, member.member_id)) is not member:
                continue
            if member.alive_until < now:
                self.end(member, EventKind.SESSION_EXPIRED, "no sign of life within the session timeout")
            else:
                self._schedule(member)

    def with_instance_id(self, group_id: str, instance_id: str | None) -> ObservedMember | None:
        """Return the member of a group that has this instance id."""
        if instance_id is None:
            return None
        for member in self.by_id.values():
            if member.group_id == group_id and member.instance_id == instance_id:
                return member
        return None

    def fence_predecessor(self, group_id: str, member_id: str, instance_id: str | None) -> None:
        """End the membership of an older process whose instance id ``member_id`` has now (KIP-345)."""
        before = self.with_instance_id(group_id, instance_id)
        if before is not None and before.member_id != member_id:
            self.end(before, EventKind.FENCED, "replaced by a member with the same instance id")

    def call_failed(self, request: Request, code: int, api_name: str) -> None:
        """The broker answered a call in the name of a member with an error.

        It says something of the member only on the connection on which the broker has accepted calls of that member:
        anybody can send a call in its name.
        """
        member = self.by_id.get((request.message.group_id, request.message.member_id))
        if member is None or member.connection_id != request.connection.id:
            return
        name = ErrorCode(code).name
        if code in _ENDS_MEMBERSHIP:
            self.end(member, EventKind.FENCED, name)
        elif code in _REJOIN:
            if member.state is not MemberState.PREPARE_REBALANCE:
                self.change(member, MemberEvent.REBALANCE_ANNOUNCED, name)
        else:
            self.emit(EventKind.CALL_REFUSED, member, reason=f"{api_name}: {name}")

    def change(self, member: ObservedMember, event: MemberEvent, reason: str) -> None:
        """Report an event to the member's state machine, and emit STATE_CHANGED if the state has changed."""
        before = member.state
        if member.machine.handle(event) is not before:
            self.emit(EventKind.STATE_CHANGED, member, reason=reason, previous_state=before)

    def end(self, member: ObservedMember, kind: EventKind, reason: str) -> None:
        """Forget a member whose membership is over, and emit how it ended."""
        self.by_id.pop((member.group_id, member.member_id), None)
        member.owned = NOTHING
        self.change(member, _ENDINGS[kind], reason)
        self.emit(kind, member, reason=reason)
        self._topics.forget(member.group_id, member.member_id)

    def emit(
        self,
        kind: EventKind,
        member: ObservedMember,
        *,
        reason: str = "",
        previous_state: str = "",
        partitions: Owned = NOTHING,
    ) -> None:
        """Add an event about a member to those that :meth:`take_events` returns."""

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
            session_timeout_ms=member.declared_session_timeout_ms,
            worker=member.worker,
        )
        self._events.append(event)

    def take_events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        return events


def _is_long(request: Request, member_id: str) -> bool:
    """Whether a client makes up texts longer than real clients need."""
    message: Any = request.message
    instance_id = getattr(message, "group_instance_id", None) or getattr(message, "instance_id", None)
    texts = (message.group_id, member_id, instance_id, request.client_id, request.connection.software)
    return any(len(text) > _LONGEST_TEXT for text in texts if text)
