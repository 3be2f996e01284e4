"""Holds what one replica knows of the member log: its partitions, the members of interest, and its own writers.

The parts of the member log share it: :mod:`~translation.member_log.write_queue` says what is written,
:mod:`~translation.member_log.record_reader` what becomes of a member when a record is read, and
:mod:`~translation.member_log.partition_health` when a partition may be relied on.
"""

from translation.member_log.confirmation import Confirmations
from translation.member_log.counting import Room, Stored
from translation.member_log.entries import Entry, Partition
from translation.member_log.formats import FORMATS
from translation.member_log.outputs import Health, JoinTerms, Output, terms_of
from translation.member_log.ownership import OwnershipEvent
from translation.member_log.records import Kind, MemberKey, Writer, partition_of
from translation.member_log.settings import FleetSettings

_SEAT_EVENT = {
    Kind.EXPIRING: OwnershipEvent.EXPIRING_COUNTS,
    Kind.ENDED: OwnershipEvent.ENDED_COUNTS,
    Kind.RELAYED: OwnershipEvent.RELAYED_COUNTS,
}


class Members:
    """The partitions of the log, and the members in which this replica takes an interest."""

    def __init__(self, settings: FleetSettings, writer: Writer, now: float) -> None:
        self.settings = settings
        self.format = FORMATS[settings.record_format]
        """The format in which records are written."""
        self.writer = writer
        self.own = {writer}
        """Every writer that this process has had."""
        self.room = Room(settings.most_members, settings.members_of_group, settings.max_bytes)
        self.partitions = [Partition(now, self.room) for _ in range(settings.partitions)]
        self.entries: dict[MemberKey, Entry] = {}
        self.confirmations = Confirmations(settings.wait_s)
        self.outputs: list[Output] = []
        """What is to be done, in order."""
        self.awaited: set[str] = set()
        """Groups of which the next ``served`` of another replica is to be said; ids as in keys."""

    def number(self, key: MemberKey) -> int:
        """The number of the partition in which a member's records lie."""
        return partition_of(key, self.settings.partitions)

    def partition(self, key: MemberKey) -> Partition:
        """The partition in which a member's records lie."""
        return self.partitions[self.number(key)]

    def present(self, key: MemberKey) -> Stored | None:
        """The record that counts for a member, or None."""
        return self.partition(key).view.get(key)

    def entry(self, key: MemberKey, present: Stored | None) -> Entry:
        """The entry of a member, made if it has none: with the terms and the ownership of the record that counts."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(
                JoinTerms() if present is None else terms_of(present.record, self.settings)
            )
            if present is not None and self.partition(key).health is not Health.REPLAYING:
                entry.machine.handle(self.event_of(present))
        return entry

    def forget_if_idle(self, key: MemberKey, entry: Entry) -> None:
        """Drop an entry without which nothing would be lost."""
        if entry.is_idle:
            del self.entries[key]
            self.confirmations.forget(key, entry)

    def is_own_served(self, stored: Stored) -> bool:
        """Whether a record says that this process serves the member."""
        return stored.record.kind is Kind.SERVED and stored.writer in self.own

    def event_of(self, present: Stored | None) -> OwnershipEvent:
        """What it means for a member's ownership that this record counts."""
        if present is None:
            return OwnershipEvent.NOTHING_COUNTS
        if present.record.kind is not Kind.SERVED:
            return _SEAT_EVENT[present.record.kind]
        return (
            OwnershipEvent.OWN_SERVED_COUNTS
            if present.writer in self.own
            else OwnershipEvent.OTHER_SERVED_COUNTS
        )
