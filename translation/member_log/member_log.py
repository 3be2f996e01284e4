"""The member log at one replica: what it may do for which member, what is to be written to find out, and when no new
member id is claimed because a group has too many dead ones (``dead_ids``).

Sans-IO. The translation asks (:meth:`MemberLog.claim`, :meth:`MemberLog.expire`, …), the shell reports what it has read
and what became of its producer, and both take what is to be done from :meth:`MemberLog.outputs`. Times (``now``) are
seconds of a monotonic clock. Which record counts is decided in :mod:`translation.member_log.counting`, and
what that makes of a member here in :mod:`translation.member_log.ownership`.

Rules of writing
----------------
* A member has one unresolved record at a time: written, and not read back yet. What is wanted meanwhile waits
  (:mod:`translation.member_log.write_queue`).
* Only what is read back counts. An acknowledgement says nothing: somebody else's record may lie before ours
  (:mod:`translation.member_log.record_reader`).
* A claim is settled by a record that was written *after* the claim was made. An earlier one that is read back now may
  long have lost to one that is not read yet: the client may have been at another replica and come back
  (:mod:`translation.member_log.confirmation`).
* When the outcome of a write is unknown, the writer is replaced, and what was wanted is written anew under the new one.
* While a partition is away nothing but a probe is written to it, so an outage leaves no heap of records
  (:mod:`translation.member_log.partition_health`).
"""

import math
from collections import Counter

from msgspec.structs import replace

from translation.member_log.counting import Stored
from translation.member_log.group_log import GroupLog
from translation.member_log.group_mac import GroupMac
from translation.member_log.group_records import GroupKey, StoredGroup
from translation.member_log.members import Members
from translation.member_log.outputs import (
    Decision,
    ExpiryBegan,
    Health,
    JoinTerms,
    Output,
    ServeDecision,
    terms_of,
)
from translation.member_log.ownership import Ownership, OwnershipEvent, OwnershipMachine
from translation.member_log.partition_health import PartitionHealth
from translation.member_log.record_reader import RecordReader
from translation.member_log.records import Kind, MemberKey, MemberRecord, Writer, shortened
from translation.member_log.settings import FleetSettings
from translation.member_log.write_queue import WriteQueue

_MOST_RELEASED = 10_000
"""Members released while expiry is paused that are remembered."""
_DECISIONS = {
    ServeDecision.SERVE: Decision.SERVED,
    ServeDecision.GONE: Decision.DEAD,
    ServeDecision.RELAYED: Decision.RELAYED,
}


