"""What this process knows of one member, and of the group that it is in.

A member is known by (group id, member id). It outlives connections: they are only how it is reached. All
times are absolute seconds of the caller's clock; ``math.inf`` means that a deadline does not run.
"""

import math
from typing import TYPE_CHECKING, Any

import msgspec

from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponseAssignment,
)
from translation.actions import ConnectionId, Request
from translation.engine.procedure import Exchange, Turns
from translation.member_state import MemberState, MemberStateMachine
from translation.partitions import NONE, Partitions

if TYPE_CHECKING:
    from translation.engine.context import Context


class Move(msgspec.Struct, frozen=True):
    """A client that was told to join anew, and the membership that it leaves behind."""

    member_id: str
    instance_id: str | None
    connection_id: ConnectionId
    client_id: str | None
    client_host: str
    told_at: float


class Member:
    """One classic client, as a member of the new protocol.

    Four sets of partitions tell who thinks what:

    * ``assignment``: what the broker's last answer assigned. The broker counts it as owned by this member.
    * ``handed``: what the client was given by its last SyncGroup.
    * ``may_hold``: what the client may be working on at this moment: what it claimed in its last JoinGroup, and
      since SyncGroup also what it was handed. It is the owned list that is sent after a lost answer.
    * ``unacknowledged``: what the broker withdrew and has not yet seen missing from an owned list.
    """

    __slots__ = (
        "_context",
        "adopted",
        "answered_on",
        "assigned",
        "assignment",
        "away",
        "claimed",
        "client_host",
        "client_id",
        "connection_id",
        "cooperative",
        "embedded_version",
        "epoch",
        "gather_limit",
        "gather_until",
        "gathered",
        "generation",
        "group",
        "handed",
        "heard_at",
        "id",
        "instance_id",
        "joined_on",
        "keep_alive_at",
        "keep_alive_s",
        "left_behind",
        "lost_answer",
        "machine",
        "may_hold",
        "membership",
        "overtaken",
        "own_assignor",
        "parked_join",
        "previous_generation",
        "protocol_name",
        "protocol_type",
        "rack",
        "rebalance_deadline",
        "rebalance_timeout_ms",
        "said",
        "server_assignor",
        "session_deadline",
        "session_timeout_ms",
        "software",
        "subscription",
        "timer_at",
        "told_assignor",
        "told_on",
        "told_topics",
        "turns",
        "unacknowledged",
    )  # fmt: skip

    def __init__(self, context: "Context", group: "Group", member_id: str) -> None:
        self._context = context
        self.group = group
        self.id = member_id
        self.machine = MemberStateMachine()
        self.turns = Turns(on_idle=self._idle)
        self.timer_at = math.inf

        # the client
        self.instance_id: str | None = None
        self.client_id: str | None = None
        self.client_host = ""
        self.software = ""
        self.connection_id: ConnectionId | None = None
        self.joined_on: ConnectionId | None = None
        """The connection of its last JoinGroup."""
        self.answered_on: ConnectionId | None = None
        """That of its last JoinGroup which was answered with the generation that it has."""
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.subscription: frozenset[str] = frozenset()
        self.rack: str | None = None
        self.protocol_type = "consumer"
        self.protocol_name = ""
        self.embedded_version = 0
        self.cooperative = False
        self.own_assignor = "uniform"
        """The server-side assignor that stands in for the client's own."""
        self.server_assignor = "uniform"
        """The one that it is to have: its own, or what the policy says."""
        self.told_topics: frozenset[str] = frozenset()
        """Those of its topics that its principal may describe, as the broker took them last."""
        self.told_on: ConnectionId | None = None
        """The connection on which the broker took them."""
        self.told_assignor: str | None = None
        """The one that the broker was told last in this membership."""

        # generation and epoch
        self.generation = -1
        self.previous_generation = -1
        self.epoch = 0
        self.lost_answer = False
        self.adopted = False
        """Found at the broker, and has not joined here yet: what it holds is not known."""
        self.away = False
        """A connection of its client was closed since its last JoinGroup here, and no call came since on that of the
        JoinGroup: it may have been elsewhere."""
        self.membership = 0
        """Counts the memberships under this id, so that an answer that comes after the end is recognised."""
        self.heard_at = -math.inf
        """When the broker last answered a heartbeat of this member."""

        # partitions
        self.assignment: Partitions = NONE
        self.handed: Partitions = NONE
        self.may_hold: Partitions = NONE
        self.unacknowledged: Partitions = NONE
        self.claimed: Partitions | None = None
        """What its client still holds, if a JoinGroup that is not answered yet claims less than ``may_hold``."""
        self.gathered: Partitions = NONE

        # what was said last, which is as a rule what is said next
        self.said: (
            tuple[tuple[Any, ...], frozenset[str], Partitions, ConsumerGroupHeartbeatRequest] | None
        ) = None
        """The full heartbeat, and all that it was made of."""
        self.assigned: tuple[ConsumerGroupHeartbeatResponseAssignment, Partitions] | None = None
        """The broker's assignment, and what it is as a set."""

        # deadlines
        self.session_deadline = math.inf
        self.rebalance_deadline = math.inf
        self.gather_until = math.inf
        self.gather_limit = math.inf
        self.keep_alive_s = 5.0
        self.keep_alive_at = math.inf

        self.left_behind: Move | None = None
        """The classic membership of its client, which is to end as soon as this one has begun."""

        # a JoinGroup that waits for partitions, and those that it took over
        self.parked_join: Exchange | None = None
        self.overtaken: list[Request] = []

    @property
    def state(self) -> MemberState:
        """The member's state; changed by :mod:`translation.member_state` only."""
        return self.machine.state

    @property
    def joined(self) -> bool:
        """Whether the broker has, as far as is known, a membership for this member.

        That is so as soon as the broker gave an epoch, before the client has its first JoinGroup answer.
        """
        return self.epoch > 0 or self.machine.state is not MemberState.ABSENT

    def _idle(self) -> None:
        if self.epoch <= 0:  # as for nearly nobody
            self._context.drop_if_idle(self)

    def next_due(self) -> float:
        """The earliest deadline that runs."""
        return min(self.session_deadline, self.rebalance_deadline, self.gather_until, self.keep_alive_at)

    def touch(self, now: float) -> None:
        """The client gave a sign of life; its session starts anew. While it waits in JoinGroup, it does not run."""
        if self.parked_join is None:
            self.session_deadline = now + self.session_timeout_ms / 1000

    def learn_generation(self, generation: int) -> None:
        """A call of an adopted member's client says which generation it has; a late call has an older one."""
        if self.adopted and self.generation < generation <= self.epoch:
            self.generation = generation

    def on_time(self, now: float) -> None:
        """A booked deadline came; what is due is decided in :mod:`translation.deadlines`."""
        self._context.on_member_time(self, now)


