"""The records of whole groups at one replica (moves, slots, waves): what counts, what is written and not read back,
what is written again.

Each record is a compare-and-set (:mod:`translation.member_log.counting`): whoever writes one waits until it is read
back, and looks then which record counts. The rules of writing are those of :mod:`translation.member_log.member_log`:
one unresolved record for a key, nothing while the partition is not ready, and nothing counts but what is read back. The
health of a partition is that of the members' records.

Records are written anew as long as their group is in use: it has a member in the log that is not dead, or somebody asks
here what its step allows, or the policy names it for a wave. Those of others are forgotten, and so deleted, as members'
are.

A process without a member log has the same class, and reads back at once what it writes (:func:`local_group_log`). It
forgets its moves when it ends, and before that only those of the groups that were used longest ago.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sized
from typing import Protocol

from msgspec.structs import replace

from translation.member_log.entries import Partition
from translation.member_log.group_mac import GroupMac, distrusted
from translation.member_log.group_records import (
    MOVE,
    GroupKey,
    GroupRecord,
    Host,
    Mend,
    Move,
    Phase,
    Proof,
    Slot,
    StoredGroup,
    decode_group_value,
    encode_group_key,
    encode_group_value,
    group_key,
    is_finding,
    report_name,
    slot_number,
)
from translation.member_log.group_view import GroupRoom, GroupView
from translation.member_log.members import Members
from translation.member_log.outputs import Health, Settled, WriteRecord
from translation.member_log.records import MemberKey, Writer, partition_of, shortened
from translation.member_log.settings import FleetSettings
from translation.member_log.signals import WINDOW_S, Report

RENEW_MS = 3_600_000
"""A record of a move that is not over is written anew when it is so old, or up to ten minutes older."""
_RENEW_SPREAD_MS = 600_000
UNKNOWN_MS = RENEW_MS + 2 * _RENEW_SPREAD_MS
"""So long a group's moves stay as they are after a record of a later release's format: whoever can read it renews it
before that."""
_UNKNOWN_LIMIT = 10_000
_LOOK_EVERY_S = 60.0
_IN_USE_S = (RENEW_MS + _RENEW_SPREAD_MS) / 1000

ALIVE_MS = 35_000
"""The replica of a writer is alive if something of it was read in the last so many milliseconds, by the log's clock:
each writes a probe every 30 s."""
ALIVE_SINCE_START_S = 1.5 * WINDOW_S
"""A replica that has reported of a group before this one began, and of which nothing was read for so long since, is
gone: it would have reported again."""
_WRITERS_LIMIT = 1_000
_WRITERS_REPORTED = 8

LOCAL_GROUPS = 10_000
"""Groups whose records a process without a member log keeps."""


class Names(Container[str], Sized, Protocol):
    """The groups whose records are kept, whether or not they are in use."""


def _nobody(_: str) -> None:
    """Nobody asks for the moves."""


class _Write:
    __slots__ = ("record", "written_at")

    def __init__(self, record: GroupRecord, written_at: float) -> None:
        self.record = record
        self.written_at = written_at


class GroupLog:
    """The records of groups, as one process knows them and writes them."""

    def __init__(
        self, members: Members, now: float, *, is_local: bool = False, mac: GroupMac | None = None
    ) -> None:
        self._members = members
        self._mac = mac
        self._first = members.writer
        self._had: dict[Writer, None] = {}
        self._is_local = is_local
        settings = members.settings
        self.room = GroupRoom(settings.most_members, settings.members_of_group, settings.max_bytes // 2)
        self._views = [GroupView(self.room) for _ in members.partitions]
        self._unresolved: dict[GroupKey, _Write] = {}
        """What is written and not read back, in the order in which it was written."""
        self._heard: list[OrderedDict[Writer, int]] = [OrderedDict() for _ in members.partitions]
        """For each partition when each writer was read last, by the log's clock."""
        self._began: dict[int, tuple[int, float]] = {}
        """For each partition when this process first wrote to it: by the log's clock, and when that was read back."""
        self._used: dict[str, float] = {}
        """The groups with records that were asked about here, and when last."""
        self._unknown: OrderedDict[str, int] = OrderedDict()
        """The groups with a record in a format that is not known, and when the last was appended."""
        self._wave_check_at = now + _LOOK_EVERY_S
        self.wall_offset_ms = 0
        """Without a member log: what the clock on the wall (milliseconds since 1970) shows more than ``now`` does."""
        self.keeps: Names = frozenset()
        """Groups whose records are written anew also while nobody uses them."""
        self.on_move: Callable[[str], None] = _nobody
        """Called with the group when the record of its move is another one, or is forgotten."""

    # -- what the translation asks -----------------------------------------------------------------------------

    def is_ready(self, group_id: str) -> bool:
        """Whether what is read of this group may be relied on, and something may be written."""
        group_id = shortened(group_id)
        state = self._partition(group_id)
        return state.health is Health.READY and not self._is_unknown(group_id, state.view.newest_ms)

    def _is_unknown(self, group_id: str, newest_ms: int) -> bool:
        return group_id in self._unknown and newest_ms - self._unknown[group_id] <= UNKNOWN_MS

    @property
    def is_all_ready(self) -> bool:
        """Whether what is read of every group may be relied on."""
        return all(state.health is Health.READY for state in self._members.partitions)

    def now_ms(self, group_id: str, now: float) -> int:
        """The log's clock, as far as is read, in milliseconds since 1970; it moves with each probe."""
        if self._is_local:
            return int(now * 1000) + self.wall_offset_ms
        return self._partition(shortened(group_id)).view.newest_ms

    def of_group(self, group_id: str) -> Mapping[str, StoredGroup]:
        """The records that count for a group, by name."""
        group_id = shortened(group_id)
        return self._views[self._number(group_id)].of_group(group_id)

    def use(self, group_id: str, now: float) -> None:
        """Somebody here asks what the step of a group allows, so it is in use."""
        group_id = shortened(group_id)
        if self._views[self._number(group_id)].use(group_id) and not self._is_local:
            self._used[group_id] = now

    def position(self, group_id: str) -> int:
        """The next offset of the group's partition to be read: it only rises, unless the log is lost."""
        return self._partition(shortened(group_id)).view.position

    def read_until(self, group_id: str) -> float:
        """When this process wrote the last probe that it has read back in the group's partition: whatever was written
        there before is read. Minus infinity if there is none since the partition is read from its beginning.
        """
        return self._partition(shortened(group_id)).read_until

    def is_by_this_process(self, stored: StoredGroup) -> bool:
        """Whether a record is of this process, also under a writer that it had before."""
        return stored.writer in self._members.own

    def silent_ms(self, group_id: str, writer: Writer) -> int:
        """For how long nothing of a writer was read in the group's partition, by the log's clock."""
        number = self._number(shortened(group_id))
        newest_ms = self._members.partitions[number].view.newest_ms
        return newest_ms - self._heard[number].get(writer, 0)

    @property
    def writer_name(self) -> str:
        """Names this process among those that write the log, until its producer is replaced."""
        return self._members.writer.hex()

    @property
    def writer(self) -> Writer:
        """The writer that this process has now."""
        return self._members.writer

    def alive(self, group_id: str, now: float) -> frozenset[Writer]:
        """The writers of the replicas that are alive, as far as this group's partition is read; this one always is.

        If all are killed, the first that is back need not wait for :data:`ALIVE_MS` until it goes on with a move.
        """
        number = self._number(shortened(group_id))
        newest_ms = self._members.partitions[number].view.newest_ms
        began_ms, began_at = self._began.get(number, (0, now))
        is_settled = now - began_at >= ALIVE_SINCE_START_S
        reporters = {stored.writer for stored in self.reports(group_id)} if is_settled else frozenset()
        found = {
            writer
            for writer, at_ms in self._heard[number].items()
            if newest_ms - at_ms <= ALIVE_MS
            and writer not in self._members.own
            and not (at_ms < began_ms and writer in reporters)
        }
        return frozenset(found | {self._members.writer})

    @property
    def _own(self) -> dict[Writer, None]:
        """The writers that this process has had, the oldest first."""
        self._had[self._members.writer] = None
        return self._had

    def reports(self, group_id: str) -> list[StoredGroup]:
        """What replicas have reported of a group, also long ago."""
        return [stored for stored in self.of_group(group_id).values() if stored.record.report is not None]

    def heard(self, number: int, writer: Writer, appended_ms: int) -> None:
        """A record of a writer is read in a partition."""
        heard = self._heard[number]
        heard[writer] = max(appended_ms, heard.get(writer, 0))
        heard.move_to_end(writer)
        if len(heard) > _WRITERS_LIMIT:
            heard.popitem(last=False)

    def began(self, number: int, appended_ms: int, now: float) -> None:
        """A record of this process is read back in a partition; only the first counts."""
        self._began.setdefault(number, (appended_ms, now))

    def moves(self) -> list[tuple[str, Move]]:
        """The groups that have a record of a move, also of one that is over."""
        return [
            (key.group_id, stored.record.move)
            for view in self._views
            for key, stored in view.counted()
            if key.name == MOVE and stored.record.move is not None
        ]

    def is_unresolved(self, key: GroupKey) -> bool:
        """Whether a record is written and not read back."""
        return key in self._unresolved

    def is_own(self, group_id: str, name: str) -> bool:
        """Whether the record that counts was written by this process."""
        stored = self.of_group(group_id).get(name)
        return stored is not None and stored.writer == self._members.writer

    def write(
        self,
        group_id: str,
        name: str,
        now: float,
        *,
        move: Move | None = None,
        slot: Slot | None = None,
        report: Report | None = None,
        proof: Proof | None = None,
        mend: Mend | None = None,
        host: Host | None = None,
    ) -> GroupKey | None:
        """Write a record in the place of the one that counts; return its key, None if nothing may be written now.

        Whether it counts shows when it is resolved (:meth:`is_unresolved`).
        """
        key = group_key(group_id, name)
        number = self._number(key.group_id)
        state = self._members.partitions[number]
        if not self.is_ready(key.group_id) or key in self._unresolved:
            return None
        present = self._views[number].get(key)
        record = GroupRecord(
            version=state.view.position if present is None else present.offset + 1,
            first=present is None,
            server=shortened(self._members.settings.server),
            move=move,
            slot=slot,
            report=report,
            proof=proof,
            mend=mend,
            host=host,
        )
        if self._mac is None:
            data = encode_group_value(record)
        else:
            data = self._mac.sign(key, self._members.writer, record, state.view.newest_ms)
            record = decode_group_value(data)
        if self._is_local:
            stored = StoredGroup(
                state.view.position, self.now_ms(group_id, now), self._members.writer, record
            )
            self._take(number, key, stored)
            return key
        self._unresolved[key] = _Write(record, now)
        writer = self._members.writer
        self._members.outputs.append(
            WriteRecord(number, encode_group_key(key, writer), data, writer, self._members.format.number)
        )
        return key

    def report(self, group_id: str, report: Report, now: float) -> None:
        """Write what this process reports of a group; it says nothing if nothing may be written now."""
        writers = tuple(list(self._own)[-_WRITERS_REPORTED:])
        self.write(group_id, report_name(self._first), now, report=replace(report, writers=writers))

    # -- what the member log reports ---------------------------------------------------------------------------

    def read(self, number: int, key: GroupKey, stored: StoredGroup, value: bytes = b"") -> bool:
        """Take the next record of a group that lies in a partition; return whether it is authenticated.

        ``value`` is the record as it was written. Without a key every record counts as authenticated.
        """
        state = self._members.partitions[number]
        if self._number(key.group_id) != number:  # in no order with the others of its group
            state.view.read_to(stored.offset + 1, stored.appended_ms)
            return True
        is_valid = self._mac is None or self._mac.is_valid(key, stored, value)
        move = stored.record.move
        if not is_valid and (key.name != MOVE or move is None):
            state.view.read_to(stored.offset + 1, stored.appended_ms)
            return False
        if not is_valid and move is not None:
            record = GroupRecord(
                stored.record.version, stored.record.first, stored.record.server, distrusted(move)
            )
            stored = stored._replace(record=record, is_trusted=False)
        self._take_in(number, key, stored)
        return is_valid

    def _take_in(self, number: int, key: GroupKey, stored: StoredGroup) -> None:
        self.heard(number, stored.writer, stored.appended_ms)
        counted = self._take(number, key, stored)
        write = self._unresolved.get(key)
        if write is not None and stored.writer == self._members.writer and stored.record == write.record:
            del self._unresolved[key]
            counted = True
        if counted:
            self._members.outputs.append(Settled(key.member))

    def read_unknown(self, group_id: str, appended_ms: int) -> None:
        """The next record of a group has a format that this release does not know: its moves stay as they are."""
        self._unknown[group_id] = appended_ms
        self._unknown.move_to_end(group_id)
        if len(self._unknown) > _UNKNOWN_LIMIT:
            self._unknown.popitem(last=False)

    def _take(self, number: int, key: GroupKey, stored: StoredGroup) -> bool:
        view = self._members.partitions[number].view
        view.read_to(stored.offset + 1, stored.appended_ms)
        counted = self._views[number].read(key, stored)
        if self._is_local:
            self._views[number].use(key.group_id)
            forgotten = self._views[number].forget_unused(LOCAL_GROUPS + len(self.keeps))
        else:
            forgotten = self._views[number].forget(view.newest_ms)
            if counted:
                forgotten += self._make_room(self._views[number], key, stored)
        if counted and key.name == MOVE:
            self.on_move(key.group_id)
        for group_id in forgotten:
            self.on_move(group_id)
        return counted

    def _make_room(self, view: GroupView, key: GroupKey, stored: StoredGroup) -> list[str]:
        """Forget what is more than there is room for: of the group, and of the partition that has most."""
        if not stored.is_trusted and self.room.is_exceeded:  # of these anybody can write any number
            view.drop(key)
            return [key.group_id]
        forgotten = view.forget_beyond(key.group_id)
        while self.room.is_exceeded:
            forgotten += max(self._views, key=self.room.share).forget_oldest()
        return forgotten

    def give_up(self) -> set[int]:
        """The producer was replaced: the outcome of what is not read back is unknown. Return the partitions of that."""
        numbers = {self._number(key.group_id) for key in self._unresolved}
        for number in numbers:
            self.give_up_before(number, math.inf)
        return numbers

    def give_up_before(self, number: int, written_at: float) -> None:
        """The records of a partition that were written before this time and not read back will not be."""
        for key, write in list(self._unresolved.items()):
            if write.written_at < written_at and self._number(key.group_id) == number:
                del self._unresolved[key]
                self._members.outputs.append(Settled(key.member))

    def lose(self, number: int) -> None:
        """What was read of a partition may not be so any more."""
        lost, self._views[number] = self._views[number], GroupView(self.room)
        groups = lost.groups()
        lost.clear()
        for group_id in groups:
            self.on_move(group_id)

    # -- time --------------------------------------------------------------------------------------------------

    def oldest_unresolved(self) -> list[tuple[int, float]]:
        """The partition of each record that is not read back, and when it was written, the oldest first."""
        return [(self._number(key.group_id), write.written_at) for key, write in self._unresolved.items()]

    def next_deadline(self) -> float:
        """When :meth:`handle_time` is to be called next."""
        return self._wave_check_at

    def handle_time(self, now: float) -> None:
        """Write anew what has grown old, so that retention does not end a move. Any replica does it, whoever is first.

        Of groups in use alone, and of those in waves that they are over: some tools have a new group each time, and
        clients can think of any number of them. What a replica writes anew says the same, so it does not matter if
        several do.
        """
        if self._wave_check_at > now:
            return
        self._wave_check_at = now + _LOOK_EVERY_S
        self._used = {group_id: at for group_id, at in self._used.items() if now - at <= _IN_USE_S}
        for number, view in enumerate(self._views):
            newest_ms = self._members.partitions[number].view.newest_ms
            in_use: set[str] | None = None
            for key, stored in view.counted():
                if newest_ms - stored.appended_ms < RENEW_MS:
                    break  # the oldest are the first
                if in_use is None:
                    in_use = self._groups_in_use(number)
                is_kept = key.name == MOVE and key.group_id in self.keeps
                if is_finding(key.name) or not (is_kept or key.group_id in in_use):
                    continue
                import crc32c  # noqa: PLC0415 - with importlib.metadata, for a member log

                spread = crc32c.crc32c(self._members.writer + repr(key).encode()) % _RENEW_SPREAD_MS
                if newest_ms - stored.appended_ms < RENEW_MS + spread:
                    continue
                move = view.of_group(key.group_id).get(MOVE)
                if move is not None and move.record.move is not None and move.record.move.phase != Phase.OVER:
                    self.write(key.group_id, key.name, now, move=stored.record.move, slot=stored.record.slot)

    def _groups_in_use(self, number: int) -> set[str]:
        members = self._members.partitions[number].view.counted()
        return self._used.keys() | {key.group_id for key, stored in members if not stored.record.kind.is_dead}

    def _number(self, group_id: str) -> int:
        return partition_of(MemberKey(group_id, ""), self._members.settings.partitions)

    def _partition(self, group_id: str) -> Partition:
        return self._members.partitions[self._number(group_id)]


def slots_of(records: Mapping[str, StoredGroup]) -> dict[int, StoredGroup]:
    """The slots among the records of a group, by number."""
    found = ((slot_number(name), stored) for name, stored in records.items())
    return {
        number: stored for number, stored in found if number is not None and stored.record.slot is not None
    }


def local_group_log() -> GroupLog:
    """The records of a process that has no member log: it reads back at once what it writes."""
    members = Members(FleetSettings(partitions=1), Writer(bytes(16)), 0.0)
    members.partitions[0].health = Health.READY
    return GroupLog(members, 0.0, is_local=True)
