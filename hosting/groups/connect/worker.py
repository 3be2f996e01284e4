"""What a hosted group keeps of one worker of Connect beside its session and its JoinGroup."""

import msgspec

from coordinator.connect_groups.formats import Difference, Said
from coordinator.connect_groups.work import WorkSet
from hosting.groups.member import HostedMember, Offer

NOTHING: WorkSet = frozenset()


class WorkerOffer(Offer, frozen=True):
    """What a worker's JoinGroup brings: what it says of itself, too."""

    said: Said


class Part(msgspec.Struct, frozen=True):
    """What waits for a worker until its SyncGroup."""

    difference: Difference
    protocol: str

    @property
    def heard(self) -> "Heard":
        """What a worker has heard by it."""
        return Heard(self.difference.leader, self.difference.leader_url, self.protocol)


class Heard(msgspec.Struct, frozen=True):
    """What a worker knows of its group from its last assignment. If that has changed it has to hear of it."""

    leader: str
    leader_url: str
    protocol: str


class Round(msgspec.Struct, frozen=True):
    """A leader has been told the group: what each worker says of itself, which is what it runs."""

    leader: str
    protocol: str
    shown: dict[str, Said]


class ConnectClient(msgspec.Struct, kw_only=True, eq=False):
    """One worker. Times are in milliseconds."""

    member: HostedMember
    said: Said
    """As in its last JoinGroup, and with what it was handed since."""
    stopping: WorkSet = NOTHING
    """What it was told to give up; no JoinGroup of it has come since."""
    part: Part | None = None
    awaits_sync: bool = False
    """Whether its JoinGroup was answered, and no SyncGroup has come since."""
    heard: Heard | None = None
    due_ms: int | None = None
    """Until when it has to send what it was told to, a JoinGroup or a SyncGroup; else it is a member no longer."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for it, and it has given up what it had to."""
        return self.part is None and not self.stopping
