"""A model of records in flight that knows no batches: each record for itself, by the rules of KIP-932.

Which records a fetch acquires depends on batches, so the model does not say that: it checks that what was acquired
could be, in order and without leaving any out, and takes it from there. All else it knows by itself. The log has no
holes, and moves its start only to where one of its batches begins.
"""

from collections.abc import Iterable, Sequence

import msgspec

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = "available", "acquired", "acknowledged", "archived"
TERMINAL = (ACKNOWLEDGED, ARCHIVED)
BECOMES = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}
RENEW = 4


class OneRecord(msgspec.Struct):
    state: str = AVAILABLE
    count: int = 0
    member: str = ""
    deadline_ms: int = 0
    was: tuple[str, str] | None = None
    """State and member before a transition that is not persisted yet."""

    @property
    def is_done(self) -> bool:
        return self.state in TERMINAL and self.was is None

    @property
    def is_available(self) -> bool:
        return self.state == AVAILABLE and self.was is None


class Unwritten(msgspec.Struct):
    """What is to be persisted, and the records in transition until it is."""

    start: int
    states: dict[int, tuple[str, int]]
    moving: dict[int, OneRecord]


class Refused(Exception):
    """By the name of its error code."""


class RecordModel:
    """One share partition. ``limit`` is that of deliveries."""

    def __init__(self, limit: int, lock_ms: int) -> None:
        self.limit = limit
        self.lock_ms = lock_ms
        self.start = 0
        self.records: dict[int, OneRecord] = {}
        self.persisted: dict[int, tuple[str, int]] = {}
        self.persisted_start = 0
        self.unwritten: list[Unwritten] = []
        self.forgotten_until: int | None = None
        """While nothing beyond this offset was acquired since a restart, missing records are to be delivered."""
        self.gap = 0
        """From here on records may be missing."""

    @property
    def end(self) -> int:
        return max([self.start, *self.records]) if self.records else self.start

    @property
    def complete(self) -> int:
        return sum(one.state in TERMINAL for offset, one in self.records.items() if offset >= self.start)

    @property
    def has_gap(self) -> bool:
        return self.forgotten_until is not None and self.forgotten_until == self.end

    def can_be_acquired(self, offset: int) -> bool:
        if offset < self.start:
            return False
        one = self.records.get(offset)
        return one.is_available if one else (self.has_gap or offset > max(self.records, default=-1))

    def next_fetch_offset(self) -> int:
        if not self.records or self.start > max(self.records):
            return self.end
        return next(offset for offset in range(self.start, self.end + 2) if self.can_be_acquired(offset))

    def acquired(
        self, member: str, acquired: Iterable[tuple[int, int, int]], offered: Sequence[int], now: int
    ) -> list[int]:
        """Check what a fetch acquired of the offsets it was offered, and lock it; return which were not in flight."""
        offsets = [(offset, count) for first, last, count in acquired for offset in range(first, last + 1)]
        able = [offset for offset in offered if self.can_be_acquired(offset)]
        assert [offset for offset, _ in offsets] == able[: len(offsets)], "out of order, or one was left out"
        new = [offset for offset, _ in offsets if offset not in self.records]
        for offset, count in offsets:
            one = self.records.setdefault(offset, OneRecord())
            one.count += 1
            assert one.count == count
            one.state, one.member, one.deadline_ms = ACQUIRED, member, now + self.lock_ms
        return new

    def undelivered(self, first: int, last: int) -> None:
        """The rest of a batch of the log, of which the beginning was acquired: it is in flight as well."""
        for offset in range(first, last + 1):
            if offset in self.records:
                break
            self.records[offset] = OneRecord()

    def close_gap_to(self, offset: int) -> None:
        if self.forgotten_until is not None:
            self.gap = offset
            if not self.has_gap or offset > self.forgotten_until:
                self.forgotten_until = None

    def acknowledge(self, member: str, batches: Iterable[tuple[int, int, Sequence[int]]], now: int) -> bool:
        """Return whether something is to be persisted. Raises Refused."""
        moved: list[int] = []
        try:
            for first, last, types in batches:
                self._acknowledge(member, first, last, types, now, moved)
        except Refused:
            for offset in moved:
                self._undo(offset, self.records[offset], now)
            raise
        return self._note(moved)

    def _acknowledge(
        self, member: str, first: int, last: int, types: Sequence[int], now: int, moved: list[int]
    ) -> None:
        if last < self.start:
            return
        if not self.records:
            raise Refused("INVALID_RECORD_STATE")
        if last > max(self.records):
            raise Refused("INVALID_REQUEST")
        for offset in range(max(first, self.start), last + 1):
            one = self.records[offset]
            kind = types[offset - first] if len(types) > 1 else types[0]
            if one.state != ACQUIRED or one.was is not None or one.member != member:
                raise Refused("INVALID_RECORD_STATE")
            if kind == RENEW:
                one.deadline_ms = now + self.lock_ms
                continue
            one.was = one.state, one.member
            self._leave(one, BECOMES[kind])
            moved.append(offset)

    def release(self, member: str) -> bool:
        moved = [o for o, one in self.records.items() if one.state == ACQUIRED and one.member == member]
        for offset in moved:
            self.records[offset].was = ACQUIRED, member
            self._leave(self.records[offset], ARCHIVED if offset < self.start else AVAILABLE)
        return self._note(moved)

    def expire(self, now: int) -> bool:
        ended = [o for o, one in self.records.items() if one.state == ACQUIRED and one.deadline_ms <= now]
        for offset in ended:
            self._leave(self.records[offset], ARCHIVED if offset < self.start else AVAILABLE)
        return self._note(ended, in_transition=False)

    @property
    def next_deadline_ms(self) -> int | None:
        return min((one.deadline_ms for one in self.records.values() if one.state == ACQUIRED), default=None)

    def written(self, number: int) -> None:
        write = self.unwritten.pop(number)
        self.persisted_start = max(self.persisted_start, write.start)
        for offset, state in write.states.items():
            self.persisted[offset] = max(self.persisted.get(offset, state), state, key=lambda one: one[1])
        for one in write.moving.values():
            one.was = None
        self._advance()

    def write_failed(self, number: int, now: int) -> None:
        write = self.unwritten.pop(number)
        for offset, one in write.moving.items():
            self._undo(offset, one, now)
        if not write.moving:
            self._advance()

    def move_log_start(self, offset: int) -> None:
        if offset > self.start:
            for at, one in self.records.items():
                if self.start <= at < offset and one.state == AVAILABLE:
                    one.state = ARCHIVED
            self.start = offset

    def restart(self) -> None:
        """The process is another: what was acquired, and what was archived only here, is as it was persisted."""
        self.start = self.persisted_start
        self.unwritten.clear()
        self.records = {
            offset: OneRecord(state, count)
            for offset, (state, count) in sorted(self.persisted.items())
            if offset >= self.start
        }
        self.gap = next((o for o in range(self.start, self.end + 1) if o not in self.records), self.end + 1)
        self.forgotten_until = self.end if self.gap <= self.end else None
        self._advance()

    def _leave(self, one: OneRecord, to: str) -> None:
        is_last = to == AVAILABLE and one.count >= self.limit
        one.state, one.member = ARCHIVED if is_last else to, ""

    def _undo(self, offset: int, one: OneRecord, now: int) -> None:
        assert one.was is not None
        (one.state, one.member), one.was = one.was, None
        if one.deadline_ms <= now:
            self._leave(one, ARCHIVED if offset < self.start else AVAILABLE)

    def _note(self, offsets: Sequence[int], *, in_transition: bool = True) -> bool:
        if offsets:
            states = {offset: (self.records[offset].state, self.records[offset].count) for offset in offsets}
            moving = {offset: self.records[offset] for offset in offsets} if in_transition else {}
            self.unwritten.append(Unwritten(self.start, states, moving))
        return bool(offsets)

    def adopt_start(self, start: int) -> None:
        """While there is a gap, how far the start offset moves depends on batches: it may lag."""
        if self.has_gap:
            assert self.start <= start <= max(self.start, self._done_until()), "the start offset is wrong"
            self.start = start

    def _advance(self) -> None:
        if self.has_gap:
            return
        done = self._done_until()
        if self.records and done > max(self.records):
            self.records.clear()
        self.start = max(self.start, done)

    def _done_until(self) -> int:
        for offset in sorted(self.records):
            if not self.records[offset].is_done:
                return offset
            if offset + 1 not in self.records:
                following = [one for one in self.records if one > offset]
                if not following or self.has_gap:
                    return offset + 1
        return self.start