class MemberLog:
    """The member log, as one process knows it and writes it."""

    def __init__(
        self, settings: FleetSettings, writer: Writer, now: float, mac: GroupMac | None = None
    ) -> None:
        self.settings = settings
        self._expires = settings.expires
        self._is_paused = False
        self._all_write = True
        self._members = Members(settings, writer, now)
        self._writes = WriteQueue(self._members, now)
        self._reader = RecordReader(self._members, self._writes)
        self.groups = GroupLog(self._members, now, mac=mac)
        """The records of whole groups."""
        self._health = PartitionHealth(self._members, self._writes, self._reader, self.groups)
        self._was_asked = False
        self._released: dict[MemberKey, None] = {}
        """Members that were released while expiry is paused, see :meth:`pause_expiry`."""
        self.claims_refused = 0
        """Claims that were refused because their group has too many dead member ids."""
        self.decisions: Counter[Decision] = Counter()
        """Calls that asked the log, by what became of them."""

    # -- what the translation asks -----------------------------------------------------------------------------

    def claim(
        self,
        key: MemberKey,
        connection: int,
        now: float,
        terms: JoinTerms | None = None,
        *,
        issued: bool = False,
    ) -> ServeDecision:
        """A call for the member came on a connection that is admitted: may it be served here?

        ``terms`` are those of a JoinGroup; without them those of the record that counts are kept. ``issued``: this
        process gave out the member id and nobody has used it yet, so nobody contests it and the call does not wait.
        """
        partition = self._members.partition(key)
        present = partition.view.get(key)
        if present is not None and present.record.kind.is_dead:
            return ServeDecision.GONE
        if present is None and key not in self._members.entries and self._has_too_many_ids(key.group_id):
            self.claims_refused += 1
            self._was_asked = True
            return ServeDecision.UNAVAILABLE
        entry = self._members.entry(key, present)
        entry.wants_expire = False
        if entry.has_joined and not (entry.claims or entry.served):
            # Its JoinGroup got no verdict here. Where the client has gone on since, the record says what it asked for.
            entry.has_joined = False
            if present is not None:
                entry.terms = terms_of(present.record, self.settings)
        changed = terms is not None and terms != entry.terms
        if terms is not None:
            entry.terms = terms
            entry.has_joined = True
        if issued and present is None:
            entry.issued = entry.served = True
            self._members.confirmations.claim(key, entry, connection, math.inf)
            entry.confirmed[connection] = now
            self._want(key, now)
            return ServeDecision.SERVE
        if self._members.confirmations.is_confirmed(entry, connection, now):
            entry.confirmed[connection] = now
            if changed:
                self._want(key, now)
            return ServeDecision.SERVE
        if partition.health is not Health.READY:
            self._members.forget_if_idle(key, entry)
            return ServeDecision.UNAVAILABLE
        self._members.confirmations.claim(key, entry, connection, now + self.settings.wait_s)
        self._want(key, now)
        return ServeDecision.PENDING

    def verdict(self, key: MemberKey, connection: int, now: float) -> ServeDecision:
        """What may be done with a call for the member on this connection. Asking changes nothing."""
        present = self._members.present(key)
        entry = self._members.entries.get(key)
        if present is not None and present.record.kind.is_dead:
            return ServeDecision.GONE
        if entry is not None and self._members.confirmations.is_confirmed(entry, connection, now):
            return ServeDecision.SERVE
        if entry is not None and max(entry.claims.get(connection, now), entry.relay_until) > now:
            return ServeDecision.PENDING
        if present is not None and present.record.kind is Kind.RELAYED:
            return ServeDecision.RELAYED
        return ServeDecision.UNAVAILABLE

    @property
    def forgotten(self) -> int:
        """Records that were forgotten because there are more than there is room for."""
        return self._members.room.forgotten + self.groups.room.forgotten

    def decided(self, key: MemberKey, verdict: ServeDecision) -> None:
        """Count a call that asked the log and does not wait any more, by the last verdict that it got."""
        if verdict in _DECISIONS:
            decision = _DECISIONS[verdict]
        elif self.is_ready(key) and self.ownership(key) is Ownership.ELSEWHERE:
            decision = Decision.TAKEN
        else:
            decision = Decision.UNRESOLVED
        self.decisions[decision] += 1

    def heard(self, key: MemberKey, connection: int | None, now: float) -> None:
        """The client was heard here, or its JoinGroup that waited was answered: it was there all the time.

        A deadline that had passed does not count then, unless its record is written already. A call that shows where
        its client is says on which ``connection`` it came: if that is confirmed, it stays so.
        """
        entry = self._members.entries.get(key)
        if entry is None:
            return
        entry.wants_expire = False
        if connection in entry.confirmed:
            entry.confirmed[connection] = now

    def synced(self, key: MemberKey, generation: int, snapshot: bytes, now: float) -> None:
        """The client of a member that is served here has got its assignment, so it has this generation.

        It is written for the other replicas, and nobody waits for that.
        """
        entry = self._members.entries.get(key)
        if (
            entry is not None
            and entry.served
            and (entry.generation, entry.snapshot) != (generation, snapshot)
        ):
            entry.generation, entry.snapshot = generation, snapshot
            self._want(key, now)

    def moved(self, key: MemberKey, snapshot: bytes, now: float) -> None:
        """The member epoch has moved, and the client keeps what it has: written when nothing else is.

        Each change of a group moves the epochs of all its members.
        """
        entry = self._members.entries.get(key)
        if entry is not None and entry.served and entry.snapshot != snapshot:
            entry.snapshot = snapshot
            self._was_asked = True
            self._writes.want_later(key)
            self._writes.write_wanted(self._members.number(key), now)

    def withdraw_confirmations(self, connection: int) -> None:
        """A connection is closed, or the broker there coordinates the group no more: it confirms nothing now."""
        for key in self._members.confirmations.close(connection):
            entry = self._members.entries.get(key)
            if entry is not None:
                entry.claims.pop(connection, None)
                entry.confirmed.pop(connection, None)
                self._members.forget_if_idle(key, entry)

    def expire(self, key: MemberKey, now: float) -> bool:
        """A deadline of a member that is served here has passed. Return whether the log decides what follows.

        If it does, :class:`Expired` or :class:`Taken` comes, or the client's next claim revokes it. If not, the
        member is forgotten here without a word to the broker.
        """
        entry = self._members.entries.get(key)
        if not self.settings.expires or entry is None or not entry.served:
            return False
        entry.wants_expire = True
        self._want(key, now)
        return True

    def pause_expiry(self, now: float, *, is_paused: bool) -> None:
        """Pause expiry while the topic has a wrong setting, with which replicas may disagree; or resume it.

        Members whose timeout passes meanwhile are left to the broker's session timeout, and what the log says of them
        stays. When expiry resumes, those that no other replica has served since are expired.
        """
        self._is_paused = is_paused
        self._decide_expiry()
        if not self.settings.expires:
            return
        left, self._released = self._released, {}
        for key in left:
            present = self._members.present(key)
            if present is None or not self._members.is_own_served(present):
                continue
            entry = self._members.entry(key, present)
            if not entry.served and entry.machine.ownership is Ownership.SERVING:
                entry.served = entry.wants_expire = True
                self._want(key, now)

    def trust_silence(self, *, all_write: bool) -> None:
        """Every process that serves these clients writes this log from now on, or one may not: expire, or leave it.

        Beside a process that does not write it, a client that was silent here may have been served there, and be on
        its way back. So those that were released are left to the broker's session timeout, and the others have a whole
        session timeout from :class:`ExpiryBegan` on.
        """
        if all_write == self._all_write:
            return
        self._all_write = all_write
        self._released.clear()
        self._decide_expiry()
        if self.settings.expires:
            self._members.outputs.append(ExpiryBegan())

    def _decide_expiry(self) -> None:
        expires = self._expires and self._all_write and not self._is_paused
        self.settings = replace(self.settings, expires=expires)

    def release(self, key: MemberKey) -> None:
        """The membership is forgotten here, and nothing is known of its end: its record is not renewed any more.

        The record goes on to count until another does, or it is too old.
        """
        entry = self._members.entries.get(key)
        if entry is not None:
            is_paused = self._is_paused and self._expires and self._all_write
            if entry.served and is_paused and len(self._released) < _MOST_RELEASED:
                self._released[key] = None
            entry.served = entry.issued = entry.wants_expire = False
            entry.generation = entry.snapshot = None
            entry.confirmed.clear()
            entry.refresh_at = math.inf
            self._members.forget_if_idle(key, entry)

    def end(self, key: MemberKey, now: float) -> None:
        """The broker has said that the member is gone, or has accepted its LeaveGroup."""
        partition = self._members.partition(key)
        present = partition.view.get(key)
        if (present is None and key not in self._members.entries) or (
            present is not None and present.record.kind is Kind.ENDED
        ):
            return
        entry = self._members.entry(key, present)
        entry.wants_end, entry.tries = True, 0
        entry.wants_expire = False
        entry.claims.clear()
        self._want(key, now)

    def await_group(self, group_id: str) -> None:
        """Emit :class:`~translation.member_log.outputs.GroupServed` when another replica serves a member of it."""
        self._members.awaited.add(shortened(group_id))

    def stop_awaiting(self, group_id: str) -> None:
        """Say it no more."""
        self._members.awaited.discard(shortened(group_id))

    def begun(self, key: MemberKey) -> None:
        """A membership has begun under the id here: the end of one before it is not written any more.

        The broker may have been asked for the member, and have had none, while the JoinGroup was still under way.
        """
        entry = self._members.entries.get(key)
        if entry is not None:
            entry.wants_end = False

    def relay(self, key: MemberKey, now: float) -> ServeDecision:
        """A JoinGroup is to be relayed under this id, so that the broker serves it as a classic member."""
        partition = self._members.partition(key)
        present = partition.view.get(key)
        if present is not None and present.record.kind.is_dead:
            return ServeDecision.GONE
        if present is not None and present.record.kind is Kind.RELAYED:
            return ServeDecision.RELAYED
        if partition.health is not Health.READY:
            return ServeDecision.UNAVAILABLE
        entry = self._members.entry(key, present)
        entry.relay_until = now + self.settings.wait_s
        entry.wants_expire = False
        entry.tries = 0
        self._want(key, now)
        return ServeDecision.PENDING

    def may_speak_for(self, key: MemberKey) -> bool:
        """Whether an owned list, epoch -1 or -2, or a LeaveGroup may be sent for the member, as far as is read."""
        entry = self._members.entries.get(key)
        if entry is None or not entry.served:
            return False
        present = self._members.present(key)
        if present is None:
            return entry.issued
        return self._members.is_own_served(present) and entry.machine.ownership is not Ownership.EXPIRING

    def may_keep_alive(self, key: MemberKey) -> bool:
        """Whether heartbeats of the proxy's own may keep the member at the broker: not past its deadline."""
        entry = self._members.entries.get(key)
        return entry is not None and entry.served and not entry.wants_expire and self.may_speak_for(key)

    def ownership(self, key: MemberKey) -> Ownership:
        """The ownership of a member here."""
        entry = self._members.entries.get(key)
        if entry is not None:
            return entry.machine.ownership
        machine = OwnershipMachine()
        present = self._members.present(key)
        if present is not None:
            machine.handle(self._members.event_of(present))
        return machine.ownership

    def record(self, key: MemberKey) -> MemberRecord | None:
        """The record that counts for a member, as far as the log is read."""
        present = self._members.present(key)
        return present and present.record

    def partition_of(self, group_id: str) -> int:
        """The number of the partition that has the records of a group."""
        return self._members.number(MemberKey(shortened(group_id), ""))

    def is_of_another(self, key: MemberKey) -> bool:
        """Whether the record that counts for a member is another replica's."""
        present = self._members.present(key)
        return present is not None and present.writer not in self._members.own

    def terms(self, key: MemberKey) -> JoinTerms | None:
        """What the record that counts for a member says of its client, within bounds."""
        present = self._members.present(key)
        return None if present is None else terms_of(present.record, self.settings)

    def is_ready(self, key: MemberKey) -> bool:
        """Whether what is read of this member may be relied on."""
        return self._members.partition(key).health is Health.READY

    def health(self, partition: int) -> Health:
        """What is known of a partition."""
        return self._members.partitions[partition].health

    def counted(self, partition: int) -> list[tuple[MemberKey, Stored]]:
        """The members of a partition, each with the record that counts for it, as they are now."""
        return self._members.partitions[partition].view.counted()

    def numbers(self) -> Counter[tuple[Kind, Writer]]:
        """How many members there are by kind and writer of the record that counts for each. Goes through no member."""
        return sum((state.view.numbers for state in self._members.partitions), Counter[tuple[Kind, Writer]]())

    def newest_ms(self, partition: int) -> int:
        """The highest LogAppendTime that was read in a partition, in milliseconds since 1970; 0 if nothing was."""
        return self._members.partitions[partition].view.newest_ms

    def positions(self) -> list[int]:
        """The next offset of each partition to be read."""
        return [state.view.position for state in self._members.partitions]

    def is_own(self, writer: Writer) -> bool:
        """Whether this process has had this writer."""
        return writer in self._members.own

    def unresolved(self) -> int:
        """How many records of members are written and not read back."""
        return len(self._writes.unresolved)

    def oldest_unresolved_s(self, now: float) -> float:
        """For how long the oldest of them is written; 0 if there is none."""
        for key in self._writes.unresolved:
            write = self._members.entries[key].write
            return 0.0 if write is None else now - write.written_at
        return 0.0

    # -- what the shell reports --------------------------------------------------------------------------------

    def replay_to(self, partition: int, offset: int, now: float) -> None:
        """The end of a partition as it was when it was asked for: nothing is decided before it is read."""
        self._members.partitions[partition].replay_to = offset
        self.handle_time(now)

    def read(self, partition: int, key: MemberKey, stored: Stored, now: float) -> None:
        """The next record of a member that lies in a partition."""
        self._reader.read(partition, key, stored, now)

    def read_group(self, partition: int, key: GroupKey, stored: StoredGroup, value: bytes = b"") -> bool:
        """The next record of a partition is one of a whole group. Return whether it is authenticated."""
        return self.groups.read(partition, key, stored, value)

    def read_unknown_group(self, partition: int, key: GroupKey, offset: int, appended_ms: int) -> None:
        """The next record of a partition is one of a whole group, in a format that this release does not know."""
        self._members.partitions[partition].view.read_to(offset + 1, appended_ms)
        self.groups.read_unknown(key.group_id, appended_ms)

    def read_probe(self, partition: int, writer: Writer, offset: int, appended_ms: int, now: float) -> None:
        """The next record of a partition is a probe."""
        state = self._members.partitions[partition]
        state.view.read_to(offset + 1, appended_ms)
        self.groups.heard(partition, writer, appended_ms)
        if writer in self._members.own:
            self.groups.began(partition, appended_ms, now)
        self._reader.forget_old(state)
        self._health.read_probe(partition, writer, now)

    def skip_probe(self, partition: int, writer: Writer, offset: int, now: float) -> None:
        """The next record of a partition is a probe that is skipped: its time is not the broker's."""
        self._health.skip_probe(partition, writer, now)
        self.read_to(partition, offset + 1, now)

    def read_to(self, partition: int, position: int, now: float) -> None:
        """Everything before this offset of a partition has been read, and what was not a record of a member is over."""
        self._members.partitions[partition].view.read_to(position)
        self.handle_time(now)

    def replace_writer(self, writer: Writer, now: float) -> None:
        """The producer was replaced: the outcome of all that was not read back yet is unknown."""
        members = self._members
        members.writer = writer
        members.own.add(writer)
        for key in list(self._writes.unresolved):
            self._reader.outcome_unknown(key, members.entries[key])
            self._health.set_away(members.number(key), now)
        for number in self.groups.give_up():
            self._health.set_away(number, now)
        self._health.drop_probes(now)
        self.handle_time(now)

    def lose(self, partition: int, writer: Writer, now: float) -> None:
        """What was read of a partition may not be so any more: it will be read again from its beginning.

        Truncated, out of range, another topic. The shell has replaced its producer (``writer``), so that records of
        before can't be taken for those that are unresolved.
        """
        self._health.replay_again(partition, now)
        self.groups.lose(partition)
        for key, entry in self._members.entries.items():
            if self._members.number(key) == partition:
                entry.machine.handle(OwnershipEvent.LOG_LOST)
                self._writes.resolve(key, entry)
                entry.confirmed.clear()
                entry.issued = False
        self.replace_writer(writer, now)

    # -- time --------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When :meth:`handle_time` is to be called next."""
        return min(self._health.next_deadline(), self._writes.next_deadline(), self.groups.next_deadline())

    def handle_time(self, now: float) -> None:
        """Write probes, notice what is not read back in time, and write anew what has grown old."""
        self._health.handle_time(now)
        self._writes.handle_time(now)
        self.groups.handle_time(now)

    def outputs(self) -> list[Output]:
        """What is to be done, in order; each is given once."""
        outputs, self._members.outputs = self._members.outputs, []
        self._was_asked = False
        return outputs

    @property
    def has_changed(self) -> bool:
        """Whether there are :meth:`outputs`, or what was asked may have changed :meth:`next_deadline`."""
        return self._was_asked or bool(self._members.outputs)

    def _has_too_many_ids(self, group_id: str) -> bool:
        view = self._members.partition(MemberKey(group_id, "")).view
        return view.dead_beyond_alive(group_id) >= self.settings.dead_ids

    def _want(self, key: MemberKey, now: float) -> None:
        """Something may have to be written for a member: write it at once if that is allowed."""
        self._was_asked = True
        self._writes.want(key)
        self._writes.write_wanted(self._members.number(key), now)
