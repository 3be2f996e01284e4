"""What this process knows of one member, and of the group that it is in.

A member is known by group id and member id. It outlives connections: they are only how its client is reached. All times
are absolute seconds of the caller's clock; ``math.inf`` means that a deadline does not run.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from translation.actions import ConnectionId
from translation.member_log.records import member_key
from translation.members.conversion import Conversion
from translation.members.group_migration import GroupMigration
from translation.members.initial_rebalance import InitialRebalance
from translation.members.member_parts import (
    BrokerView,
    Client,
    Deadlines,
    HeldPartitions,
    JoinProgress,
    PendingSwitch,
)
from translation.members.member_state import MemberState, MemberStateMachine
from translation.members.procedure import ProcedureQueue


class RecordOwner(Protocol):
    """Who keeps the records of members and groups (:class:`~translation.engine.registry.Registry`)."""

    on_member_time: "Callable[[Member, float], None]"
    on_group_time: "Callable[[Group, float], None]"

    def drop_if_idle(self, member: "Member") -> None:
        """Forget a member that has no membership and no procedure under way."""


class Member:
    """One classic client, as a member of the new protocol. What is known of it lies in parts."""

    __slots__ = (
        "_owner",
        "adopted",
        "broker",
        "client",
        "connection_id",
        "conversions",
        "deadlines",
        "generation",
        "group",
        "incarnation",
        "join",
        "join_answered_on",
        "key",
        "last_join_host",
        "last_join_on",
        "machine",
        "may_have_moved",
        "member_epoch",
        "member_id",
        "partitions",
        "previous_generation",
        "queue",
        "taken",
        "timer_at",
    )

    def __init__(self, owner: RecordOwner, group: "Group", member_id: str) -> None:
        self._owner = owner
        self.group = group
        self.member_id = member_id
        self.key = member_key(group.group_id, member_id)
        """Under which the member log has it; made once, since each Heartbeat asks the log."""
        self.machine = MemberStateMachine()
        self.queue = ProcedureQueue(on_idle=self._idle)
        self.timer_at = math.inf

        self.client = Client()
        self.partitions = HeldPartitions()
        self.broker = BrokerView()
        self.deadlines = Deadlines()
        self.join = JoinProgress()

        # generation and epoch
        self.generation = -1
        """The client's; :mod:`translation.members.generation` says how it comes from the member epoch."""
        self.previous_generation = -1
        self.member_epoch = 0
        self.incarnation = 0
        """Counts the memberships under this id, so that an answer that comes after the end is recognised."""
        self.adopted = False
        """Found at the broker, and has not joined here yet: what its client owns is not known."""

        self.conversions = 0
        """Procedures that convert it, or would, and may wait for the member log: the record must not be dropped then,
        and with it what the log says of it here."""

        self.taken = False
        """Its last membership here did not end: another replica serves it."""

        # how its client is reached
        self.connection_id: ConnectionId | None = None
        self.last_join_on: ConnectionId | None = None
        """The connection of its last JoinGroup."""
        self.last_join_host = ""
        """The client host of that connection. Calls under its id may come from other hosts: anybody who may read the
        group may make them."""
        self.join_answered_on: ConnectionId | None = None
        """That of its last JoinGroup which was answered with the generation that it has."""
        self.may_have_moved = False
        """A connection of its client was closed since its last JoinGroup here, and no call came since on that of the
        JoinGroup: another process may have served it."""

    @property
    def state(self) -> MemberState:
        """The member's state; changed by :mod:`translation.members.member_state` only."""
        return self.machine.state

    @property
    def joined(self) -> bool:
        """Whether the broker has, as far as is known, a membership for this member.

        That is so as soon as the broker gave an epoch, before the client has its first JoinGroup answer.
        """
        return self.member_epoch > 0 or self.machine.state is not MemberState.ABSENT

    @contextmanager
    def converting(self) -> Iterator[None]:
        """What is done inside converts the member in place, or finds that it may not be converted now."""
        self.conversions += 1
        try:
            yield
        finally:
            self.conversions -= 1

    def _idle(self) -> None:
        if self.member_epoch <= 0:  # as for nearly nobody
            self._owner.drop_if_idle(self)

    def next_due(self) -> float:
        """The earliest deadline that runs."""
        return self.deadlines.earliest()

    def on_time(self, now: float) -> None:
        """Handle a booked deadline; :mod:`translation.routing.deadlines` decides what is due."""
        self._owner.on_member_time(self, now)


