"""What a replica remembers of a partition of the member log, and of a member in which it takes an interest."""

import math

from translation.member_log.counting import PartitionView, Room
from translation.member_log.outputs import Health, JoinTerms
from translation.member_log.ownership import OwnershipMachine
from translation.member_log.records import MemberKey, MemberRecord


class Write:
    """A record that was written and not read back."""

    __slots__ = ("claims", "record", "written_at")

    def __init__(self, record: MemberRecord, claims: dict[int, float], now: float) -> None:
        self.record = record
        self.claims = claims
        """The claims that were made before it was written. A later one on the same connection waits longer."""
        self.written_at = now


class Entry:
    """A member in which this replica takes an interest: it serves it, or wants something of the log."""

    __slots__ = (
        "claims",
        "confirmed",
        "generation",
        "has_joined",
        "issued",
        "machine",
        "refresh_at",
        "relay_until",
        "served",
        "snapshot",
        "terms",
        "tries",
        "wants_end",
        "wants_expire",
        "write",
    )

    def __init__(self, terms: JoinTerms) -> None:
        self.machine = OwnershipMachine()
        self.terms = terms
        self.has_joined = False
        """The terms are those of a JoinGroup that claims it here, and no record says them yet."""
        self.write: Write | None = None
        self.claims: dict[int, float] = {}
        """Connections on which a call claims the member, and until when the call waits."""
        self.confirmed: dict[int, float] = {}
        """Connections on which a claim was settled, and when the client was last heard on each."""
        self.generation: int | None = None
        """The client's, if it has synced while it was served here; else that of the record that counts is kept."""
        self.snapshot: bytes | None = None
        """The member's newest snapshot, if there was one while it was served here; else that of the record that counts
        is kept."""
        self.issued = False
        """This process gave the id to its client, and no record of another has counted for it."""
        self.served = False
        """The member was served here, so partitions may have been handed out."""
        self.tries = 0
        self.wants_expire = False
        self.wants_end = False
        self.relay_until = 0.0
        """Until when a JoinGroup waits to be relayed under this id."""
        self.refresh_at = float("inf")

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with it: what the log says is known without it."""
        return (
            self.write is None
            and not (self.claims or self.served or self.issued)
            and not (self.wants_expire or self.wants_end or self.relay_until)
        )


class Partition:
    """What is known of one partition."""

    __slots__ = (
        "health",
        "later",
        "probe_at",
        "probe_written_at",
        "probes",
        "read_until",
        "replay_to",
        "view",
        "wanting",
    )

    def __init__(self, now: float, room: Room | None = None) -> None:
        self.view = PartitionView(room)
        self.health = Health.REPLAYING
        self.replay_to: int | None = None
        self.probe_at = now
        self.probe_written_at = 0.0
        """When the oldest probe was written that is not read back; without meaning if there is none."""
        self.probes = 0
        """Probes that are not read back. The last of them shows that the reader has caught up."""
        self.read_until = -math.inf
        """When the last probe of ours that is read back was written: all that was there before it is read."""
        self.wanting: dict[MemberKey, None] = {}
        """Members for which something is to be written, in the order in which it was wanted."""
        self.later: dict[MemberKey, None] = {}
        """Members of which only the snapshot is to be written anew: nobody waits for it."""

    @property
    def is_replayed(self) -> bool:
        """Whether everything that was there when this process began to read has been read."""
        return self.replay_to is not None and self.view.position >= self.replay_to
