"""What this process knows of one member, and of the group that it is in.

A member is known by (group id, member id). It outlives connections: they are only how it is reached. All
times are absolute seconds of the caller's clock; ``math.inf`` means that a deadline does not run.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponseAssignment,
)
from translation.actions import ConnectionId, Request
from translation.engine.procedure import ProcedureQueue, RunningProcedure
from translation.group_migration import GroupMigration
from translation.member_state import MemberState, MemberStateMachine
from translation.partitions import NONE, Partitions


class PendingMove(msgspec.Struct, frozen=True):
    """A client that was told to join anew, and the membership that it leaves behind."""

    member_id: str
    instance_id: str | None
    connection_id: ConnectionId
    client_id: str | None
    client_host: str
    told_at: float


class RecordOwner(Protocol):
    """Who keeps the records of members and groups (:class:`~translation.engine.registry.Registry`)."""

    on_member_time: "Callable[[Member, float], None]"
    on_group_time: "Callable[[Group, float], None]"

    def drop_if_idle(self, member: "Member") -> None:
        """Forget a member that has no membership and no procedure under way."""


class Member:
    """One classic client, as a member of the new protocol.

    Four sets of partitions (docs/explanation/translation.md):

    * ``broker_assignment``: what the broker's last response assigned. The broker counts it as owned by this member.
    * ``synced_assignment``: what the client got from its last SyncGroup.
    * ``possibly_owned``: what the client may be working on at this moment: what it reported as owned in its
      last JoinGroup, and since SyncGroup also what that gave it. It is the owned list after a lost response.
    * ``pending_revocation``: what the broker withdrew and has not yet seen missing from an owned list.
    """

    __slots__ = (
        "_owner",
        "addition_debounce_limit",
        "addition_debounce_until",
        "adopted",
        "broker_assignment",
        "broker_assignor",
        "broker_replied_at",
        "broker_subscription",
        "client_host",
        "client_id",
        "connection_id",
        "cooperative",
        "debounced_assignment",
        "decoded_assignment",
        "effective_assignor",
        "embedded_version",
        "generation",
        "group",
        "incarnation",
        "instance_id",
        "join_answered_on",
        "keep_alive_at",
        "keep_alive_s",
        "last_full_request",
        "last_join_on",
        "machine",
        "mapped_assignor",
        "may_have_moved",
        "member_epoch",
        "member_id",
        "old_classic_membership",
        "pending_revocation",
        "possibly_owned",
        "previous_generation",
        "protocol_name",
        "protocol_type",
        "queue",
        "rack",
        "rebalance_deadline",
        "rebalance_timeout_ms",
        "reply_lost",
        "reported_owned",
        "session_deadline",
        "session_timeout_ms",
        "software",
        "subscribed_on",
        "subscription",
        "superseded_requests",
        "synced_assignment",
        "timer_at",
        "waiting_join",
    )  # fmt: skip

    def __init__(self, owner: RecordOwner, group: "Group", member_id: str) -> None:
        self._owner = owner
        self.group = group
        self.member_id = member_id
        self.machine = MemberStateMachine()
        self.queue = ProcedureQueue(on_idle=self._idle)
        self.timer_at = math.inf

        # the client
        self.instance_id: str | None = None
        self.client_id: str | None = None
        self.client_host = ""
        self.software = ""
        self.connection_id: ConnectionId | None = None
        self.last_join_on: ConnectionId | None = None
        """The connection of its last JoinGroup."""
        self.join_answered_on: ConnectionId | None = None
        """That of its last JoinGroup which was answered with the generation that it has."""
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.subscription: frozenset[str] = frozenset()
        self.rack: str | None = None
        self.protocol_type = "consumer"
        self.protocol_name = ""
        self.embedded_version = 0
        self.cooperative = False
        self.mapped_assignor = "uniform"
        """The server-side assignor that stands in for the client's own."""
        self.effective_assignor = "uniform"
        """The one that it is to have: its own, or what the policy says."""
        self.broker_subscription: frozenset[str] = frozenset()
        """Those of its topics that its principal may describe, as the broker took them last."""
        self.subscribed_on: ConnectionId | None = None
        """The connection on which the broker took them."""
        self.broker_assignor: str | None = None
        """The one that the broker was told last in this membership."""

        # generation and epoch
        self.generation = -1
        """The client's; :mod:`translation.generation` says how it comes from the member epoch."""
        self.previous_generation = -1
        self.member_epoch = 0
        self.reply_lost = False
        self.adopted = False
        """Found at the broker, and has not joined here yet: what it holds is not known."""
        self.may_have_moved = False
        """A connection of its client was closed since its last JoinGroup here, and no call came since on that of the
        JoinGroup: it may have been elsewhere."""
        self.incarnation = 0
        """Counts the memberships under this id, so that an answer that comes after the end is recognised."""
        self.broker_replied_at = -math.inf
        """When the broker last answered a heartbeat of this member."""

        # partitions
        self.broker_assignment: Partitions = NONE
        self.synced_assignment: Partitions = NONE
        self.possibly_owned: Partitions = NONE
        self.pending_revocation: Partitions = NONE
        self.reported_owned: Partitions | None = None
        """What its client still holds, if a JoinGroup that is not answered yet claims less than ``possibly_owned``."""
        self.debounced_assignment: Partitions = NONE

        # what was said last, which is as a rule what is said next
        self.last_full_request: (
            tuple[tuple[Any, ...], frozenset[str], Partitions, ConsumerGroupHeartbeatRequest] | None
        ) = None
        """The full heartbeat, and all that it was made of."""
        self.decoded_assignment: tuple[ConsumerGroupHeartbeatResponseAssignment, Partitions] | None = None
        """The broker's assignment, and what it is as a set."""

        # deadlines
        self.session_deadline = math.inf
        self.rebalance_deadline = math.inf
        self.addition_debounce_until = math.inf
        self.addition_debounce_limit = math.inf
        self.keep_alive_s = 5.0
        self.keep_alive_at = math.inf

        self.old_classic_membership: PendingMove | None = None
        """The classic membership of its client, which is to end as soon as this one has begun."""

        # a JoinGroup that waits for partitions, and those that it took over
        self.waiting_join: RunningProcedure | None = None
        self.superseded_requests: list[Request] = []

    @property
    def state(self) -> MemberState:
        """The member's state; changed by :mod:`translation.member_state` only."""
        return self.machine.state

    @property
    def joined(self) -> bool:
        """Whether the broker has, as far as is known, a membership for this member.

        That is so as soon as the broker gave an epoch, before the client has its first JoinGroup answer.
        """
        return self.member_epoch > 0 or self.machine.state is not MemberState.ABSENT

    def _idle(self) -> None:
        if self.member_epoch <= 0:  # as for nearly nobody
            self._owner.drop_if_idle(self)

    def next_due(self) -> float:
        """The earliest deadline that runs."""
        return min(
            self.session_deadline, self.rebalance_deadline, self.addition_debounce_until, self.keep_alive_at
        )

    def renew_session(self, now: float) -> None:
        """The client gave a sign of life; its session starts anew. While it waits in JoinGroup, it does not run."""
        if self.waiting_join is None:
            self.session_deadline = now + self.session_timeout_ms / 1000

    def on_time(self, now: float) -> None:
        """A booked deadline came; what is due is decided in :mod:`translation.deadlines`."""
        self._owner.on_member_time(self, now)