class Group:
    """The members of one group that this process holds, and what is known of the group as a whole."""

    __slots__ = (
        "_owner",
        "answered_on",
        "asked_to_rejoin",
        "connected",
        "conversion",
        "dead",
        "departures",
        "ended_at",
        "first_heartbeats",
        "group_id",
        "in_reach_at",
        "initial_rebalance",
        "leaving",
        "members",
        "migration",
        "out_of_reach",
        "pending_switches",
        "relayed_until",
        "scheduled_heartbeats",
        "settled",
        "settled_asked_at",
        "static_members",
        "timer_at",
    )

    def __init__(self, owner: RecordOwner, group_id: str) -> None:
        self._owner = owner
        self.group_id = group_id
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member id by instance id."""
        self.migration = GroupMigration()
        self.initial_rebalance = InitialRebalance()
        self.leaving: set[str] = set()
        """Members of the new protocol whose end is on its way to the broker."""
        self.departures = 0
        """How many such ends the broker has answered: what it said before the last of them may be out of date."""
        self.first_heartbeats = 0
        """How many first heartbeats, which begin a membership of the new protocol, are on their way to the broker."""
        self.relayed_until: dict[str, float] = {}
        """Ids of classic members at the broker, whose calls are relayed, and until when that is taken for granted."""
        self.pending_switches: dict[str, PendingSwitch] = {}
        """Clients that were made to rejoin because the policy changed, by the member id that they leave behind."""
        self.conversion: Conversion | None = None
        """Its conversion in place, or its way back, while this process is at it."""
        self.asked_to_rejoin: dict[str, float] = {}
        """When members were first answered REBALANCE_IN_PROGRESS to change the protocol: classic ones that are unknown
        here, and translated ones that go back."""
        self.scheduled_heartbeats: list[float] = []
        """When the members are heartbeated because the group changed (sorted)."""
        self.timer_at = math.inf

        # how its coordinator is reached (translation.engine.reach)
        self.connected = 0
        """Members that are reached through a connection."""
        self.out_of_reach = False
        """Whether the last such connection broke, and the coordinator has not answered since."""
        self.in_reach_at = -math.inf
        """When the coordinator last answered again, or the member log was ready again, so that sessions began again."""
        self.ended_at = -math.inf
        """When a membership last ended, as far as is known here."""
        self.settled, self.settled_asked_at = False, -math.inf
        """Whether each member had what it is to have when the broker was last asked, and when that was."""
        self.answered_on: ConnectionId | None = None
        """The connection on which the coordinator answered last who may act in the group."""
        self.dead: dict[str, float] = {}
        """Dead member ids for which epoch -1 is to be sent, and when."""

    @contextmanager
    def departing(self, *member_ids: str) -> Iterator[None]:
        """What is done inside ends the memberships of these members of the new protocol at the broker."""
        self.leaving.update(member_ids)
        try:
            yield
        finally:
            self.leaving.difference_update(member_ids)
            self.departures += 1

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """What is done inside begins a membership of the new protocol at the broker."""
        self.first_heartbeats += 1
        try:
            yield
        finally:
            self.first_heartbeats -= 1

    def is_consumer_group(self, now: float) -> bool:
        """Whether the broker has it as a consumer group for sure: a client that is here is a member of it, of which the
        broker has heard within a heartbeat interval, so that its session has not ended; or the helper of this process.

        That it was one before says nothing. When its last member of the new protocol leaves, those that are still
        classic make it a classic group again, in the middle of a rebalance.
        """
        if self.conversion is not None and self.conversion.helper_id:
            return True
        return any(
            member.joined
            and not member.may_have_moved
            and member.member_id not in self.leaving
            and now - member.broker.heard_at <= member.broker.keep_alive_s
            for member in self.members.values()
        )

    def static_member(self, instance_id: str) -> Member | None:
        """The newest member with this instance id; else an older one whose membership has not ended yet."""
        newest = self.members.get(self.static_members.get(instance_id, ""))
        older = (one for one in self.members.values() if one.joined and one.client.instance_id == instance_id)
        return newest or next(older, None)

    def on_time(self, now: float) -> None:
        """Handle a scheduled heartbeat that is due."""
        self._owner.on_group_time(self, now)
