"""What all conversations share: the registry, the time of this moment, and the list of actions to carry out."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from protocol_codecs import ApiKey, ErrorCode, Uuid
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
    RequestId,
)
from translation.exchange import Runner, Woken
from translation.member import Group, Member
from translation.member_state import MemberEvent, MemberState
from translation.partitions import NONE, Partitions, told
from translation.policy import Policy, Rule
from translation.settings import TranslatorSettings
from translation.timers import Timers

_WAKES = {MemberEvent.FENCED: Woken.MEMBERSHIP_LOST, MemberEvent.REPLACED: Woken.REPLACED}
"""What a JoinGroup that waits is told when its membership ends."""

_RULES_REMEMBERED = 10_000
_LONGEST_REMEMBERED = 255
"""A client makes up as many group ids as it likes, of up to 32 KiB; each is looked up in the policy at every call."""


class _Client:
    """A connection as long as anything here still needs it."""

    __slots__ = ("alive", "connection", "members", "requests")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.alive = True
        self.members: set[Member] = set()
        self.requests: set[RequestId] = set()


class Context:
    """The registry of one process and the hands of its conversations."""

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
        self._policy = policy
        self._rules: dict[str, Rule] = {}
        self.settings = settings
        self.new_uuid = new_uuid
        self.on_member_time = on_member_time
        self.on_group_time = on_group_time
        self.now = -math.inf
        self.actions: list[Action] = []
        self.timers = Timers()
        self.runner = Runner(self)
        self.groups: dict[str, Group] = {}
        self.topic_names: dict[Uuid, str] = {}
        self._issued: dict[str, None] = {}
        self._joins_classic: dict[str, ConnectionId] = {}
        self._clients: dict[ConnectionId, _Client] = {}
        self._connection_of: dict[RequestId, ConnectionId] = {}

    # -- connections and requests ----------------------------------------------------------------------------

    def request_came(self, connection: Connection, request: Request) -> None:
        """Remember where a request's answer goes."""
        client = self._clients.get(connection.id)
        if client is None:
            client = self._clients[connection.id] = _Client(connection)
        client.requests.add(request.id)
        self._connection_of[request.id] = connection.id

    def _settle(self, request: Request) -> bool:
        """Forget a request; False if its client is gone, so that nobody waits for an answer."""
        connection_id = self._connection_of.pop(request.id, None)
        if connection_id is None:
            return False
        self._clients[connection_id].requests.discard(request.id)
        return True

    def is_waiting(self, request: Request) -> bool:
        """Whether the client of this request is still there, as far as was read, and has no answer yet."""
        return request.id in self._connection_of

    def is_here(self, request: Request) -> bool:
        """The same as the kernel knows it, for calls that count only while somebody waits for their answer.

        A process that stood still, or a connection that did, brings a call together with the news that its client has
        hung up. The client may have joined elsewhere meanwhile; what such a call says of it is not true any more.
        Commits and LeaveGroup are not such calls: clients send them and close behind them.
        """
        connection_id = self._connection_of.get(request.id)
        return connection_id is not None and not self._clients[connection_id].connection.has_hung_up()

    def answer(self, request: Request, message: Any) -> None:
        """Answer a client's request, unless it is gone."""
        if self._settle(request):
            self.actions.append(Answer(request.id, message))

    def forward(self, request: Request) -> None:
        """Relay a client's request as it came, unless it is gone."""
        if self._settle(request):
            self.actions.append(Forward(request.id))

    def connection(self, connection_id: ConnectionId) -> Connection | None:
        """The connection, as long as its upstream side can be used."""
        client = self._clients.get(connection_id)
        return None if client is None else client.connection

    def members_on(self, connection_id: ConnectionId) -> list[Member]:
        """The members that are reached through a connection, in a stable order."""
        client = self._clients.get(connection_id)
        return (
            [] if client is None else sorted(client.members, key=lambda member: (member.group.id, member.id))
        )

    def client_gone(self, connection_id: ConnectionId) -> None:
        """The client's side is closed; its upstream side stays while members are reached through it."""
        client = self._clients.get(connection_id)
        if client is None:
            self.actions.append(Release(connection_id))
            return
        client.alive = False
        for member in client.members:
            member.away = True
        for request_id in client.requests:
            del self._connection_of[request_id]
        client.requests.clear()
        self.maybe_release(connection_id)

    def upstream_lost(self, connection_id: ConnectionId) -> None:
        """Both sides are gone: nothing can be sent for its members until their clients come back."""
        client = self._clients.pop(connection_id, None)
        if client is None:
            return
        for request_id in client.requests:
            del self._connection_of[request_id]
        for member in client.members:
            member.away = True
            member.connection_id = None
            member.keep_alive_at = math.inf

    def client_is_connected(self, connection_id: ConnectionId | None) -> bool:
        """Whether the client's side of this connection is open, as far as is known."""
        client = None if connection_id is None else self._clients.get(connection_id)
        return client is not None and client.alive

    def was_elsewhere(self, member: Member, generation: int) -> bool:
        """Whether another process may have served this client since it joined here.

        Its generation is newer than what is known here, or it was away: the broker may have assigned more, and
        less again, at the same epoch, so that not even the epoch tells.
        """
        if self.settings.sole_process or generation < member.generation:
            return False  # an older generation is an older one, wherever the newer one came from
        return generation > member.generation or member.away

    def is_late(self, member: Member, connection: Connection, request: Request) -> bool:
        """Whether a JoinGroup on this connection is older than the client's last one, and was overtaken on its way.

        The client has joined again on a connection that it opened later, and that is still open, or was followed by
        one that is. What the older one claims is not true any more. A static member has another member id then, if it
        sends none.
        """
        holder = member.group.members.get(
            member.group.static.get(request.message.group_instance_id or "", "")
        )
        if holder is not None and (holder.client_id, holder.client_host) == (
            request.client_id,
            connection.client_host,
        ):
            member = holder
        joined_on, newest = member.joined_on, member.connection_id
        if joined_on is None or connection.id >= joined_on:
            return False
        followed = newest is not None and joined_on < newest
        return self.client_is_connected(joined_on) or (followed and self.client_is_connected(newest))

    def maybe_release(self, connection_id: ConnectionId) -> None:
        """Let the upstream side go when its client is gone and nothing needs it any more."""
        client = self._clients.get(connection_id)
        if (
            client is not None
            and not client.alive
            and not client.members
            and not self.runner.calls_on(connection_id)
        ):
            del self._clients[connection_id]
            self.actions.append(Release(connection_id))

    def reach(self, member: Member, connection: Connection) -> None:
        """The member's client was heard on this connection: from now on the member is reached through it."""
        if member.connection_id == connection.id:
            return
        self._detach(member)
        member.connection_id = connection.id
        member.client_host = connection.client_host
        member.software = connection.software
        self._clients[connection.id].members.add(member)

    def heard(self, member: Member, connection: Connection, generation: int) -> None:
        """A call of the member's client came. One with an older generation is late: it may be elsewhere now."""
        if generation >= member.generation or member.connection_id is None:
            self.reach(member, connection)
        if self._has_stayed(member, connection):
            member.away = False

    def _has_stayed(self, member: Member, connection: Connection) -> bool:
        """Whether a call on this connection shows that the client has not been elsewhere since its last JoinGroup here.

        It is the connection on which that was answered, and still open. What was closed since, if anything, is an older
        one, on which calls were late.
        """
        return connection.id == member.answered_on and self.client_is_connected(connection.id)

    def _detach(self, member: Member) -> None:
        before, member.connection_id = member.connection_id, None
        if before is not None and before in self._clients:
            self._clients[before].members.discard(member)
            self.maybe_release(before)

    # -- policy ------------------------------------------------------------------------------------------------

    def rule(self, group_id: str) -> Rule:
        """What the policy says now of a group."""
        rule = self._rules.get(group_id)
        if rule is None:
            rule = self._policy.rule_for(group_id)
            if len(group_id) <= _LONGEST_REMEMBERED:
                if len(self._rules) == _RULES_REMEMBERED:
                    self._rules.clear()
                self._rules[group_id] = rule
        return rule

    def use_policy(self, policy: Policy) -> None:
        """Another policy holds from now on."""
        self._policy = policy
        self._rules.clear()

    # -- registry ----------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group:
        """The group's record, made on first use."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(self, group_id)
        return group

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

    def fenced(self, group_id: str, member_id: str, instance_id: str | None) -> bool:
        """Whether another member has this instance id now: the classic contract is that the newer one wins."""
        if instance_id is None or not self.settings.sole_process:
            return False  # another process may have seen a later one: the broker is asked (:mod:`translation.adopt`)
        group = self.groups.get(group_id)
        holder_id = None if group is None else group.static.get(instance_id)
        return holder_id is not None and holder_id != member_id

    def hold_instance(self, member: Member) -> None:
        """The broker has this member with its instance id: so it is here, unless a newer process takes it over.

        A process that alone serves the group knows who is the newest. One of several may know an older one; there a
        newer one is that whose first JoinGroup is under way.
        """
        if member.instance_id is None:
            return
        static = member.group.static
        holder = member.group.members.get(static.get(member.instance_id, member.id))
        if holder is None or holder is member or (holder.joined and not self.settings.sole_process):
            static[member.instance_id] = member.id

    def release_instance(self, member: Member) -> None:
        """The member's client is a classic one from now on, and so is whoever comes with its instance id."""
        if member.group.static.get(member.instance_id or "") == member.id:
            del member.group.static[member.instance_id or ""]

    def no_member(self, member: Member, message: Any) -> ErrorCode:
        """What a client is answered whose membership has ended, maybe while its call waited."""
        if self.fenced(member.group.id, member.id, message.group_instance_id):
            return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.UNKNOWN_MEMBER_ID

    def drop_if_idle(self, member: Member) -> None:
        """Forget the record of a member that is in no group and in no conversation."""
        group = member.group
        if (
            not member.joined
            and member.turns.idle
            and member.parked_join is None
            and group.members.get(member.id) is member
        ):
            del group.members[member.id]
            member.turns.let_go()
            self._detach(member)
            if member.instance_id is not None and group.static.get(member.instance_id) == member.id:
                del group.static[member.instance_id]
            self.drop_group_if_empty(group)

    def drop_group_if_empty(self, group: Group) -> None:
        """Forget a group of which nothing is known that would have to be remembered."""
        nobody = not group.members and not group.relayed and not group.moves
        if (
            nobody
            and group.passes_through is None
            and group.gives_up_until == math.inf
            and self.groups.get(group.id) is group  # a conversation may hold an older record, forgotten since
        ):
            del self.groups[group.id]

    def relay(self, group: Group, member_id: str, until: float | None = None) -> None:
        """The broker has this member as a classic one: relay its calls, and ask again after a while."""
        group.relayed[member_id] = self.now + self.settings.relayed_s if until is None else until

    def issue_member_id(self) -> str:
        """A fresh member id. It is remembered that nobody had it before."""
        member_id = self.new_uuid()
        self._issued[member_id] = None
        while len(self._issued) > self.settings.issued_ids_limit:
            del self._issued[next(iter(self._issued))]
        return member_id

    def joins_classic(self, member_id: str, connection_id: ConnectionId) -> None:
        """A JoinGroup with this id is relayed on this connection: a classic coordinator gets to know the id."""
        self._issued.pop(member_id, None)
        if member_id:
            self._joins_classic[member_id] = connection_id
            while len(self._joins_classic) > self.settings.issued_ids_limit:
                del self._joins_classic[next(iter(self._joins_classic))]

    def has_joined_classic(self, member_id: str) -> None:
        """Its SyncGroup shows that it has heard the answer."""
        self._joins_classic.pop(member_id, None)

    def may_become_classic(self, member_id: str, connection_id: ConnectionId) -> bool:
        """Whether a JoinGroup of this client, which waits no more for its answer, may still reach the coordinator.

        It was relayed on another connection, and would make a member of the new protocol with this id a classic one.
        """
        return self._joins_classic.get(member_id, connection_id) != connection_id

    def is_issued(self, member_id: str) -> bool:
        """Whether this process gave out the id, so that no classic coordinator can know it."""
        return member_id in self._issued

    # -- what happens to members -------------------------------------------------------------------------------

    def change_state(self, member: Member, event: MemberEvent, reason: str) -> None:
        """Report an event to the member's state machine, and the change of state to the outside."""
        before = member.state
        after = member.machine.handle(event)
        if after is not MemberState.STABLE:
            member.gather_until = member.gather_limit = math.inf
        if after is not before:
            self.emit(EventKind.STATE_CHANGED, member, reason=reason, previous_state=before)

    def end_membership(self, member: Member, event: MemberEvent, kind: EventKind, reason: str) -> None:
        """The member is in the group no more: forget what it was assigned, end its waiting, tell the others.

        The record itself stays until its conversations have ended (:meth:`drop_if_idle`).
        """
        was_joined = member.joined
        member.may_hold = NONE
        member.claimed = None
        member.adopted = False
        member.answered_on = None
        self.change_state(member, event, reason)
        if was_joined:
            self.emit(kind, member, reason=reason)
        member.membership += 1
        member.generation = member.previous_generation = -1
        member.epoch = 0
        member.told_assignor = None
        member.lost_answer = False
        member.assignment = member.handed = member.unacknowledged = NONE
        member.session_deadline = member.rebalance_deadline = member.keep_alive_at = math.inf
        if member.parked_join is not None:
            self.runner.wake(member.parked_join, _WAKES.get(event, Woken.ABANDONED))
        if was_joined:
            self.nudge(member.group)

    def nudge(self, group: Group) -> None:
        """The group changed: heartbeat for its members now, and again when the broker surely has reassigned.

        So that their clients hear of it at their own next Heartbeat, not one upstream interval later.
        """
        for when in (self.now, self.now + self.settings.assignment_interval_s):
            # Changes that come together share their nudges.
            if not any(when <= booked <= when + self.settings.join_poll_s for booked in group.nudges):
                group.nudges.append(when)
        group.nudges.sort()
        self.timers.book(group, group.nudges[0])

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
        """Tell the outside what happened to a member."""
        held = member.may_hold if member.claimed is None else member.claimed
        event = Event(
            kind=kind,
            group_id=member.group.id,
            member_id=member.id,
            instance_id=member.instance_id,
            protocol=MemberProtocol.TRANSLATED,
            client_id=member.client_id,
            client_host=member.client_host,
            software=member.software,
            generation=member.generation,
            epoch=member.epoch,
            state=member.state,
            previous_state=previous_state,
            partitions=told(partitions, self.topic_names) if partitions else (),
            owned=None if member.adopted else told(held, self.topic_names),
            reason=reason,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
        )
        self.actions.append(Emit(event))

    def emit_group(self, kind: EventKind, group_id: str, request: Request, reason: str) -> None:
        """Tell the outside what happened to a call that belongs to no member known here."""
        connection_id = self._connection_of.get(request.id)
        client = None if connection_id is None else self._clients.get(connection_id)
        event = Event(
            kind=kind,
            group_id=group_id,
            member_id=getattr(request.message, "member_id", ""),
            client_id=request.client_id,
            client_host="" if client is None else client.connection.client_host,
            software="" if client is None else client.connection.software,
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
