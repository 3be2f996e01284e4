"""A member of a classic group, with its waiting requests."""

from collections.abc import Collection

from coordinator.errors import BrokenInvariant
from protocol_codecs.all_messages import JoinGroupRequestProtocol

EMPTY_ASSIGNMENT = b""

Protocols = tuple[JoinGroupRequestProtocol, ...]


class ClassicMember:
    """One member of a classic group."""

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = EMPTY_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: int | None = None
        """The id of its JoinGroup request that is waiting."""
        self.awaiting_sync: int | None = None
        """The id of its SyncGroup request that is waiting."""
        self.is_new = False
        """Whether it is new and its first JoinGroup is still waiting, so that it can't send heartbeats."""

    @property
    def protocol_names(self) -> tuple[str, ...]:
        """Return the assignors that it offers, preferred first."""
        return tuple(protocol.name for protocol in self.protocols)

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether one of its requests is waiting, which counts as a heartbeat, as in Kafka."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol_name: str) -> bytes:
        """Return its subscription for an assignor that it offers."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise BrokenInvariant(f"member {self.member_id} does not offer {protocol_name!r}")

    def vote(self, candidates: Collection[str]) -> str:
        """Return its most preferred assignor among these (its vote)."""
        for name in self.protocol_names:
            if name in candidates:
                return name
        raise BrokenInvariant(f"member {self.member_id} offers none of {sorted(candidates)}")
