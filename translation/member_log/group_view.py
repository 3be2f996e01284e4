"""What counts for the records of groups, for one partition of the member log, and how many of them are kept.

The rule is that for members (:mod:`translation.member_log.counting`), but for one thing: where the replicas have a key,
a record that is authenticated takes the place of one that is not, whatever they say that their writers saw.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping

from translation.member_log.counting import FORGET_MS, NO_BOUND, counts
from translation.member_log.group_records import GroupKey, StoredGroup


class GroupRoom:
    """How many records of groups one process keeps, in all and of one group, and how many bytes."""

    def __init__(self, most: int, of_group: int, max_bytes: int) -> None:
        self.most, self.of_group, self.max_bytes = most, of_group, max_bytes
        self.bytes_of_group = max_bytes // 2
        self.records = self.bytes = 0
        self.forgotten = 0
        """Records that were forgotten for want of room, so far."""

    def add(self, records: int, size: int) -> None:
        """Count what is kept from now on, or no longer."""
        self.records += records
        self.bytes += size

    @property
    def is_exceeded(self) -> bool:
        """Whether more is kept than there is room for in all."""
        return self.records > self.most or self.bytes > self.max_bytes

    def share(self, view: "GroupView") -> int:
        """How much a partition has of what is too much."""
        return len(view) if self.records > self.most else view.bytes


class GroupView:
    """What counts for each record of the groups of one partition, as far as it has been read."""

    def __init__(self, room: GroupRoom | None = None) -> None:
        self._room = room or GroupRoom(NO_BOUND, NO_BOUND, NO_BOUND)
        self._counted: OrderedDict[GroupKey, StoredGroup] = OrderedDict()
        self._by_group: OrderedDict[str, dict[str, StoredGroup]] = OrderedDict()
        self._bytes_of_group: Counter[str] = Counter()
        self.bytes = 0
        """About how much memory its records take."""

    def get(self, key: GroupKey) -> StoredGroup | None:
        """The record that counts, or None."""
        return self._counted.get(key)

    def of_group(self, group_id: str) -> Mapping[str, StoredGroup]:
        """The records that count for a group, by name."""
        return self._by_group.get(group_id, {})

    def counted(self) -> list[tuple[GroupKey, StoredGroup]]:
        """All records that count, as they are now, the oldest first."""
        return list(self._counted.items())

    def read(self, key: GroupKey, stored: StoredGroup) -> bool:
        """Take the next record. Return whether it counts."""
        present = self._counted.get(key)
        if present is not None and present.is_trusted is not stored.is_trusted:
            if present.is_trusted:
                return False
        elif not counts(stored, present):
            return False
        if present is not None:
            self._count(key.group_id, -1, -present.size)
        self._count(key.group_id, 1, stored.size)
        self._counted[key] = stored
        self._counted.move_to_end(key)
        self._by_group.setdefault(key.group_id, {})[key.name] = stored
        return True

    def _count(self, group_id: str, records: int, size: int) -> None:
        self._room.add(records, size)
        self.bytes += size
        self._bytes_of_group[group_id] += size
        if not self._bytes_of_group[group_id]:
            del self._bytes_of_group[group_id]

    def forget(self, newest_ms: int) -> list[str]:
        """Forget what is too old to matter: everybody does so earlier than the topic. Return whose it was."""
        forgotten: list[str] = []
        while self._counted:
            key, stored = next(iter(self._counted.items()))
            if newest_ms - stored.appended_ms <= FORGET_MS:
                break
            forgotten.append(key.group_id)
            self.drop(key)
        return forgotten

    def drop(self, key: GroupKey) -> None:
        """Forget a record."""
        self._count(key.group_id, -1, -self._counted.pop(key).size)
        names = self._by_group[key.group_id]
        del names[key.name]
        if not names:
            del self._by_group[key.group_id]

    def forget_beyond(self, group_id: str) -> list[str]:
        """Forget the oldest records of a group with more, or more bytes, than it has room for: a share at once."""
        names, sizes = self._by_group.get(group_id, {}), self._bytes_of_group
        most, most_bytes = self._room.of_group, self._room.bytes_of_group
        if len(names) <= most and sizes[group_id] <= most_bytes:
            return []
        most, most_bytes = most - most // 100, most_bytes - most_bytes // 100
        for name in sorted(names, key=lambda name: names[name].offset):
            if len(names) <= most and sizes[group_id] <= most_bytes:
                break
            self.drop(GroupKey(group_id, name))
            self._room.forgotten += 1
        return [group_id]

    def forget_oldest(self) -> list[str]:
        """Forget the oldest record, for want of room in all. Return whose it was."""
        if not self._counted:
            return []
        key = next(iter(self._counted))
        self.drop(key)
        self._room.forgotten += 1
        return [key.group_id]

    def __len__(self) -> int:
        return len(self._counted)

    def clear(self) -> None:
        """Give back the room of everything, when the partition is read again into another view."""
        for key in list(self._counted):
            self.drop(key)

    def use(self, group_id: str) -> bool:
        """A group is in use: it is not forgotten by :meth:`forget_unused`. Return whether it has records."""
        if group_id not in self._by_group:
            return False
        self._by_group.move_to_end(group_id)
        return True

    def forget_unused(self, most: int) -> list[str]:
        """Forget the groups that were used longest ago, if there are more than so many. Return which."""
        forgotten: list[str] = []
        while len(self._by_group) > most:
            group_id, names = self._by_group.popitem(last=False)
            forgotten.append(group_id)
            for name in names:
                self._count(group_id, -1, -self._counted.pop(GroupKey(group_id, name)).size)
        return forgotten

    def groups(self) -> list[str]:
        """The groups that have records, as they are now."""
        return list(self._by_group)
