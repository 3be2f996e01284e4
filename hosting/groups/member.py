"""A client of a hosted group, whatever its protocol type: its session, its JoinGroup, and what it was told."""

import msgspec

from protocol_codecs.all_messages import JoinGroupResponseMember


class HostedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A client's call beside its message. ``key`` is the caller's name for it; its answer comes under that."""

    key: object
    connection: object
    version: int
    client_id: str = ""
    client_host: str = ""


class WaitingJoin(msgspec.Struct, frozen=True):
    """A JoinGroup that has not been answered. It waits no longer than until ``limit_ms``."""

    call: HostedCall
    limit_ms: int


class Offer(msgspec.Struct, frozen=True):
    """What a JoinGroup brings: the metadata by protocol, and how many bytes are kept of it."""

    subscriptions: dict[str, bytes]
    size: int


class JoinResult(msgspec.Struct, frozen=True):
    """What a JoinGroup is answered with: the group at this epoch, and for its leader all members."""

    group_epoch: int
    protocol: str
    leader: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


class HostedMember(msgspec.Struct, kw_only=True, eq=False):
    """One client. Times are in milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscriptions: dict[str, bytes]
    """By protocol (for consumers: by assignor), in the client's order, as they came."""
    generation: int = -1
    session_deadline_ms: int
    join: WaitingJoin | None = None
    told_to_rejoin: bool = False
    has_its_id: bool = False
    """Whether a JoinGroup of it was answered, so that its client knows the member id."""

    size: int
    """How many bytes are kept of its JoinGroup."""
