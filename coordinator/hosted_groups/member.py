"""A client of a hosted group: what it has said, and what it was told. Epochs and partitions are the coordinator's."""

import msgspec

from coordinator.partitions import Partitions


class ClientCall(msgspec.Struct, frozen=True, kw_only=True):
    """A client's call beside its message. ``key`` is the caller's name for it; its answer comes under that."""

    key: object
    connection: object
    version: int
    client_id: str = ""
    client_host: str = ""


class WaitingJoin(msgspec.Struct, frozen=True):
    """A JoinGroup that has not been answered. It waits no longer than until ``limit_ms``."""

    call: ClientCall
    limit_ms: int


class Leadership(msgspec.Struct, frozen=True):
    """What a member was told as the leader: the group of this epoch, with these partitions as each member's own.

    ``is_second`` is the round in which a cooperative assignor gives away what it held back in the one before.
    """

    group_epoch: int
    assignor: str
    owned: dict[str, Partitions]
    is_second: bool


class Given(msgspec.Struct, frozen=True):
    """What the last SyncGroup told a member: its partitions, and the leader's assignment that they are from."""

    partitions: Partitions
    assignment: bytes


class Offer(msgspec.Struct, frozen=True):
    """What a JoinGroup brings: subscriptions by assignor, topics, what its client still owns, and its size."""

    subscriptions: dict[str, bytes]
    topics: tuple[str, ...]
    owned: Partitions
    size: int


class HostedMember(msgspec.Struct, kw_only=True, eq=False):
    """One client. Times are in milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...]
    subscriptions: dict[str, bytes]
    """By assignor, in the client's order, as they came."""
    revision: int = 0
    """Moves when something is to be computed because of this member: its metadata for the coordinator."""
    generation: int = -1
    session_deadline_ms: int
    join: WaitingJoin | None = None
    reported: Partitions | None = None
    """What its client still owns, while that is certain: from its JoinGroup until its SyncGroup is answered."""
    told_to_rejoin: bool = False
    leadership: Leadership | None = None
    given: Given | None = None
    """None until its first SyncGroup is answered, and again from each JoinGroup on."""
    has_its_id: bool = False
    """Whether a JoinGroup of it was answered, so that its client knows the member id."""

    size: int
    """How many bytes are kept of its JoinGroup."""