class Group:
    """The members of one group that this process holds, and what is known of the group as a whole."""

    __slots__ = (
        "_owner",
        "group_id",
        "leaving",
        "members",
        "migration",
        "pending_moves",
        "relayed_until",
        "scheduled_heartbeats",
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
        self.leaving: set[str] = set()
        """Members of the new protocol whose last heartbeat is on its way, because the policy changed."""
        self.relayed_until: dict[str, float] = {}
        """Ids of classic members at the broker, whose calls are relayed, and until when that is taken for granted."""
        self.pending_moves: dict[str, PendingMove] = {}
        """Clients that were told to join anew because the policy changed, by the member id that they leave behind."""
        self.scheduled_heartbeats: list[float] = []
        """When the members are heartbeated because the group changed (sorted)."""
        self.timer_at = math.inf

    def is_consumer_group(self, now: float) -> bool:
        """Whether the broker has it as a consumer group for sure: a client that is here is a member of it, of which the
        broker has heard within a heartbeat interval, so that its session has not ended.

        That it was one before says nothing. When its last member of the new protocol leaves, those that are still
        classic make it a classic group again, in the middle of a rebalance.
        """
        return any(
            member.joined
            and not member.may_have_moved
            and now - member.broker_replied_at <= member.keep_alive_s
            for member in self.members.values()
        )

    def static_member(self, instance_id: str) -> Member | None:
        """The newest member with this instance id; else an older one whose membership has not ended yet."""
        newest = self.members.get(self.static_members.get(instance_id, ""))
        older = (one for one in self.members.values() if one.joined and one.instance_id == instance_id)
        return newest or next(older, None)

    def on_time(self, now: float) -> None:
        """A scheduled heartbeat is due."""
        self._owner.on_group_time(self, now)
