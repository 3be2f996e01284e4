"""What is known of a member whose calls pass through (:mod:`translation.passthrough.observer`)."""

from collections import defaultdict
from collections.abc import Callable

import msgspec

from protocol_codecs import Uuid
from protocol_codecs.uuids import uuid_to_text
from translation.actions import ConnectionId, MemberProtocol
from translation.member_state import OBSERVED_TRANSITIONS, MemberState, MemberStateMachine
from translation.partitions import TopicPartitions, TopicPartitionSet

Owned = frozenset[tuple[str, Uuid | None, int]]
"""(topic name or empty, topic id or None, partition index): classic calls tell names only, the new protocol ids."""

NOTHING: Owned = frozenset()

_SESSION_TIMEOUT_MS = 45_000
"""Kafka's default, for members whose own was not seen."""


def _observed() -> MemberStateMachine:
    return MemberStateMachine(OBSERVED_TRANSITIONS)


class ObservedMember(msgspec.Struct, kw_only=True):
    """A member as its calls show it. ``owned`` is None as long as nothing told what it holds."""

    group_id: str
    member_id: str
    protocol: MemberProtocol
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str = ""
    software: str = ""
    connection_id: ConnectionId | None = None
    """That of its last call which the broker accepted."""
    is_consumer: bool = True
    generation: int = -1
    member_epoch: int = -1
    machine: MemberStateMachine = msgspec.field(default_factory=_observed)
    owned: Owned | None = None
    pending_revocation: Owned = NOTHING
    session_timeout_ms: int = _SESSION_TIMEOUT_MS
    rebalance_timeout_ms: int = -1
    alive_until: float = 0.0

    @property
    def state(self) -> MemberState:
        """The member's state; changed by :mod:`translation.member_state` only."""
        return self.machine.state

    def touch(self, now: float) -> None:
        """A sign of life, in seconds of the caller's clock."""
        self.alive_until = now + self.session_timeout_ms / 1000


def to_topic_partitions(partitions: Owned, name_of: Callable[[Uuid], str]) -> TopicPartitions:
    """The set for people and the journal; ``name_of`` gives the names of those that are known by id."""
    indexes: defaultdict[tuple[str, bytes], list[int]] = defaultdict(list)
    for name, topic_id, index in partitions:
        indexes[name, topic_id or b""].append(index)
    named = sorted(
        (name or (name_of(Uuid(topic_id)) if topic_id else ""), topic_id, index)
        for (name, topic_id), index in indexes.items()
    )
    return tuple(
        TopicPartitionSet(name, uuid_to_text(Uuid(topic_id)) if topic_id else None, tuple(sorted(index)))
        for name, topic_id, index in named
    )
