"""Decides which record is written next for a member, and how fast the member log is written.

A member has one unresolved record at a time: written, and not read back yet. What is wanted meanwhile waits, and so
does what is wanted of a partition that is not ready. So that many members at once do not flood the log, at most
``writes_per_s`` records are written in a second, and snapshots for which nobody waits leave room for the others.
"""

from msgspec.structs import replace

from translation.member_log.counting import Stored
from translation.member_log.entries import Entry, Write
from translation.member_log.formats import Format
from translation.member_log.members import Members
from translation.member_log.outputs import Health, WriteRecord
from translation.member_log.ownership import Ownership, OwnershipEvent
from translation.member_log.records import (
    NO_GENERATION,
    Kind,
    MemberKey,
    MemberRecord,
    encode_key,
    shortened,
)
from translation.member_log.snapshots import NO_SNAPSHOT

_RESERVED = 0.5
"""The share of the records of a second that is kept for those which somebody waits for."""

_REFRESH_EVERY_S = 60.0
"""How often members are looked through for records that are to be written anew."""


class WriteQueue:
    """The members for which something is to be written, and those whose record is not read back."""

    def __init__(self, members: Members, now: float) -> None:
        self._members = members
        self.unresolved: dict[MemberKey, None] = {}
        """Members with a record that is not read back, in the order in which they were written."""
        self._tokens = members.settings.writes_per_s
        self._tokens_at = now
        self._refresh_at = now + _REFRESH_EVERY_S

    def want(self, key: MemberKey) -> None:
        """Something may have to be written for a member."""
        self._members.partition(key).wanting[key] = None

    def want_later(self, key: MemberKey) -> None:
        """The same, and nobody waits for it: what is wanted of other members goes first."""
        self._members.partition(key).later[key] = None

    def next_deadline(self) -> float:
        """When :meth:`handle_time` is to be called next."""
        deadline, rate = self._refresh_at, self._members.settings.writes_per_s
        for state in self._members.partitions:
            if state.health is not Health.READY:
                continue
            if state.wanting:
                deadline = min(deadline, self._tokens_at + 1 / rate)
            elif state.later:
                missing = max(1.0, _RESERVED * rate - self._tokens)
                deadline = min(deadline, self._tokens_at + missing / rate)
        return deadline

    def handle_time(self, now: float) -> None:
        """Write what is wanted, and anew what has grown old."""
        if self._refresh_at <= now:
            self._refresh_at = now + _REFRESH_EVERY_S
            for key, entry in self._members.entries.items():
                if entry.refresh_at <= now:
                    self.want(key)
        for number in range(len(self._members.partitions)):
            self.write_wanted(number, now)

    def write_wanted(self, number: int, now: float) -> None:
        """Write what is wanted of a partition, as fast as is allowed."""
        members = self._members
        state = members.partitions[number]
        if state.health is not Health.READY or not (state.wanting or state.later):
            return
        rate = members.settings.writes_per_s
        self._tokens = min(rate, self._tokens + (now - self._tokens_at) * rate)
        self._tokens_at = now
        while True:
            if state.wanting and self._tokens >= 1:
                queue = state.wanting
            elif state.later and self._tokens >= max(1.0, _RESERVED * rate):
                queue = state.later
            else:
                break
            key = next(iter(queue))
            del queue[key]
            entry = members.entries.get(key)
            if entry is None or entry.write is not None:
                continue  # it is wanted again when that is read back
            kind = self._next_kind(entry, state.view.get(key), now)
            if kind is None:
                members.forget_if_idle(key, entry)
            else:
                self._tokens -= 1
                self._write(number, key, entry, kind, now)

    def resolve(self, key: MemberKey, entry: Entry) -> None:
        """The record of a member that was written is read back, or is not waited for any more."""
        entry.write = None
        self.unresolved.pop(key, None)

    def _next_kind(self, entry: Entry, present: Stored | None, now: float) -> Kind | None:
        """What is to be written for a member of which nothing is unresolved, or None."""
        if present is not None and present.record.kind.is_dead:
            return Kind.ENDED if entry.wants_end and present.record.kind is Kind.EXPIRING else None
        if entry.wants_end:
            return Kind.ENDED
        self._members.confirmations.drop_late(entry, now)
        if entry.claims or (entry.served and present is None):
            return Kind.SERVED
        if entry.relay_until > now:
            return Kind.RELAYED
        entry.relay_until = 0.0
        if present is None or not self._members.is_own_served(present):
            entry.wants_expire = False
            return None
        if entry.wants_expire:
            return Kind.EXPIRING
        is_old = entry.refresh_at <= now or (
            entry.served and not _says(present.record, entry, self._members.format)
        )
        return Kind.SERVED if is_old else None

    def _write(self, number: int, key: MemberKey, entry: Entry, kind: Kind, now: float) -> None:
        members = self._members
        view = members.partitions[number].view
        present = view.get(key)
        if kind is Kind.RELAYED:
            # It becomes a classic member, for which no heartbeat of a snapshot may go out: that would convert it.
            entry.generation, entry.snapshot = NO_GENERATION, NO_SNAPSHOT
        known = NO_GENERATION if present is None else present.record.generation
        snapshot = NO_SNAPSHOT if present is None else present.record.snapshot
        if kind is Kind.ENDED:
            # Nobody goes on with it, and every replica keeps the dead id for an hour.
            snapshot = entry.snapshot = NO_SNAPSHOT
        record = MemberRecord(
            kind,
            *view.stamp(key),
            server=shortened(members.settings.server),
            instance_id=_instance_id(entry),
            session_timeout_ms=entry.terms.session_timeout_ms,
            rebalance_timeout_ms=entry.terms.rebalance_timeout_ms,
            generation=known if entry.generation is None else entry.generation,
            snapshot=snapshot if entry.snapshot is None else entry.snapshot,
        )
        data = members.format.encode(record)
        # As it will be read back: an older format may be unable to say all of it.
        entry.write = Write(members.format.decode(data), dict(entry.claims), now)
        self.unresolved[key] = None
        if kind is Kind.SERVED and entry.machine.ownership is not Ownership.CLAIMING:
            entry.machine.handle(OwnershipEvent.CLAIM_WRITTEN)
        elif kind is Kind.EXPIRING:
            entry.machine.handle(OwnershipEvent.EXPIRING_WRITTEN)
        if kind is not Kind.SERVED:
            # From now on the id may be dead or relayed, also if the outcome of this write is never known.
            entry.confirmed.clear()
        members.outputs.append(
            WriteRecord(number, encode_key(key, members.writer), data, members.writer, members.format.number)
        )


def _instance_id(entry: Entry) -> str | None:
    return None if entry.terms.instance_id is None else shortened(entry.terms.instance_id)


def _says(record: MemberRecord, entry: Entry, written_in: Format) -> bool:
    """Whether a record of ours says what is known of the client, which may have joined or synced since.

    What its format can't say is not missed: else the record would be written again and again.
    """
    known = replace(
        record,
        instance_id=_instance_id(entry),
        session_timeout_ms=entry.terms.session_timeout_ms,
        rebalance_timeout_ms=entry.terms.rebalance_timeout_ms,
        generation=record.generation if entry.generation is None else entry.generation,
        snapshot=record.snapshot if entry.snapshot is None else entry.snapshot,
    )
    return known == record or written_in.as_read(known) == record
