"""Groups without members, in the order of their eviction."""

from collections import OrderedDict


class VacantGroups:
    """Group ids in order of eviction: first those that never had a member, then emptied ones; oldest events first."""

    def __init__(self) -> None:
        self._never: OrderedDict[str, None] = OrderedDict()
        self._emptied: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._never) + len(self._emptied)

    def add(self, group_id: str, *, had_members: bool) -> None:
        """Add a group without members, or move it to the end of its order after an event."""
        self.discard(group_id)
        (self._emptied if had_members else self._never)[group_id] = None

    def discard(self, group_id: str) -> None:
        """Remove a group that has members now, or is gone."""
        self._never.pop(group_id, None)
        self._emptied.pop(group_id, None)

    def next_to_evict(self) -> str:
        """Return the group to evict next.

        :raises StopIteration: there is none.
        """
        return next(iter(self._never or self._emptied))
