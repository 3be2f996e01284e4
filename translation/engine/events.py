"""Emits what happens to members and groups (``EventKind``), for log, metrics and journal."""

from collections.abc import Iterable, Mapping

from protocol_codecs import Uuid
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.actions import Emit, Event, EventKind, MemberProtocol, Request
from translation.engine.connections import ClientConnections
from translation.members.environment import Environment
from translation.members.member import Member
from translation.partitions import NONE, Partitions, TopicPartitionSet, to_topic_partitions
from translation.policy.client_offer import offer_of


class Events:
    """Adds :class:`~translation.actions.Emit` actions. ``topic_names`` has the names that are known, by topic id."""

    def __init__(
        self, environment: Environment, connections: ClientConnections, topic_names: Mapping[Uuid, str]
    ) -> None:
        self._environment = environment
        self._connections = connections
        self._topic_names = topic_names

    def emit(
        self,
        kind: EventKind,
        member: Member,
        *,
        reason: str = "",
        previous_state: str = "",
        partitions: Partitions = NONE,
    ) -> None:
        """Emit an event about a member."""
        held = (
            member.partitions.possibly_owned
            if member.partitions.reported_owned is None
            else member.partitions.reported_owned
        )
        event = Event(
            kind=kind,
            group_id=member.group.group_id,
            member_id=member.member_id,
            instance_id=member.client.instance_id,
            protocol=MemberProtocol.TRANSLATED,
            client_id=member.client.client_id,
            client_host=member.client.client_host,
            software=member.client.software,
            generation=member.generation,
            epoch=member.member_epoch,
            state=member.state,
            previous_state=previous_state,
            partitions=to_topic_partitions(partitions, self._topic_names) if partitions else (),
            owned=None if member.adopted else to_topic_partitions(held, self._topic_names),
            reason=reason,
            rebalance_timeout_ms=member.client.rebalance_timeout_ms,
            session_timeout_ms=-1 if member.adopted else member.client.session_timeout_ms,
            offer=member.client.offer if kind is EventKind.JOINED else None,
        )
        self._environment.actions.append(Emit(event))

    def emit_group(self, kind: EventKind, group_id: str, request: Request, reason: str) -> None:
        """Emit an event about a request that belongs to no member known here."""
        message = request.message
        connection = self._connections.connection_of(request)
        event = Event(
            kind=kind,
            group_id=group_id,
            member_id=getattr(message, "member_id", ""),
            client_id=request.client_id,
            client_host="" if connection is None else connection.client_host,
            software="" if connection is None else connection.software,
            reason=reason,
            offer=offer_of(message).bounded if isinstance(message, JoinGroupRequest) else None,
        )
        self._environment.actions.append(Emit(event))

    def emit_mending(
        self,
        kind: EventKind,
        group_id: str,
        reason: str,
        unowned: Iterable[tuple[str, int]],
        member_id: str = "",
    ) -> None:
        """Emit what is done about partitions that nobody has, or why nothing is."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(unowned):
            by_topic.setdefault(topic, []).append(number)
        event = Event(
            kind=kind,
            group_id=group_id,
            member_id=member_id,
            reason=reason,
            partitions=tuple(
                TopicPartitionSet(topic=topic, id=None, partitions=tuple(numbers))
                for topic, numbers in by_topic.items()
            ),
        )
        self._environment.actions.append(Emit(event))

    def emit_step(self, group_id: str, reason: str) -> None:
        """Emit that the move of a group by steps goes on, or does not any more."""
        event = Event(kind=EventKind.STEP_CHANGED, group_id=group_id, reason=reason)
        self._environment.actions.append(Emit(event))
