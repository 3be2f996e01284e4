"""The member log at one replica: what it may do for which member, and which records it writes to find out.

Sans-IO. The translation asks (:meth:`MemberLog.claim`, :meth:`MemberLog.expire`, …), the shell reports what it has read
and what became of its producer, and both take what is to be done from :meth:`MemberLog.outputs`. Times (``now``) are
seconds of a monotonic clock. Which record counts is decided in :mod:`translation.fleet.counting`, and
what that makes of a member here in :mod:`translation.fleet.seats`.

Rules of writing
----------------
* A member has one unresolved record at a time: written, and not read back yet. What is wanted meanwhile waits.
* Only what is read back counts. An acknowledgement says nothing: somebody else's record may lie before ours.
* A claim is settled by a record that was written *after* the claim was made. An earlier one that is read back now may
  long have lost to one that is not read yet: the client may have been at another replica and come back.
* When the outcome of a write is unknown, the writer is replaced, and what was wanted is written anew under the new one.
* While a partition is away nothing but a probe is written to it, so an outage leaves no heap of records.
"""

import math

import crc32c

from translation.fleet.counting import PartitionView, Stored
from translation.fleet.entries import Entry, Partition, Write
from translation.fleet.outputs import (
    Expired,
    FleetSettings,
    Health,
    HealthChanged,
    Output,
    Serving,
    Settled,
    Taken,
    Terms,
    Verdict,
    WriteRecord,
    terms_of,
)
from translation.fleet.records import (
    PROBE,
    Kind,
    MemberKey,
    MemberRecord,
    Writer,
    encode_key,
    encode_value,
    partition_of,
    shortened,
)
from translation.fleet.seats import Seat, SeatEvent, SeatMachine

_SEAT_EVENT = {
    Kind.EXPIRING: SeatEvent.EXPIRING_COUNTS,
    Kind.ENDED: SeatEvent.ENDED_COUNTS,
    Kind.RELAYED: SeatEvent.RELAYED_COUNTS,
}

_REFRESH_EVERY_S = 60.0
"""How often members are looked through for records that are to be written anew."""


