"""A classic group: its members, its state, and the rules of membership."""

from collections.abc import Collection
from enum import StrEnum

from coordinator import java_order
from coordinator.classic_groups.member import ClassicMember, Protocols
from coordinator.errors import BrokenInvariant, RequestRefused
from protocol_codecs.all_messages import JoinGroupResponseMember
from protocol_codecs.codec import decode_prefix
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_SIZE = 2
"""Before an embedded subscription stands its version; the fields of version 0 begin all of them."""


class ClassicGroupState(StrEnum):
    """The states of a classic group, with the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = ClassicGroupState
_PREVIOUS_STATES: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.STABLE, _S.COMPLETING_REBALANCE, _S.EMPTY}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset(_S),
}
"""The states from which each state can be entered."""


class ClassicGroup:
    """One classic group."""

    def __init__(self, group_id: str, *, state: ClassicGroupState = _S.EMPTY, now_ms: int) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = _S.DEAD
        self.state_timestamp_ms = now_ms
        """When it entered its state, in milliseconds; -1 if unknown."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_joins: dict[str, None] = {}
        """Member ids that were given out with MEMBER_ID_REQUIRED and have not joined yet."""
        self.pending_syncs: dict[str, None] = {}
        """Members that have joined this generation and have not sent SyncGroup yet."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics of its members' subscriptions; None if they cannot be read."""
        self.new_member_added = False
        """Whether somebody joined since the initial rebalance delay began."""

    # Properties

    @property
    def is_empty(self) -> bool:
        """Whether it has no members and no rebalance under way."""
        return self.state is _S.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether it only stores offsets and was never joined."""
        return self.protocol_type is None and self.is_empty and not self.pending_joins

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members are consumers, not Connect workers or others."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin in its state."""
        return self.state in _PREVIOUS_STATES[_S.PREPARING_REBALANCE]

    @property
    def awaiting_joins(self) -> int:
        """The number of members that have joined the rebalance in preparation."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def all_members_joined(self) -> bool:
        """Whether all members have joined the rebalance in preparation."""
        return not self.pending_joins and all(m.awaiting_join is not None for m in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the largest rebalance timeout of its members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to this topic, or its subscription cannot be read."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def members_in_order(self) -> list[ClassicMember]:
        """Return the members in the order in which Kafka iterates over them."""
        return [self.members[m] for m in java_order.hash_order(self.members, java_order.text_hash)]

    def member_list(self) -> tuple[JoinGroupResponseMember, ...]:
        """Return the members' subscriptions for the JoinGroup response of the leader."""
        if self.protocol_name is None:
            raise BrokenInvariant(f"group {self.group_id} has no protocol in state {self.state}")
        return tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members_in_order()
        )

    # Checks

    def supports_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these assignors may join: one of them must be offered by all."""
        if self.is_empty:
            return bool(protocol_type) and bool(names)
        if protocol_type != self.protocol_type:
            return False
        common = self._common_protocols() if self.members else names
        return any(name in common for name in names)

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member. Raises RequestRefused with UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody has instance id {instance_id!r}")
            if current != member_id:
                raise RequestRefused(
                    ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} belongs to another member"
                )
        member = self.members.get(member_id)
        if member is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"no member {member_id!r}")
        return member

    # Changes

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one becomes the leader."""
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise BrokenInvariant(f"group {self.group_id} already has instance id {member.instance_id}")
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a pending member id. If it was the leader, another member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if member_id == self.leader_id:
            self.leader_id = next((m.member_id for m in self.members_in_order()), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member another member id; its waiting requests must have been answered."""
        old = self.members.pop(old_id)
        new = ClassicMember(
            new_id,
            instance_id=instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_id] = new
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is among the members that joined; return whether any member joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((m for m in self.members_in_order() if m.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        """Change the state."""
        if self.state not in _PREVIOUS_STATES[state]:
            raise BrokenInvariant(f"group {self.group_id} cannot go from {self.state} to {state}")
        self.previous_state, self.state, self.state_timestamp_ms = self.state, state, now_ms

    def begin_generation(self, now_ms: int) -> None:
        """End the join phase: start the next generation, with an assignor that all members offer."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.read_subscribed_topics()
        self.transition_to(_S.COMPLETING_REBALANCE if self.members else _S.EMPTY, now_ms)
        self.pending_syncs.clear()

    def select_protocol(self) -> str:
        """Return the assignor with most votes among those that all members support."""
        candidates = self._common_protocols()
        votes: dict[str, int] = {}
        for member in self.members_in_order():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        names = java_order.hash_order(votes, java_order.text_hash)
        chosen = java_order.first_of_most((name, votes[name]) for name in names)
        if chosen is None:
            raise BrokenInvariant(f"group {self.group_id} has no members to choose a protocol")
        return chosen

    def read_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of the members' embedded subscriptions; None if they cannot be read."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            subscriptions = [
                decode_prefix(
                    ConsumerProtocolSubscription, 0, member.metadata(self.protocol_name), _VERSION_SIZE
                )[0]
                for member in self.members.values()
            ]
        except MalformedMessage:
            return None
        return frozenset(topic for subscription in subscriptions for topic in subscription.topics)

    def _common_protocols(self) -> frozenset[str]:
        """Return the assignors that all members offer."""
        offers = [frozenset(member.protocol_names) for member in self.members.values()]
        return frozenset.intersection(*offers) if offers else frozenset()


def same_protocols(some: Protocols, other: Protocols) -> bool:
    """Whether both offer the same assignors with the same subscriptions, in the same order."""
    return some == other
