"""What all procedures share: the records of groups and members, the current time, and the actions to carry out."""

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from protocol_codecs import ApiKey, Uuid
from translation import generation
from translation.actions import (
    Action,
    Answer,
    Connection,
    ConnectionId,
    Emit,
    Event,
    EventKind,
    Forward,
    MemberProtocol,
    Release,
    Request,
)
from translation.engine.authorized_groups import AuthorizedGroups
from translation.engine.connections import ClientConnections
from translation.engine.member import Group, Member
from translation.engine.member_ids import LONGEST_MEMBER_ID, MemberIds, may_be_translated
from translation.engine.native_members import NativeMembers
from translation.engine.procedure import Scheduler, WakeReason
from translation.engine.timers import Timers
from translation.member_state import MemberEvent, MemberState
from translation.partitions import NONE, Partitions, to_topic_partitions
from translation.policy.policy import Policy
from translation.policy.rule_cache import RuleCache
from translation.settings import TranslatorSettings

_EVICTION_CANDIDATES = 100
"""Groups that are looked at when one has to be forgotten, those first that were not looked at for longest."""

_WAKES = {MemberEvent.FENCED: WakeReason.MEMBERSHIP_LOST, MemberEvent.REPLACED: WakeReason.REPLACED}
"""What a JoinGroup that waits is told when its membership ends."""


