"""Groups without members, in the order in which they are forgotten when there are too many."""

from collections import OrderedDict


class VacantGroups:
    """Ids of groups: first those that never had a member, then those whose members are gone; old news first."""

    def __init__(self) -> None:
        self._never: OrderedDict[str, None] = OrderedDict()
        self._emptied: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._never) + len(self._emptied)

    def add(self, group_id: str, *, had_members: bool) -> None:
        """A group has no members, and there is news of it."""
        self.discard(group_id)
        (self._emptied if had_members else self._never)[group_id] = None

    def discard(self, group_id: str) -> None:
        """A group has members, or is gone."""
        self._never.pop(group_id, None)
        self._emptied.pop(group_id, None)

    def next_to_evict(self) -> str:
        """The group to forget first.

        :raises StopIteration: there is none.
        """
        return next(iter(self._never or self._emptied))
