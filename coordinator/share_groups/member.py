"""A member of a share group: an immutable value that is replaced when the member changes."""

from typing import Self

import msgspec

from coordinator.partitions import Partitions

STABLE = 0
"""The only state of a member, by its number in Kafka's records."""


class ShareGroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """One member. It may read from ``assigned``, as others may."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    """Sorted, without doubles."""
    assigned: Partitions = {}
    """Sorted. A topic may be there without partitions, as in Kafka."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def replace(self, **changes: object) -> Self:
        """Return the member with some fields changed."""
        return msgspec.structs.replace(self, **changes)
