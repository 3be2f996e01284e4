"""What a test says that other parts of the process know of groups."""

from collections.abc import Callable
from functools import partial
from typing import Any

from proxy.groups.group_records import GroupLookups, nothing
from proxy.groups.proof_view import ProofView
from translation.mending.unowned import Unowned
from translation.moving.move_view import MoveView


class Known:
    """Nothing at first. What a test sets counts from the next look on."""

    def __init__(self) -> None:
        self.move_of: Callable[[str], MoveView | None] = nothing
        self.proof_of: Callable[[str], ProofView | None] = nothing
        self.unowned_of: Callable[[str], Unowned | None] = nothing
        self.lag_of: Callable[[str], int | None] = nothing

    def lookups(self) -> GroupLookups:
        names = GroupLookups.__struct_fields__
        return GroupLookups(**{name: partial(self._look_up, name) for name in names})

    def _look_up(self, name: str, group_id: str) -> Any:
        return getattr(self, name)(group_id)
