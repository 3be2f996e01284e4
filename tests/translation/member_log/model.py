"""A partition of the member log, appended, compacted and deleted as a broker does it; and an oracle that sees all."""

from typing import NamedTuple

from translation.member_log.counting import CLOCK_SKEW_MS, COMPACTION_LAG_MS, LATE_MS, RETENTION_MS, Stored
from translation.member_log.group_records import GroupKey, GroupRecord, StoredGroup
from translation.member_log.records import Kind, MemberKey, MemberRecord, Writer


class Seen(NamedTuple):
    """What the writer of a record really saw: the record that counted, or None, and how far it had read."""

    offset: int | None
    position: int
    newest_ms: int


class Entry(NamedTuple):
    """A record of the log. Nothing of ``seen`` is known to a reader."""

    offset: int
    appended_ms: int
    key: MemberKey | GroupKey
    writer: Writer
    record: MemberRecord | GroupRecord | None
    seen: Seen

    @property
    def stored(self) -> Stored:
        assert isinstance(self.record, MemberRecord)
        return Stored(self.offset, self.appended_ms, self.writer, self.record)

    @property
    def stored_group(self) -> StoredGroup:
        assert isinstance(self.record, GroupRecord)
        return StoredGroup(self.offset, self.appended_ms, self.writer, self.record)


class Oracle:
    """What counts, from the whole log and from what each writer really saw."""

    def __init__(self) -> None:
        self.history: list[dict[MemberKey | GroupKey, Entry]] = []
        """What counts after each offset."""

    def append(self, entry: Entry) -> None:
        counting = dict(self.history[-1]) if self.history else {}
        self.history.append(counting)
        if entry.record is None:
            return
        present = counting.get(entry.key)
        if entry.seen.offset is None:
            replaces_what_it_saw = present is None or present.offset < entry.seen.position
        else:
            replaces_what_it_saw = present is not None and present.offset == entry.seen.offset
        if replaces_what_it_saw:
            counting[entry.key] = entry


class Log:
    """What a broker keeps. ``skew_ms`` is how far the clock of the present leader is off."""

    def __init__(self) -> None:
        self.now_ms = 10**12
        self.skew_ms = 0
        self.newest_ms = 0
        self.start = 0
        self.end = 0
        self.entries: dict[int, Entry] = {}
        self.cleaned_to = 0
        """A reader that has not read to here may miss records that counted once, and were replaced by others since."""
        self.oracle = Oracle()

    def append(
        self,
        key: MemberKey | GroupKey,
        writer: Writer,
        record: MemberRecord | GroupRecord | None,
        seen: Seen,
    ) -> Entry:
        entry = Entry(self.end, self.now_ms + self.skew_ms, key, writer, record, seen)
        self.entries[self.end] = entry
        self.newest_ms = max(self.newest_ms, entry.appended_ms)
        self.end += 1
        self.oracle.append(entry)
        return entry

    def is_late(self, seen: Seen) -> bool:
        """Whether a record that lands now breaks the condition of :mod:`translation.member_log.counting`."""
        return self.now_ms + self.skew_ms - seen.newest_ms > LATE_MS

    def next_from(self, position: int) -> Entry | None:
        """The first record at this offset or behind it."""
        while position < self.end:
            if position in self.entries:
                return self.entries[position]
            position += 1
        return None

    def compact(self, horizon: int, lag_ms: int = COMPACTION_LAG_MS) -> None:
        """Keep the last of each key, of what lies below this offset and is old enough."""
        last: dict[tuple[MemberKey | GroupKey, Writer], int] = {}
        for offset, entry in sorted(self.entries.items()):
            if offset >= horizon or self.newest_ms - entry.appended_ms < lag_ms:
                break
            superseded = last.get((entry.key, entry.writer))
            last[entry.key, entry.writer] = offset
            if superseded is not None:
                self.cleaned_to = max(self.cleaned_to, offset + 1)
                del self.entries[superseded]

    def may_delete(self, entry: Entry) -> bool:
        """Whether retention allows it, by the clock of any broker. Probes are appended all the time."""
        return self.newest_ms + CLOCK_SKEW_MS - entry.appended_ms > RETENTION_MS

    def delete_prefix(self, before: int) -> None:
        """Delete everything below this offset, as far as retention allows."""
        for offset in sorted(self.entries):
            if offset >= before or not self.may_delete(self.entries[offset]):
                break
            del self.entries[offset]
            self.start = offset + 1


KINDS = list(Kind)
