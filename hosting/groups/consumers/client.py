"""What a hosted group keeps of one consumer beside its session and its JoinGroup."""

import msgspec

from coordinator.partitions import Partitions
from hosting.groups.member import Offer


class ConsumerOffer(Offer, frozen=True):
    """What a consumer's JoinGroup brings: its topics, too, and what it still owns."""

    topics: tuple[str, ...]
    owned: Partitions


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


class ConsumerClient(msgspec.Struct, kw_only=True, eq=False):
    """One consumer."""

    topics: tuple[str, ...]
    reported: Partitions | None
    """What it still owns, while that is certain: from its JoinGroup until its SyncGroup is answered."""
    revision: int = 0
    """Moves when something is to be computed because of this member: its metadata for the coordinator."""
    leadership: Leadership | None = None
    given: Given | None = None
    """None until its first SyncGroup is answered, and again from each JoinGroup on."""
