"""The computation of a group's next target by one of its members: plain values, replaced when it goes on."""

from collections.abc import Mapping
from typing import Self

import msgspec

from protocol_codecs.uuids import Uuid


class PreparedMember(msgspec.Struct, frozen=True):
    """A member as the assignor was told of it, as far as its part of the assignment is checked against that."""

    instance_id: str | None
    subscribed_topic_ids: frozenset[Uuid]
    minimum_version: int
    maximum_version: int


class Prepared(msgspec.Struct, frozen=True):
    """What the assignment is computed from: the group at this epoch, with the number of partitions of each topic."""

    group_epoch: int
    members: Mapping[str, PreparedMember]
    partition_counts: Mapping[Uuid, int]


class Computation(msgspec.Struct, frozen=True, kw_only=True):
    """One member's turn to compute. ``attempt`` tells it from earlier turns of the same member."""

    member_id: str
    assignor: str
    attempt: int
    is_told: bool = False
    prepared: Prepared | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self
