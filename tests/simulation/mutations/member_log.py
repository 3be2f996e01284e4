"""Mutations of the member log at one replica: which record counts, what is confirmed by it, and what is written."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from translation.member_log import counting
from translation.member_log.confirmation import Confirmations
from translation.member_log.entries import Entry, Write
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import Expired, Health, ServeDecision, Taken
from translation.member_log.partition_health import PartitionHealth
from translation.member_log.record_reader import RecordReader
from translation.member_log.records import Kind, MemberKey, Writer
from translation.member_log.write_queue import WriteQueue

# -- which record counts ------------------------------------------------------------------------------------------


def let_whatever_is_read_count() -> AbstractContextManager[Any]:
    """A record of a member counts as soon as it is read, also if its writer had not seen the one before."""
    return patch.object(counting, "counts", lambda *_: True)


def trust_the_log_before_a_probe_is_read_back() -> AbstractContextManager[Any]:
    """A log that was away is ready when any probe is read back, although older records of ours may follow."""

    def broken(self: PartitionHealth, number: int, writer: Writer, now: float) -> None:
        state = self._members.partitions[number]
        state.probes = 0
        if state.is_replayed:
            self._set_ready(number, now)

    return patch.object(PartitionHealth, "read_probe", broken)


# -- confirmed connections ----------------------------------------------------------------------------------------


def serve_on_an_unconfirmed_connection() -> AbstractContextManager[Any]:
    """A member that is served here is served on every connection, although another replica may have it by now."""

    def broken(self: Confirmations, entry: Entry, connection: int, now: float) -> bool:
        return entry.served

    return patch.object(Confirmations, "is_confirmed", broken)


def serve_before_the_record_is_read_back() -> AbstractContextManager[Any]:
    """A member is served as soon as its claim is written."""
    claim = MemberLog.claim

    def broken(
        self: MemberLog, key: MemberKey, connection: int, now: float, *args: Any, **options: Any
    ) -> ServeDecision:
        verdict = claim(self, key, connection, now, *args, **options)
        if verdict is ServeDecision.PENDING:
            entry = self._members.entries[key]
            entry.served = True
            entry.confirmed[connection] = now
            return ServeDecision.SERVE
        return verdict

    return patch.object(MemberLog, "claim", broken)


def never_lapse() -> AbstractContextManager[Any]:
    """A connection stays confirmed, however long its client was silent there."""

    def broken(self: Confirmations, entry: Entry, connection: int, now: float) -> bool:
        return connection in entry.confirmed

    return patch.object(Confirmations, "is_confirmed", broken)


def wait_for_what_was_skipped() -> AbstractContextManager[Any]:
    """A record that was skipped when it was read is waited for until the process ends."""
    return patch.object(PartitionHealth, "_give_up_before", lambda *_: None)


def confirm_claims_that_came_after_the_write() -> AbstractContextManager[Any]:
    """A record confirms connections on which the member was claimed after it was written."""
    settle = Confirmations.settle

    def broken(self: Confirmations, entry: Entry, write: Write, now: float) -> None:
        write.claims = dict(entry.claims)
        settle(self, entry, write, now)

    return patch.object(Confirmations, "settle", broken)


def confirm_as_of_the_reading() -> AbstractContextManager[Any]:
    """A connection is confirmed as of the moment at which its record is read back, which may be a minute later."""

    def broken(self: Confirmations, entry: Entry, write: Write, now: float) -> None:
        for connection in write.claims:
            claimed = entry.claims.get(connection)
            if claimed is not None and claimed < math.inf:
                entry.confirmed[connection] = now
            if claimed == write.claims[connection]:
                del entry.claims[connection]

    return patch.object(Confirmations, "settle", broken)


def keep_connections_confirmed_while_the_end_is_written() -> AbstractContextManager[Any]:
    """Connections stay confirmed when `expiring` is written for their member."""
    write = WriteQueue._write

    def broken(self: WriteQueue, number: int, key: MemberKey, entry: Entry, kind: Kind, now: float) -> None:
        confirmed = dict(entry.confirmed)
        write(self, number, key, entry, kind, now)
        entry.confirmed.update(confirmed)

    return patch.object(WriteQueue, "_write", broken)


# -- ends -----------------------------------------------------------------------------------------------------------


def expire_at_once() -> AbstractContextManager[Any]:
    """The membership of a silent client ends without a word to the log."""

    def broken(self: MemberLog, key: MemberKey, now: float) -> bool:
        self._members.outputs.append(Expired(key))
        return True

    return patch.object(MemberLog, "expire", broken)


def expire_what_was_lost() -> AbstractContextManager[Any]:
    """A member that another replica has taken over is ended at the broker."""
    outputs = MemberLog.outputs

    def broken(self: MemberLog) -> list[Any]:
        return [Expired(output.key) if isinstance(output, Taken) else output for output in outputs(self)]

    return patch.object(MemberLog, "outputs", broken)


def expire_who_came_back() -> AbstractContextManager[Any]:
    """A deadline that passed while the log was away counts, although the client has called since."""
    claim = MemberLog.claim

    def broken(self: MemberLog, key: MemberKey, *args: Any, **options: Any) -> ServeDecision:
        entry = self._members.entries.get(key)
        expires = entry is not None and entry.wants_expire
        verdict = claim(self, key, *args, **options)
        if entry is not None:
            entry.wants_expire = expires
        return verdict

    return patch.object(MemberLog, "claim", broken)


def serve_a_dead_id() -> AbstractContextManager[Any]:
    """A member whose id the log says to be dead is served."""
    verdict = MemberLog.verdict

    def broken(self: MemberLog, key: MemberKey, connection: int, now: float) -> ServeDecision:
        found = verdict(self, key, connection, now)
        return ServeDecision.SERVE if found is ServeDecision.GONE else found

    return patch.object(MemberLog, "verdict", broken)


def expire_before_all_replicas_write_the_log() -> AbstractContextManager[Any]:
    """Silent clients are ended also while `expires` is off, so that other replicas may not know of the log."""
    expire = MemberLog.expire

    def broken(self: MemberLog, key: MemberKey, now: float) -> bool:
        with patch.object(type(self.settings), "expires", new=True):
            return expire(self, key, now)

    return patch.object(MemberLog, "expire", broken)


# -- writing --------------------------------------------------------------------------------------------------------


def write_before_the_first_is_read_back() -> AbstractContextManager[Any]:
    """A second record of a member is written before the first is read back."""
    write_wanted = WriteQueue.write_wanted

    def broken(self: WriteQueue, number: int, now: float) -> None:
        for key in self._members.partitions[number].wanting:
            entry = self._members.entries.get(key)
            if entry is not None and entry.claims:
                self.resolve(key, entry)
        write_wanted(self, number, now)

    return patch.object(WriteQueue, "write_wanted", broken)


def write_while_away() -> AbstractContextManager[Any]:
    """Records of members are written while the log is away."""
    write_wanted = WriteQueue.write_wanted

    def broken(self: WriteQueue, number: int, now: float) -> None:
        state = self._members.partitions[number]
        health = state.health
        state.health = Health.READY if health is Health.AWAY else health
        write_wanted(self, number, now)
        state.health = health

    return patch.object(WriteQueue, "write_wanted", broken)


def serve_whom_nobody_has_confirmed_while_away() -> AbstractContextManager[Any]:
    """While the log is away every member is served, also one that another replica has."""
    verdict = MemberLog.verdict

    def broken(self: MemberLog, key: MemberKey, connection: int, now: float) -> ServeDecision:
        is_away = self._members.partition(key).health is Health.AWAY
        found = verdict(self, key, connection, now)
        return ServeDecision.SERVE if is_away and found is ServeDecision.UNAVAILABLE else found

    return patch.object(MemberLog, "verdict", broken)


@contextmanager
def refuse_everybody_while_away() -> Iterator[None]:
    """While the log is away nobody is served, on confirmed connections either."""
    claim, verdict = MemberLog.claim, MemberLog.verdict

    def is_away(self: MemberLog, key: MemberKey) -> bool:
        return self._members.partition(key).health is Health.AWAY

    def broken_claim(self: MemberLog, key: MemberKey, *args: Any, **options: Any) -> ServeDecision:
        return ServeDecision.UNAVAILABLE if is_away(self, key) else claim(self, key, *args, **options)

    def broken_verdict(self: MemberLog, key: MemberKey, *args: Any) -> ServeDecision:
        return ServeDecision.UNAVAILABLE if is_away(self, key) else verdict(self, key, *args)

    with (
        patch.object(MemberLog, "claim", broken_claim),
        patch.object(MemberLog, "verdict", broken_verdict),
    ):
        yield


def forget_a_late_served() -> AbstractContextManager[Any]:
    """Nobody is told that a member is served here when its claim counts, so no timeout of it runs."""

    def broken(self: RecordReader, key: MemberKey, entry: Entry) -> None:
        entry.served = True

    return patch.object(RecordReader, "_begin_serving", broken)


def renew_what_is_not_served_here() -> AbstractContextManager[Any]:
    """The record of a member that is forgotten here is written anew as long as the process runs."""
    return patch.object(MemberLog, "release", lambda *_: None)


def keep_the_generation_to_oneself() -> AbstractContextManager[Any]:
    """The log does not say with which generation a client synced."""
    return patch.object(MemberLog, "synced", lambda *_: None)


def end_what_has_begun_anew() -> AbstractContextManager[Any]:
    """The end of a membership is written although another has begun under its id."""
    return patch.object(MemberLog, "begun", lambda *_: None)


def let_anybody_fill_the_log() -> AbstractContextManager[Any]:
    """A group may have any number of dead member ids in the log."""
    return patch.object(MemberLog, "_has_too_many_ids", lambda *_: False)
