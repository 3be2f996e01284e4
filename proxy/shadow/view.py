"""What a shadow shows, as it is served in ``/api/groups`` (docs/reference/api.md)."""

import msgspec

MOST_MEMBERS = 100
"""Members that a shadow lists one by one."""
MOST_COUNTS = 50
"""Different numbers of partitions that a shadow lists."""


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What differs between the runs that were drawn: from ``low`` to ``high``, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


class CountView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """So many members would have ``partitions`` partitions."""

    partitions: int
    members: Span


class MemberForecast(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member of the classic group: how many partitions it has, and how many its client would have."""

    id: str
    client_id: str
    instance: str | None
    partitions_now: int
    partitions: Span


class ShadowView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the new protocol would give to an observed group, from ``samples`` runs.

    ``why_not`` says why nothing can be told; then all else is empty. Otherwise: ``empty`` members would be without
    partitions (``empty_now`` are today), the others would have between ``fewest`` and ``most``; ``counts`` says how
    many members have how many, unless there are more than fifty different numbers. ``moved`` partitions would go from
    one client to another. ``rack_local_now`` partitions have a replica in the rack of the client that has them, and
    ``racks_lost`` of them would not; both None if nobody names a rack. ``of_members`` are the first hundred members.
    ``at_once`` says why the members of the group have to leave it all at once; None if they are converted in place.
    """

    computed_at: float
    why_not: str | None
    assignor: str = ""
    samples: int = 0
    members: int = 0
    partitions: int = 0
    empty_now: int = 0
    empty: Span | None = None
    fewest_now: int = 0
    most_now: int = 0
    fewest: Span | None = None
    most: Span | None = None
    counts: tuple[CountView, ...] = ()
    moved: Span | None = None
    rack_local_now: int | None = None
    racks_lost: Span | None = None
    of_members: tuple[MemberForecast, ...] = ()
    at_once: str | None = None
    notes: tuple[str, ...] = ()


def not_computable(why: str, computed_at: float) -> ShadowView:
    """The shadow of a group of which nothing can be told."""
    return ShadowView(computed_at=computed_at, why_not=why)
