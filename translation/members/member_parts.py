"""The parts of a :class:`~translation.members.member.Member`: what is known of its client, and what it is doing.

All times are absolute seconds of the caller's clock; ``math.inf`` means that a deadline does not run.
"""

import math
from typing import Any

import msgspec

from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponseAssignment,
)
from translation.actions import ConnectionId, Request
from translation.members.procedure import RunningProcedure
from translation.partitions import NONE, Partitions
from translation.policy.client_offer import ClientOffer


class PendingSwitch(msgspec.Struct, frozen=True):
    """A client that was made to rejoin, and the membership that it leaves behind."""

    member_id: str
    instance_id: str | None
    connection_id: ConnectionId
    client_id: str | None
    client_host: str
    asked_at: float
    is_eager: bool = False
    """Its Heartbeat was answered REBALANCE_IN_PROGRESS, since it gives up all partitions by its own rules."""


class Client:
    """What is known of the client itself, most of it from its last JoinGroup."""

    __slots__ = (
        "client_host",
        "client_id",
        "cooperative",
        "embedded_version",
        "instance_id",
        "mapped_assignor",
        "offer",
        "protocol_name",
        "protocol_type",
        "rack",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "software",
        "subscription",
    )

    def __init__(self) -> None:
        self.instance_id: str | None = None
        self.client_id: str | None = None
        self.client_host = ""
        self.software = ""
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.subscription: frozenset[str] = frozenset()
        self.rack: str | None = None
        self.protocol_type = "consumer"
        self.protocol_name = ""
        self.embedded_version = 0
        """The version of the embedded consumer protocol that the client reads."""
        self.cooperative = False
        self.mapped_assignor = "uniform"
        """The server-side assignor that stands in for the client's own."""
        self.offer: ClientOffer | None = None


class HeldPartitions:
    """What is assigned to the member, and what its client may own (docs/explanation/translation.md)."""

    __slots__ = (
        "broker_assignment",
        "debounced_assignment",
        "pending_revocation",
        "possibly_owned",
        "reported_owned",
        "synced_assignment",
    )

    def __init__(self) -> None:
        self.broker_assignment: Partitions = NONE
        """What the broker's last response assigned. The broker counts it as owned by this member."""
        self.synced_assignment: Partitions = NONE
        """What the client got from its last SyncGroup."""
        self.possibly_owned: Partitions = NONE
        """What the client may be working on at this moment: what it reported as owned in its last JoinGroup, and since
        SyncGroup also what that gave it. It is the owned list after a lost response."""
        self.pending_revocation: Partitions = NONE
        """What the broker withdrew and has not yet seen missing from an owned list."""
        self.reported_owned: Partitions | None = None
        """What the client still owns, if a JoinGroup that is not answered yet reports less than ``possibly_owned``."""
        self.debounced_assignment: Partitions = NONE
        """The assignment with the additions that an eager client is not told yet."""


class BrokerView:
    """What the broker was told of the member last, and how its responses come."""

    __slots__ = (
        "assignor",
        "decoded_assignment",
        "effective_assignor",
        "heard_at",
        "keep_alive_s",
        "last_full_request",
        "replied_at",
        "reply_lost",
        "reported_at",
        "sent_at",
        "subscribed_on",
        "subscription",
        "taken_over_at",
    )

    def __init__(self) -> None:
        self.subscription: frozenset[str] = frozenset()
        """Those of the client's topics that its principal may describe, as the broker took them last."""
        self.subscribed_on: ConnectionId | None = None
        """The connection on which the broker took them."""
        self.assignor: str | None = None
        """The server-side assignor that the broker was told last in this membership."""
        self.effective_assignor = "uniform"
        """The one that it is to be told: the client's mapped one, or what the policy says."""
        self.replied_at = -math.inf
        """When the broker last answered a heartbeat of this member."""
        self.sent_at = -math.inf
        """When the last heartbeat was sent."""
        self.heard_at = -math.inf
        """When the last heartbeat was sent that the broker has accepted: it has heard of the member then, or later."""
        self.reply_lost = False
        """The response to the last heartbeat never came, so the broker may know more than is known here."""
        self.reported_at = -math.inf
        """When the broker last accepted a full heartbeat, which reported all that the client may own."""
        self.taken_over_at = -math.inf
        """When this process took the membership over from another; never if it began here."""
        self.keep_alive_s = 5.0
        """How often the broker wants a heartbeat (seconds)."""
        self.last_full_request: (
            tuple[tuple[Any, ...], frozenset[str], Partitions, ConsumerGroupHeartbeatRequest] | None
        ) = None
        """The last full heartbeat, and all that it was made of: the next one is the same, as a rule."""
        self.decoded_assignment: tuple[ConsumerGroupHeartbeatResponseAssignment, Partitions] | None = None
        """The assignment in the broker's response, and what it is as a set."""


class Deadlines:
    """When something is due: the client's own timeouts, and what the proxy sends or tells."""

    __slots__ = (
        "addition_debounce_limit",
        "addition_debounce_until",
        "keep_alive_at",
        "rebalance_deadline",
        "session_deadline",
        "suspended_until",
    )

    def __init__(self) -> None:
        self.session_deadline = math.inf
        self.rebalance_deadline = math.inf
        self.suspended_until = math.inf
        """When the member is forgotten if its timeouts are suspended until then (:mod:`translation.engine.reach`)."""
        self.addition_debounce_until = math.inf
        """When an eager client is told of added partitions, if no more are added."""
        self.addition_debounce_limit = math.inf
        """When it is told at the latest."""
        self.keep_alive_at = math.inf

    def stop(self) -> None:
        """Stop the client's own timeouts, as while it waits in JoinGroup."""
        self.session_deadline = self.rebalance_deadline = self.suspended_until = math.inf

    def earliest(self) -> float:
        """The earliest deadline that runs."""
        if self.suspended_until < math.inf:
            return min(self.suspended_until, self.addition_debounce_until, self.keep_alive_at)
        return min(
            self.session_deadline, self.rebalance_deadline, self.addition_debounce_until, self.keep_alive_at
        )


class JoinProgress:
    """The JoinGroup of the client that is under way, if there is one."""

    __slots__ = ("held", "superseded_requests", "waiting")

    def __init__(self) -> None:
        self.waiting: RunningProcedure | None = None
        """The procedure of a JoinGroup that waits for partitions."""
        self.held: tuple[int, int] | None = None
        """While it is held on the way back: the generation that the client has, and the one that the broker has
        (:mod:`translation.moving.held_return`)."""
        self.superseded_requests: list[Request] = []
        """The older JoinGroups that the newest one answers too."""
