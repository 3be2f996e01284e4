"""Decides when a partition of the member log may be relied on, or is away, by probes: records that are written only
to be read back.

* ``replaying``: what was there when this process began to read is not all read, or no probe is read back yet.
* ``ready``: the last probe is read back. Members are written.
* ``away``: a record or a probe was not read back in time, or its writer was replaced. Nothing but probes is written,
  so an outage leaves no heap of records.
"""

import math

from translation.member_log.counting import PartitionView
from translation.member_log.group_log import GroupLog
from translation.member_log.members import Members
from translation.member_log.outputs import Health, HealthChanged, WriteRecord
from translation.member_log.record_reader import RecordReader
from translation.member_log.records import PROBE, Writer, encode_key
from translation.member_log.write_queue import WriteQueue


class PartitionHealth:
    """Writes the probes of all partitions, and changes the health of each."""

    def __init__(self, members: Members, writes: WriteQueue, reader: RecordReader, groups: GroupLog) -> None:
        self._members = members
        self._writes = writes
        self._reader = reader
        self._groups = groups

    def next_deadline(self) -> float:
        """When :meth:`handle_time` is to be called next."""
        members = self._members
        deadline = math.inf
        for state in members.partitions:
            if state.is_replayed:
                deadline = min(deadline, state.probe_at)
            if state.health is Health.READY and state.probes:
                deadline = min(deadline, state.probe_written_at + members.settings.wait_s)
        for number, written_at in self._groups.oldest_unresolved():
            if members.partitions[number].health is Health.READY:
                deadline = min(deadline, written_at + members.settings.wait_s)
                break
        for key in self._writes.unresolved:
            write = members.entries[key].write
            if write is not None and members.partition(key).health is Health.READY:
                return min(deadline, write.written_at + members.settings.wait_s)  # the oldest is the first
        return deadline

    def handle_time(self, now: float) -> None:
        """Notice what is not read back in time, and write the probes that are due."""
        members = self._members
        for key in self._writes.unresolved:
            write = members.entries[key].write
            if write is not None and write.written_at + members.settings.wait_s > now:
                break
            self.set_away(members.number(key), now)
        for number, written_at in self._groups.oldest_unresolved():
            if written_at + members.settings.wait_s > now:
                break
            self.set_away(number, now)
        for number, state in enumerate(members.partitions):
            if state.probes and state.probe_written_at + members.settings.wait_s <= now:
                self.set_away(number, now)
            if state.is_replayed and state.probe_at <= now:
                self._probe(number, now)

    def read_probe(self, number: int, writer: Writer, now: float) -> None:
        """A probe is read: the partition is ready if it is the last of ours."""
        state = self._members.partitions[number]
        if writer == self._members.writer and state.probes:
            state.probes -= 1
            if not state.probes and state.is_replayed:
                state.read_until = state.probe_written_at
                self._give_up_before(number, state.probe_written_at)
                self._set_ready(number, now)

    def _give_up_before(self, number: int, written_at: float) -> None:
        """Give up records of ours that are not read back, though a probe that was written after them is.

        They were skipped, because the topic had another timestamp type then. Waiting for them would keep the partition
        away until the process ends, and write a probe at each round trip.
        """
        for key in list(self._writes.unresolved):
            entry = self._members.entries[key]
            if (
                entry.write is not None
                and entry.write.written_at < written_at
                and self._members.number(key) == number
            ):
                self._reader.outcome_unknown(key, entry)
        self._groups.give_up_before(number, written_at)

    def skip_probe(self, number: int, writer: Writer, now: float) -> None:
        """A probe was skipped when it was read: those behind it are waited for, and prove what it would have."""
        state = self._members.partitions[number]
        if writer == self._members.writer and state.probes:
            state.probes -= 1
            self.set_away(number, now)

    def drop_probes(self, now: float) -> None:
        """The producer was replaced: whether the probes that are not read back were written is unknown."""
        for number, state in enumerate(self._members.partitions):
            if state.probes:
                state.probes = 0
                state.probe_at = now
                self.set_away(number, now)

    def replay_again(self, number: int, now: float) -> None:
        """What was read of a partition is forgotten: it will be read from its beginning."""
        state = self._members.partitions[number]
        state.view.give_back()
        state.view = PartitionView(self._members.room)
        state.replay_to = None
        state.read_until = -math.inf
        state.probes = 0
        state.probe_at = now
        self._set_health(number, Health.REPLAYING)

    def set_away(self, number: int, now: float) -> None:
        """A partition that was ready is away."""
        state = self._members.partitions[number]
        if state.health is Health.READY:
            self._set_health(number, Health.AWAY)
            state.probe_at = min(state.probe_at, now)

    def _probe(self, number: int, now: float) -> None:
        members = self._members
        state = members.partitions[number]
        ready = state.health is Health.READY
        state.probe_at = now + (members.settings.probe_s if ready else members.settings.probe_away_s)
        if not state.probes:
            state.probe_written_at = now
        state.probes += 1
        members.outputs.append(
            WriteRecord(
                number, encode_key(PROBE, members.writer), None, members.writer, members.format.number
            )
        )

    def _set_ready(self, number: int, now: float) -> None:
        """The last probe is read back, and with it all that was written before it.

        A producer keeps the order of its records, so whatever is unresolved now was written after that probe.
        """
        members = self._members
        state = members.partitions[number]
        state.probe_at = now + members.settings.probe_s
        if state.health is Health.READY:
            return
        replayed = state.health is Health.REPLAYING
        self._set_health(number, Health.READY)
        for key, entry in list(members.entries.items()):
            if members.number(key) == number:
                if replayed:
                    self._reader.reconcile_after_replay(key, entry)
                self._writes.want(key)
        self._writes.write_wanted(number, now)

    def _set_health(self, number: int, health: Health) -> None:
        state = self._members.partitions[number]
        if state.health is not health:
            state.health = health
            self._members.outputs.append(HealthChanged(number, health))
