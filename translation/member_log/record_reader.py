"""Applies what is read of the log to the members of this replica: which it serves, has lost, or may expire.

Only what is read back counts. An acknowledgement says nothing: somebody else's record may lie before ours. Which record
counts is decided in :mod:`translation.member_log.counting`.
"""

import math

from translation.member_log.counting import Stored
from translation.member_log.entries import Entry, Partition, Write
from translation.member_log.members import Members
from translation.member_log.outputs import (
    Dying,
    Ended,
    Expired,
    GroupServed,
    Health,
    OtherRecordCounts,
    Serving,
    Settled,
    Taken,
    terms_of,
)
from translation.member_log.ownership import Ownership, OwnershipEvent
from translation.member_log.records import Kind, MemberKey
from translation.member_log.write_queue import WriteQueue

_DEAD = frozenset({Ownership.EXPIRED, Ownership.ENDED})


class RecordReader:
    """Changes the entries of members as their records are read."""

    def __init__(self, members: Members, writes: WriteQueue) -> None:
        self._members = members
        self._writes = writes

    def read(self, number: int, key: MemberKey, stored: Stored, now: float) -> None:
        """Take the next record of a member that lies in a partition."""
        state = self._members.partitions[number]
        if self._members.number(key) != number:  # in no order with the others of its group
            state.view.read_to(stored.offset + 1, stored.appended_ms)
            return
        counts = state.view.read(key, stored)
        entry = self._members.entries.get(key)
        is_news = state.health is not Health.REPLAYING
        if entry is not None and is_news:
            self._take_in(key, entry, stored, counts, now)
        if counts and is_news and stored.writer not in self._members.own:
            self._report_other(key, stored.record.kind)
        self.forget_old(state)
        if counts:
            self._make_room(state, key.group_id)
        self._writes.write_wanted(number, now)

    def _report_other(self, key: MemberKey, kind: Kind) -> None:
        """A record of another replica counts."""
        members = self._members
        if kind is Kind.ENDED:
            members.outputs.append(Ended(key))
        elif kind is Kind.EXPIRING:
            members.outputs.append(Dying(key))
        else:
            members.outputs.append(OtherRecordCounts(key))
        if kind is Kind.SERVED and key.group_id in members.awaited:
            members.awaited.discard(key.group_id)
            members.outputs.append(GroupServed(key.group_id))

    def forget_old(self, state: Partition) -> None:
        """Forget the records of a partition that are too old to matter."""
        self._forgotten(state, state.view.forget())

    def _make_room(self, state: Partition, group_id: str) -> None:
        """Forget what is more than there is room for: of the group, and of the partition that has most."""
        self._forgotten(state, state.view.forget_beyond(group_id))
        while self._members.room.is_exceeded:
            largest = max(self._members.partitions, key=lambda one: self._members.room.share(one.view))
            self._forgotten(largest, largest.view.forget_oldest())

    def _forgotten(self, state: Partition, keys: list[MemberKey]) -> None:
        for key in keys:
            entry = self._members.entries.get(key)
            if entry is not None and state.health is not Health.REPLAYING:
                if entry.write is None or entry.machine.ownership in _DEAD:
                    entry.machine.handle(OwnershipEvent.NOTHING_COUNTS)
                self._writes.want(key)

    def outcome_unknown(self, key: MemberKey, entry: Entry) -> None:
        """Whether what was written will count is not known: ownership follows from what counts, and more is wanted."""
        self._writes.resolve(key, entry)
        if entry.machine.ownership in (Ownership.CLAIMING, Ownership.EXPIRING):
            entry.machine.handle(self._members.event_of(self._members.present(key)))
        self._writes.want(key)

    def reconcile_after_replay(self, key: MemberKey, entry: Entry) -> None:
        """The partition has been replayed: see what counts for a member of before."""
        present = self._members.present(key)
        if present is None:
            return
        entry.machine.handle(self._members.event_of(present))
        if self._members.is_own_served(present):
            self._begin_serving(key, entry)
            entry.refresh_at = 0.0  # on a log that has lost something, everything is confirmed anew
        else:
            self._stop_serving(key, entry, present)

    def _take_in(self, key: MemberKey, entry: Entry, stored: Stored, counts: bool, now: float) -> None:
        """A record of a member in which this replica takes an interest."""
        write = entry.write
        is_ours = write is not None and stored.writer == self._members.writer
        resolved = write if write is not None and is_ours and stored.record == write.record else None
        if resolved is not None:
            self._writes.resolve(key, entry)
        if counts:
            if entry.machine.ownership in _DEAD and stored.record.kind is not Kind.ENDED:
                # Somebody has forged it: no replica writes that of a dead id. What counts is what all go by.
                entry.machine.handle(OwnershipEvent.LOG_LOST)
            entry.machine.handle(self._members.event_of(stored))
            if self._members.is_own_served(stored):
                self._serve(key, entry, resolved, now)
            else:
                self._stop_serving(key, entry, stored)
        elif resolved is not None:
            self._lost(key, entry)
        if write is None or resolved is not None:
            self._writes.want(key)

    def _serve(self, key: MemberKey, entry: Entry, resolved: Write | None, now: float) -> None:
        self._begin_serving(key, entry)
        entry.tries = 0
        # Spread: those that were claimed together, after a restart, are not all written anew together.
        import crc32c  # noqa: PLC0415 - with importlib.metadata, for a member log

        share = 0.5 + (crc32c.crc32c(key.member_id.encode()) & 0xFF) / 512
        entry.refresh_at = now + self._members.settings.refresh_s * share
        if resolved is not None:
            self._members.confirmations.settle(entry, resolved, now)
            entry.has_joined = entry.has_joined and bool(entry.claims)
        self._members.outputs.append(Settled(key))

    def _begin_serving(self, key: MemberKey, entry: Entry) -> None:
        if not entry.served:
            entry.served = True
            self._members.outputs.append(Serving(key))

    def _stop_serving(self, key: MemberKey, entry: Entry, stored: Stored) -> None:
        """A record counts that is no ``served`` of ours."""
        kind = stored.record.kind
        own = stored.writer in self._members.own
        if entry.served and not own:
            self._members.outputs.append(Taken(key))
        elif entry.served and kind is Kind.EXPIRING:
            self._members.outputs.append(Expired(key))
        if not entry.has_joined:
            # A call that claims it, other than JoinGroup, says nothing of its client: the record does.
            entry.terms = terms_of(stored.record, self._members.settings)
        entry.served = entry.issued = entry.wants_expire = False
        entry.generation = entry.snapshot = None
        entry.confirmed.clear()
        entry.refresh_at = math.inf
        if kind is Kind.RELAYED:
            entry.relay_until = 0.0
        if kind is Kind.ENDED:
            entry.wants_end = False
        if kind.is_dead:
            entry.relay_until = 0.0
            entry.claims.clear()
        if own or kind.is_dead or kind is Kind.RELAYED:
            self._members.outputs.append(Settled(key))

    def _lost(self, key: MemberKey, entry: Entry) -> None:
        """A record of ours is read back, and another counts."""
        present = self._members.present(key)
        if entry.machine.ownership in (Ownership.CLAIMING, Ownership.EXPIRING):
            # It came too late, or what it saw is forgotten.
            entry.machine.handle(self._members.event_of(present))
        entry.tries += 1
        if entry.tries >= self._members.settings.tries:
            entry.tries = 0
            entry.claims.clear()
            entry.wants_end = False
            entry.relay_until = 0.0
            self._members.outputs.append(Settled(key))