class Group:
    """The members of one group that this process holds, and what is known of the group as a whole."""

    __slots__ = (
        "_context",
        "gives_up_until",
        "id",
        "leaving",
        "members",
        "moved_in_vain",
        "moves",
        "moves_together_until",
        "next_move_at",
        "nudges",
        "passes_through",
        "passes_through_until",
        "relayed",
        "static",
        "timer_at",
    )

    def __init__(self, context: "Context", group_id: str) -> None:
        self._context = context
        self.id = group_id
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """Member id by instance id."""
        self.passes_through: str | None = None
        """Why this group's calls are relayed although the policy says translate; None if they are translated."""
        self.passes_through_until = -math.inf
        """Until when that holds without looking again; the broker's own word holds until the policy changes.

        -inf: the next JoinGroup is looked at, and says what holds for other calls.
        """
        self.leaving: set[str] = set()
        """Members of the new protocol whose last heartbeat is on its way, because the policy changed."""
        self.relayed: dict[str, float] = {}
        """Ids of classic members at the broker, whose calls are relayed, and until when that is taken for granted."""
        self.moves: dict[str, Move] = {}
        """Clients that were told to join anew because the policy changed, by the member id that they leave behind."""
        self.next_move_at = -math.inf
        """When the next of them may be told."""
        self.moves_together_until = -math.inf
        """Until then all of them are told at once, because the broker can't carry both protocols in this group."""
        self.moved_in_vain = 0
        """How often they were, and somebody stayed in the classic group all the same."""
        self.gives_up_until = math.inf
        """Until when its conversion waits for cooperative members that have partitions to give up."""
        self.nudges: list[float] = []
        """When the members are heartbeated because the group changed (sorted)."""
        self.timer_at = math.inf

    def translate(self) -> None:
        """Nothing is known any more for which its calls should be relayed."""
        self.passes_through = None
        self.passes_through_until = -math.inf

    def is_relayed(self, now: float) -> bool:
        """Whether its calls are relayed at this time."""
        return self.passes_through is not None and not self._is_over(now)

    def _is_over(self, now: float) -> bool:
        """Whether the time has passed for which its calls were to be relayed."""
        return -math.inf < self.passes_through_until <= now

    def look_again(self, now: float) -> None:
        """If the time is over for which its calls were to be relayed, begin as if nothing had been tried."""
        if self._is_over(now):
            self.translate()
            self.moves_together_until = -math.inf

    @property
    def is_consumer_group(self) -> bool:
        """Whether the broker has it as a consumer group for sure: a client that is here is a member of it, of which the
        broker has heard within a heartbeat interval, so that its session has not ended.

        That it was one before says nothing. When its last member of the new protocol leaves, those that are still
        classic make it a classic group again, in the middle of a rebalance.
        """
        now = self._context.now
        return any(
            member.joined and not member.away and now - member.heard_at <= member.keep_alive_s
            for member in self.members.values()
        )

    def holder_of(self, instance_id: str) -> Member | None:
        """The newest member with this instance id; else an older one whose membership has not ended yet."""
        newest = self.members.get(self.static.get(instance_id, ""))
        older = (one for one in self.members.values() if one.joined and one.instance_id == instance_id)
        return newest or next(older, None)

    def on_time(self, now: float) -> None:
        """A nudge is due."""
        self._context.on_group_time(self, now)
