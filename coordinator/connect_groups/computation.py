"""The computation of a group's next target by one of its workers: plain values, not in the log."""

from collections.abc import Mapping
from typing import Self

import msgspec

from coordinator.connect_groups.member import Assignor
from coordinator.connect_groups.work import WorkSet


class Prepared(msgspec.Struct, frozen=True):
    """What the worker was told last: the group at this epoch. Its assignment is checked against that."""

    group_epoch: int
    members: Mapping[str, Assignor]
    """The declarations of each for the chosen assignor."""
    configured: WorkSet
    config_offset: int = -1
    shown: Mapping[str, WorkSet] = {}
    """To a classic worker: what each was to run then. Its answer is differences to that."""


class Computation(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's turn to compute. ``attempt`` tells it from earlier turns of the same worker."""

    member_id: str
    assignor: str
    attempt: int
    is_told: bool = False
    prepared: Prepared | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self