class MemberLog:
    """The member log, as one process knows it and writes it."""

    def __init__(self, settings: FleetSettings, writer: Writer, now: float) -> None:
        self.settings = settings
        self._writer = writer
        self._own = {writer}
        self._partitions = [Partition(now) for _ in range(settings.partitions)]
        self._entries: dict[MemberKey, Entry] = {}
        self._by_connection: dict[int, set[MemberKey]] = {}
        self._unresolved: dict[MemberKey, None] = {}
        """Members with a record that is not read back, in the order in which they were written."""
        self._outputs: list[Output] = []
        self._tokens = settings.writes_per_s
        self._tokens_at = now
        self._refresh_at = now + _REFRESH_EVERY_S

    # -- what the translation asks -----------------------------------------------------------------------------

    def claim(
        self,
        key: MemberKey,
        connection: int,
        now: float,
        terms: Terms | None = None,
        *,
        issued: bool = False,
    ) -> Verdict:
        """A call for the member came on a connection that is admitted: may it be served here?

        ``terms`` are those of a JoinGroup; without them those of the record that counts are kept. ``issued``: this
        process gave out the member id and nobody has used it yet, so nobody contests it and the call does not wait.
        """
        partition = self._partition(key)
        present = partition.view.get(key)
        if present is not None and present.record.kind.is_dead:
            return Verdict.GONE
        entry = self._entry(key, present)
        entry.wants_expire = False
        changed = terms is not None and terms != entry.terms
        if terms is not None:
            entry.terms = terms
        if issued and present is None:
            entry.issued = entry.served = True
            self._want_claim(key, entry, connection, math.inf)
            entry.confirmed[connection] = now
            self._write_wanted(self._number(key), now)
            return Verdict.SERVE
        if self._is_confirmed(entry, connection, now):
            entry.confirmed[connection] = now
            if changed:
                entry.refresh_at = now
                self._want(key)
                self._write_wanted(self._number(key), now)
            return Verdict.SERVE
        if partition.health is not Health.READY:
            self._forget_if_idle(key, entry)
            return Verdict.UNAVAILABLE
        self._want_claim(key, entry, connection, now + self.settings.wait_s)
        self._write_wanted(self._number(key), now)
        return Verdict.PENDING

    def verdict(self, key: MemberKey, connection: int, now: float) -> Verdict:
        """What may be done with a call for the member on this connection. Asking changes nothing."""
        present = self._partition(key).view.get(key)
        entry = self._entries.get(key)
        if present is not None and present.record.kind.is_dead:
            return Verdict.GONE
        if entry is not None and self._is_confirmed(entry, connection, now):
            return Verdict.SERVE
        if entry is not None and max(entry.claims.get(connection, now), entry.relay_until) > now:
            return Verdict.PENDING
        if present is not None and present.record.kind is Kind.RELAYED:
            return Verdict.RELAYED
        return Verdict.UNAVAILABLE

    def heard(self, key: MemberKey, connection: int, now: float) -> None:
        """A JoinGroup that waited on a confirmed connection was answered: its client was there all the time."""
        entry = self._entries.get(key)
        if entry is not None and connection in entry.confirmed:
            entry.confirmed[connection] = now

    def lapse(self, connection: int) -> None:
        """A connection is closed, or the broker there coordinates the group no more: it confirms nothing now."""
        for key in self._by_connection.pop(connection, ()):
            entry = self._entries.get(key)
            if entry is not None:
                entry.claims.pop(connection, None)
                entry.confirmed.pop(connection, None)
                self._forget_if_idle(key, entry)

    def expire(self, key: MemberKey, now: float) -> bool:
        """A deadline of a member that is served here has passed. Return whether the log decides what follows.

        If it does, :class:`Expired` or :class:`Taken` comes, or the client's next claim revokes it. If not, the
        member is forgotten here without a word to the broker.
        """
        entry = self._entries.get(key)
        if not self.settings.expires or entry is None or not entry.served:
            return False
        entry.wants_expire = True
        self._want(key)
        self._write_wanted(self._number(key), now)
        return True

    def end(self, key: MemberKey, now: float) -> None:
        """The broker has said that the member is gone, or has accepted its LeaveGroup."""
        partition = self._partition(key)
        present = partition.view.get(key)
        if (present is None and key not in self._entries) or (
            present is not None and present.record.kind is Kind.ENDED
        ):
            return
        entry = self._entry(key, present)
        entry.wants_end, entry.tries = True, 0
        entry.wants_expire = False
        entry.claims.clear()
        self._want(key)
        self._write_wanted(self._number(key), now)

    def relay(self, key: MemberKey, now: float) -> Verdict:
        """A JoinGroup is to be relayed under this id, so that the broker serves it as a classic member."""
        partition = self._partition(key)
        present = partition.view.get(key)
        if present is not None and present.record.kind.is_dead:
            return Verdict.GONE
        if present is not None and present.record.kind is Kind.RELAYED:
            return Verdict.RELAYED
        if partition.health is not Health.READY:
            return Verdict.UNAVAILABLE
        entry = self._entry(key, present)
        entry.relay_until = now + self.settings.wait_s
        entry.wants_expire = False
        entry.tries = 0
        self._want(key)
        self._write_wanted(self._number(key), now)
        return Verdict.PENDING

    def may_speak_for(self, key: MemberKey) -> bool:
        """Whether an owned list, epoch -1 or -2, or a LeaveGroup may be sent for the member, as far as is read."""
        entry = self._entries.get(key)
        if entry is None or not entry.served:
            return False
        present = self._partition(key).view.get(key)
        if present is None:
            return entry.issued
        return self._is_own_served(present) and entry.machine.seat is not Seat.EXPIRING

    def may_keep_alive(self, key: MemberKey) -> bool:
        """Whether heartbeats of the proxy's own may keep the member at the broker: not past its deadline."""
        entry = self._entries.get(key)
        return entry is not None and entry.served and not entry.wants_expire and self.may_speak_for(key)

    def seat(self, key: MemberKey) -> Seat:
        """The seat of a member here."""
        entry = self._entries.get(key)
        if entry is not None:
            return entry.machine.seat
        machine = SeatMachine()
        present = self._partition(key).view.get(key)
        if present is not None:
            machine.handle(self._event_of(present))
        return machine.seat

    def record(self, key: MemberKey) -> MemberRecord | None:
        """The record that counts for a member, as far as the log is read."""
        present = self._partition(key).view.get(key)
        return present and present.record

    def health(self, partition: int) -> Health:
        """What is known of a partition."""
        return self._partitions[partition].health

    def unresolved(self) -> int:
        """How many records of members are written and not read back."""
        return len(self._unresolved)

    # -- what the shell reports --------------------------------------------------------------------------------

    def replay_to(self, partition: int, offset: int, now: float) -> None:
        """The end of a partition as it was when it was asked for: nothing is decided before it is read."""
        self._partitions[partition].replay_to = offset
        self.handle_time(now)

    def read(self, partition: int, key: MemberKey, stored: Stored, now: float) -> None:
        """The next record of a member that lies in a partition."""
        state = self._partitions[partition]
        if self._number(key) != partition:  # in no order with the others of its group
            state.view.read_to(stored.offset + 1, stored.appended_ms)
            return
        counts = state.view.read(key, stored)
        entry = self._entries.get(key)
        if entry is not None and state.health is not Health.REPLAYING:
            self._take_in(key, entry, stored, counts, now)
        self._forget_old(state)
        self._write_wanted(partition, now)

    def read_probe(self, partition: int, writer: Writer, offset: int, appended_ms: int, now: float) -> None:
        """The next record of a partition is a probe."""
        state = self._partitions[partition]
        state.view.read_to(offset + 1, appended_ms)
        self._forget_old(state)
        if writer == self._writer and state.probes:
            state.probes -= 1
            if not state.probes and state.is_replayed:
                self._ready(partition, now)

    def read_to(self, partition: int, position: int, now: float) -> None:
        """Everything before this offset of a partition has been read, and what was not a record of a member is over."""
        self._partitions[partition].view.read_to(position)
        self.handle_time(now)

    def replace_writer(self, writer: Writer, now: float) -> None:
        """The producer was replaced: the outcome of all that was not read back yet is unknown."""
        self._writer = writer
        self._own.add(writer)
        for key in list(self._unresolved):
            entry = self._entries[key]
            self._drop_write(key, entry)
            self._give_up_seat(key, entry)
            self._want(key)
            self._away(self._number(key), now)
        for number, state in enumerate(self._partitions):
            if state.probes:
                state.probes = 0
                state.probe_at = now
                self._away(number, now)
        self.handle_time(now)

    def lose(self, partition: int, writer: Writer, now: float) -> None:
        """What was read of a partition may not be so any more: it will be read again from its beginning.

        Truncated, out of range, another topic. The shell has replaced its producer (``writer``), so that records of
        before can't be taken for those that are unresolved.
        """
        state = self._partitions[partition]
        state.view = PartitionView()
        state.replay_to = None
        state.probes = 0
        state.probe_at = now
        for key, entry in self._entries.items():
            if self._number(key) == partition:
                entry.machine.handle(SeatEvent.LOG_LOST)
                self._drop_write(key, entry)
                entry.confirmed.clear()
                entry.issued = False
        self._set_health(partition, Health.REPLAYING)
        self.replace_writer(writer, now)

    # -- time --------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When :meth:`handle_time` is to be called next."""
        settings = self.settings
        deadline = self._refresh_at
        for state in self._partitions:
            if state.is_replayed:
                deadline = min(deadline, state.probe_at)
            if state.health is Health.READY:
                if state.probes:
                    deadline = min(deadline, state.probe_written_at + settings.wait_s)
                if state.wanting:
                    deadline = min(deadline, self._tokens_at + 1 / settings.writes_per_s)
        for key in self._unresolved:
            write = self._entries[key].write
            if write is not None and self._partition(key).health is Health.READY:
                return min(deadline, write.written_at + settings.wait_s)  # the oldest is the first
        return deadline

    def handle_time(self, now: float) -> None:
        """Write probes, notice what is not read back in time, and write anew what has grown old."""
        settings = self.settings
        for key in self._unresolved:
            write = self._entries[key].write
            if write is not None and write.written_at + settings.wait_s > now:
                break
            self._away(self._number(key), now)
        for number, state in enumerate(self._partitions):
            if state.probes and state.probe_written_at + settings.wait_s <= now:
                self._away(number, now)
            if state.is_replayed and state.probe_at <= now:
                self._probe(number, now)
        if self._refresh_at <= now:
            self._refresh_at = now + _REFRESH_EVERY_S
            for key, entry in self._entries.items():
                if entry.refresh_at <= now:
                    self._want(key)
        for number in range(len(self._partitions)):
            self._write_wanted(number, now)

    def outputs(self) -> list[Output]:
        """What is to be done, in order; each is given once."""
        outputs, self._outputs = self._outputs, []
        return outputs

    # -- health of partitions ----------------------------------------------------------------------------------

    def _probe(self, number: int, now: float) -> None:
        state = self._partitions[number]
        ready = state.health is Health.READY
        state.probe_at = now + (self.settings.probe_s if ready else self.settings.probe_away_s)
        if not state.probes:
            state.probe_written_at = now
        state.probes += 1
        self._outputs.append(WriteRecord(number, encode_key(PROBE, self._writer), None, self._writer))

    def _away(self, number: int, now: float) -> None:
        state = self._partitions[number]
        if state.health is Health.READY:
            self._set_health(number, Health.AWAY)
            state.probe_at = min(state.probe_at, now)

    def _ready(self, number: int, now: float) -> None:
        """The last probe is read back, and with it all that was written before it.

        A producer keeps the order of its records, so whatever is unresolved now was written after that probe.
        """
        state = self._partitions[number]
        state.probe_at = now + self.settings.probe_s
        if state.health is Health.READY:
            return
        replayed = state.health is Health.REPLAYING
        self._set_health(number, Health.READY)
        for key, entry in list(self._entries.items()):
            if self._number(key) == number:
                if replayed:
                    self._find_again(key, entry)
                self._want(key)
        self._write_wanted(number, now)

    def _set_health(self, number: int, health: Health) -> None:
        state = self._partitions[number]
        if state.health is not health:
            state.health = health
            self._outputs.append(HealthChanged(number, health))

    # -- what is read ------------------------------------------------------------------------------------------

    def _take_in(self, key: MemberKey, entry: Entry, stored: Stored, counts: bool, now: float) -> None:
        """A record of a member in which this replica takes an interest."""
        write = entry.write
        resolved = (
            write if write and stored.writer == self._writer and stored.record == write.record else None
        )
        if resolved is not None:
            self._drop_write(key, entry)
        if counts:
            entry.machine.handle(self._event_of(stored))
            if self._is_own_served(stored):
                self._serve(key, entry, resolved, now)
            else:
                self._stop_serving(key, entry, stored)
        elif resolved is not None:
            self._lost(key, entry)
        if write is None or resolved is not None:
            self._want(key)

    def _serve(self, key: MemberKey, entry: Entry, resolved: Write | None, now: float) -> None:
        self._begin_serving(key, entry)
        entry.tries = 0
        # Spread: those that were claimed together, after a restart, are not all written anew together.
        share = 0.5 + (crc32c.crc32c(key.member_id.encode()) & 0xFF) / 512
        entry.refresh_at = now + self.settings.refresh_s * share
        for connection, until in resolved.claims.items() if resolved is not None else ():
            claimed = entry.claims.get(connection)
            if claimed == until:
                del entry.claims[connection]
            if claimed is not None and until < math.inf:  # heard when it called, however long the record took
                heard_at = min(now, until - self.settings.wait_s)
                entry.confirmed[connection] = max(heard_at, entry.confirmed.get(connection, heard_at))
        self._outputs.append(Settled(key))

    def _begin_serving(self, key: MemberKey, entry: Entry) -> None:
        if not entry.served:
            entry.served = True
            self._outputs.append(Serving(key))

    def _stop_serving(self, key: MemberKey, entry: Entry, stored: Stored) -> None:
        """A record counts that is no ``served`` of ours."""
        kind = stored.record.kind
        own = stored.writer in self._own
        if entry.served and not own:
            self._outputs.append(Taken(key))
        elif entry.served and kind is Kind.EXPIRING:
            self._outputs.append(Expired(key))
        entry.served = entry.issued = entry.wants_expire = False
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
            self._outputs.append(Settled(key))

    def _lost(self, key: MemberKey, entry: Entry) -> None:
        """A record of ours is read back, and another counts."""
        present = self._partition(key).view.get(key)
        if entry.machine.seat in (
            Seat.CLAIMING,
            Seat.EXPIRING,
        ):  # it came too late, or what it saw is forgotten
            entry.machine.handle(self._event_of(present))
        entry.tries += 1
        if entry.tries >= self.settings.tries:
            entry.tries = 0
            entry.claims.clear()
            entry.wants_end = False
            entry.relay_until = 0.0
            self._outputs.append(Settled(key))

    def _give_up_seat(self, key: MemberKey, entry: Entry) -> None:
        """What was written will not count, or nobody knows: the seat is what counts makes it."""
        if entry.machine.seat in (Seat.CLAIMING, Seat.EXPIRING):
            entry.machine.handle(self._event_of(self._partition(key).view.get(key)))

    def _find_again(self, key: MemberKey, entry: Entry) -> None:
        """The partition has been replayed: see what counts for a member of before."""
        present = self._partition(key).view.get(key)
        if present is None:
            return
        entry.machine.handle(self._event_of(present))
        if self._is_own_served(present):
            self._begin_serving(key, entry)
            entry.refresh_at = 0.0  # on a log that has lost something, everything is confirmed anew
        else:
            self._stop_serving(key, entry, present)

    def _forget_old(self, state: Partition) -> None:
        for key in state.view.forget():
            entry = self._entries.get(key)
            if entry is not None and state.health is not Health.REPLAYING:
                if entry.write is None:
                    entry.machine.handle(SeatEvent.NOTHING_COUNTS)
                self._want(key)

    def _is_own_served(self, stored: Stored) -> bool:
        return stored.record.kind is Kind.SERVED and stored.writer in self._own

    def _event_of(self, present: Stored | None) -> SeatEvent:
        if present is None:
            return SeatEvent.NOTHING_COUNTS
        if present.record.kind is not Kind.SERVED:
            return _SEAT_EVENT[present.record.kind]
        return SeatEvent.OWN_SERVED_COUNTS if present.writer in self._own else SeatEvent.OTHER_SERVED_COUNTS

    # -- what is written ---------------------------------------------------------------------------------------

    def _want_claim(self, key: MemberKey, entry: Entry, connection: int, until: float) -> None:
        if connection not in entry.claims:
            entry.tries = 0
        entry.claims[connection] = until
        self._by_connection.setdefault(connection, set()).add(key)
        self._want(key)

    def _want(self, key: MemberKey) -> None:
        self._partition(key).wanting[key] = None

    def _write_wanted(self, number: int, now: float) -> None:
        """Write what is wanted, as fast as is allowed."""
        state = self._partitions[number]
        if state.health is not Health.READY or not state.wanting:
            return
        rate = self.settings.writes_per_s
        self._tokens = min(rate, self._tokens + (now - self._tokens_at) * rate)
        self._tokens_at = now
        while state.wanting and self._tokens >= 1:
            key = next(iter(state.wanting))
            del state.wanting[key]
            entry = self._entries.get(key)
            if entry is None or entry.write is not None:
                continue  # it is wanted again when that is read back
            kind = self._next_kind(entry, state.view.get(key), now)
            if kind is None:
                self._forget_if_idle(key, entry)
            else:
                self._tokens -= 1
                self._write(number, key, entry, kind, now)

    def _next_kind(self, entry: Entry, present: Stored | None, now: float) -> Kind | None:
        """What is to be written for a member of which nothing is unresolved, or None."""
        if present is not None and present.record.kind.is_dead:
            return Kind.ENDED if entry.wants_end and present.record.kind is Kind.EXPIRING else None
        if entry.wants_end:
            return Kind.ENDED
        for connection in [connection for connection, until in entry.claims.items() if until <= now]:
            del entry.claims[connection]  # its call was answered without us
        if entry.claims or (entry.served and present is None):
            return Kind.SERVED
        if entry.relay_until > now:
            return Kind.RELAYED
        entry.relay_until = 0.0
        if present is None or not self._is_own_served(present):
            entry.wants_expire = False
            return None
        if entry.wants_expire:
            return Kind.EXPIRING
        return Kind.SERVED if entry.refresh_at <= now else None

    def _write(self, number: int, key: MemberKey, entry: Entry, kind: Kind, now: float) -> None:
        stamp = self._partitions[number].view.stamp(key)
        record = MemberRecord(
            kind,
            *stamp,
            server=shortened(self.settings.server),
            instance_id=None if entry.terms.instance_id is None else shortened(entry.terms.instance_id),
            session_timeout_ms=entry.terms.session_timeout_ms,
            rebalance_timeout_ms=entry.terms.rebalance_timeout_ms,
        )
        entry.write = Write(record, dict(entry.claims), now)
        self._unresolved[key] = None
        if kind is Kind.SERVED and entry.machine.seat is not Seat.CLAIMING:
            entry.machine.handle(SeatEvent.CLAIM_WRITTEN)
        elif kind is Kind.EXPIRING:
            entry.machine.handle(SeatEvent.EXPIRING_WRITTEN)
        if kind is not Kind.SERVED:
            # From now on the id may be dead or relayed, also if the outcome of this write is never known.
            entry.confirmed.clear()
        self._outputs.append(
            WriteRecord(number, encode_key(key, self._writer), encode_value(record), self._writer)
        )

    def _drop_write(self, key: MemberKey, entry: Entry) -> None:
        entry.write = None
        self._unresolved.pop(key, None)

    # -- members -----------------------------------------------------------------------------------------------

    def _number(self, key: MemberKey) -> int:
        return partition_of(key, self.settings.partitions)

    def _partition(self, key: MemberKey) -> Partition:
        return self._partitions[self._number(key)]

    def _entry(self, key: MemberKey, present: Stored | None) -> Entry:
        """The entry of a member, made if it has none: with the terms and the seat of the record that counts."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(Terms() if present is None else terms_of(present.record))
            if present is not None and self._partition(key).health is not Health.REPLAYING:
                entry.machine.handle(self._event_of(present))
        return entry

    def _forget_if_idle(self, key: MemberKey, entry: Entry) -> None:
        if entry.is_idle:
            del self._entries[key]
            for connection in (*entry.claims, *entry.confirmed):
                keys = self._by_connection.get(connection, set())
                keys.discard(key)
                if not keys:
                    self._by_connection.pop(connection, None)

    def _is_confirmed(self, entry: Entry, connection: int, now: float) -> bool:
        """Whether a call on this connection may be served without asking the log.

        A client that was silent here for half of its session may have been at another replica meanwhile, also if this
        connection stayed open.
        """
        heard_at = entry.confirmed.get(connection)
        return heard_at is not None and (now - heard_at) * 2000 < entry.terms.session_timeout_ms