class Context:
    """The groups and members of one process, and what procedures do with them."""

    def __init__(
        self,
        policy: Policy,
        settings: TranslatorSettings,
        new_uuid: Callable[[], str],
        on_member_time: Callable[[Member, float], None],
        on_group_time: Callable[[Group, float], None],
        allowed_assignors: frozenset[str],
    ) -> None:
        self.allowed_assignors = allowed_assignors
        self.rules = RuleCache(policy)
        self.settings = settings
        self.on_member_time = on_member_time
        self.on_group_time = on_group_time
        self.now = -math.inf
        self.actions: list[Action] = []
        self.timers = Timers()
        self.scheduler = Scheduler(self)
        self.groups: dict[str, Group] = {}
        self.topic_names: dict[Uuid, str] = {}
        self.ids = MemberIds(new_uuid, settings.issued_ids_limit)
        self.connections = ClientConnections(self._release, self.scheduler.is_busy)
        self.authorized_groups = AuthorizedGroups(settings.authorized_groups_limit)
        self.natives = NativeMembers(settings.native_members_limit)

    # -- answers -----------------------------------------------------------------------------------------------

    def answer(self, request: Request, message: Any) -> None:
        """Answer a request, unless its client has disconnected."""
        if self.connections.complete(request):
            self.actions.append(Answer(request.id, message))

    def forward(self, request: Request) -> None:
        """Relay a request as it came, unless its client has disconnected."""
        if self.connections.complete(request):
            self.actions.append(Forward(request.id))

    def _release(self, connection_id: ConnectionId) -> None:
        self.authorized_groups.forget(connection_id)
        self.actions.append(Release(connection_id))

    # -- connections -------------------------------------------------------------------------------------------

    def connection_lost(self, connection_id: ConnectionId) -> None:
        """Both sides of a connection are closed: calls on it get no response."""
        waiting = self.connections.members_on(connection_id)
        self.connections.upstream_lost(connection_id)
        self.authorized_groups.forget(connection_id)
        self.abandon_joins(waiting, connection_id)
        self.scheduler.connection_lost(connection_id)

    def abandon_joins(self, members: Iterable[Member], connection_id: ConnectionId) -> None:
        """End the JoinGroups of these members that wait on this connection."""
        for member in members:
            if member.waiting_join is not None and member.waiting_join.connection_id == connection_id:
                self.scheduler.wake(member.waiting_join, WakeReason.ABANDONED)

    # -- registry ----------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group:
        """The group's record, made on first use."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(self, group_id)
            if len(self.groups) > self.settings.groups_limit:
                self._evict_group(group)
        return group

    def _evict_group(self, newest: Group) -> None:
        """Make room by forgetting a group without members; what was known of it can be found out again."""
        for group in list(islice(self.groups.values(), _EVICTION_CANDIDATES)):
            del self.groups[group.group_id]
            if group is not newest and not group.members and not group.pending_moves:
                return
            self.groups[group.group_id] = group  # behind the others: they are looked at next

    def find(self, group_id: str, member_id: str) -> Member | None:
        """The member's record, joined or not."""
        group = self.groups.get(group_id)
        return None if group is None else group.members.get(member_id)

    def member(self, group_id: str, member_id: str) -> Member:
        """The member's record, made on first use."""
        group = self.group(group_id)
        member = group.members.get(member_id)
        if member is None:
            member = group.members[member_id] = Member(self, group, member_id)
        return member

    def is_ours(self, member: Member) -> bool:
        """Whether a member of the new protocol is a classic client for which some process of Epochgate speaks."""
        if member.joined or self.ids.is_issued(member.member_id):
            return True
        return (
            may_be_translated(member.member_id)
            and (member.group.group_id, member.member_id) not in self.natives
        )

    def is_native(self, group_id: str, member_id: str) -> bool:
        """Whether this is the id of a member that speaks the new protocol by itself, as far as is known here."""
        member = self.find(group_id, member_id)
        return (group_id, member_id) in self.natives and (member is None or not member.joined)

    def drop_if_idle(self, member: Member) -> None:
        """Forget a member that has no membership and no procedure under way."""
        group = member.group
        if (
            not member.joined
            and member.queue.idle
            and member.waiting_join is None
            and group.members.get(member.member_id) is member
        ):
            del group.members[member.member_id]
            member.queue.detach_owner()
            self.connections.unbind(member)
            if (
                member.instance_id is not None
                and group.static_members.get(member.instance_id) == member.member_id
            ):
                del group.static_members[member.instance_id]
            self.drop_group_if_empty(group)

    def drop_group_if_empty(self, group: Group) -> None:
        """Forget a group of which nothing is known that would have to be remembered."""
        nobody = not group.members and not group.relayed_until and not group.pending_moves
        if (
            nobody
            and group.migration.is_unknown
            and self.groups.get(group.group_id)
            is group  # a procedure may hold an older record, forgotten since
        ):
            del self.groups[group.group_id]

    def relay(self, group: Group, member_id: str, until: float | None = None) -> None:
        """The broker has this member as a classic one: relay its calls, and ask again after a while."""
        if len(member_id) > LONGEST_MEMBER_ID:
            return  # the broker is asked each time
        group.relayed_until.pop(member_id, None)
        group.relayed_until[member_id] = self.now + self.settings.relayed_s if until is None else until
        if len(group.relayed_until) > self.settings.relayed_limit:
            del group.relayed_until[next(iter(group.relayed_until))]

    # -- what happens to members -------------------------------------------------------------------------------

    def change_state(self, member: Member, event: MemberEvent, reason: str) -> None:
        """Report an event to the member's state machine, and emit the change of state."""
        before = member.state
        after = member.machine.handle(event)
        if after is not MemberState.STABLE:
            member.addition_debounce_until = member.addition_debounce_limit = math.inf
        if after is not before:
            self.emit(EventKind.STATE_CHANGED, member, reason=reason, previous_state=before)

    def end_membership(self, member: Member, event: MemberEvent, kind: EventKind, reason: str) -> None:
        """End a membership: forget its assignment, end a JoinGroup that waits, heartbeat for the other members.

        The record itself stays until its procedures have ended (:meth:`drop_if_idle`).
        """
        was_joined = member.joined
        member.possibly_owned = NONE
        member.reported_owned = None
        member.adopted = False
        member.join_answered_on = None
        self.change_state(member, event, reason)
        if was_joined:
            self.emit(kind, member, reason=reason)
        member.incarnation += 1
        generation.forget(member)
        member.broker_assignor = None
        member.reply_lost = False
        member.broker_assignment = member.synced_assignment = member.pending_revocation = NONE
        member.session_deadline = member.rebalance_deadline = member.keep_alive_at = math.inf
        if member.waiting_join is not None:
            self.scheduler.wake(member.waiting_join, _WAKES.get(event, WakeReason.ABANDONED))
        if was_joined:
            self.heartbeat_group(member.group)

    def heartbeat_group(self, group: Group) -> None:
        """Heartbeat for all members of a group that changed: now, and again when the broker surely has reassigned.

        So clients learn of a new assignment at their own next Heartbeat, not one upstream interval later.
        """
        for when in (self.now, self.now + self.settings.assignment_interval_s):
            # Changes that come together share their nudges.
            if not any(
                when <= booked <= when + self.settings.join_poll_s for booked in group.scheduled_heartbeats
            ):
                group.scheduled_heartbeats.append(when)
        group.scheduled_heartbeats.sort()
        self.timers.book(group, group.scheduled_heartbeats[0])

    def book(self, member: Member) -> None:
        """Book the member's earliest deadline."""
        due = member.next_due()
        if due < math.inf:
            self.timers.book(member, due)

    # -- telling -----------------------------------------------------------------------------------------------

    def emit(
        self,
        kind: EventKind,
        member: Member,
        *,
        reason: str = "",
        previous_state: str = "",
        partitions: Partitions = NONE,
    ) -> None:
        """Emit an event about a member, for log, metrics and journal."""
        held = member.possibly_owned if member.reported_owned is None else member.reported_owned
        event = Event(
            kind=kind,
            group_id=member.group.group_id,
            member_id=member.member_id,
            instance_id=member.instance_id,
            protocol=MemberProtocol.TRANSLATED,
            client_id=member.client_id,
            client_host=member.client_host,
            software=member.software,
            generation=member.generation,
            epoch=member.member_epoch,
            state=member.state,
            previous_state=previous_state,
            partitions=to_topic_partitions(partitions, self.topic_names) if partitions else (),
            owned=None if member.adopted else to_topic_partitions(held, self.topic_names),
            reason=reason,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
        )
        self.actions.append(Emit(event))

    def emit_group(self, kind: EventKind, group_id: str, request: Request, reason: str) -> None:
        """Emit an event about a request that belongs to no member known here."""
        connection = self.connections.connection_of(request)
        event = Event(
            kind=kind,
            group_id=group_id,
            member_id=getattr(request.message, "member_id", ""),
            client_id=request.client_id,
            client_host="" if connection is None else connection.client_host,
            software="" if connection is None else connection.software,
            reason=reason,
        )
        self.actions.append(Emit(event))

    # -- topics ------------------------------------------------------------------------------------------------

    def learn_topics(self, pairs: Iterable[tuple[Uuid, str]]) -> None:
        """Keep names by topic id. An id never changes its name, so nothing here ever gets stale."""
        self.topic_names.update(pairs)
        while len(self.topic_names) > self.settings.known_topics_limit:
            del self.topic_names[next(iter(self.topic_names))]

    def visible(self, member: Member, partitions: Partitions) -> Partitions:
        """The part of an assignment that the client can be told: known by name, and of its subscription.

        Clients break on partitions that they did not subscribe to (aiokafka ends with an error).
        """
        names = self.topic_names
        subscription = member.subscription
        return frozenset([pair for pair in partitions if names.get(pair[0]) in subscription])

    # -- versions ----------------------------------------------------------------------------------------------

    def version(self, connection: Connection, api_key: ApiKey, newest: int, oldest: int = 0) -> int | None:
        """The newest version up to ``newest`` that the broker has; None if there is none from ``oldest`` on."""
        low, high = connection.versions.get(api_key, (0, -1))
        version = min(high, newest)
        return version if version >= max(low, oldest) else None


def replaced(message: Any, **changes: Any) -> Any:
    """A copy of an immutable message with other values in some fields."""
    return msgspec.structs.replace(message, **changes)
