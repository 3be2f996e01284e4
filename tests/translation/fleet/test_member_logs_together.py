"""Two to four member logs on one simulated log, under faults (:mod:`tests.translation.fleet.replicas`).

``python -m tests.translation.fleet.test_member_logs_together 0 10000`` plays more seeds (25 a second).
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from tests.translation.fleet.replicas import plays
from translation.fleet.confirmation import Confirmations
from translation.fleet.entries import Entry, Write
from translation.fleet.member_log import MemberLog
from translation.fleet.outputs import Expired, Health, Taken, Verdict
from translation.fleet.record_reader import RecordReader
from translation.fleet.records import MemberKey
from translation.fleet.write_queue import WriteQueue


@pytest.mark.parametrize("block", range(4))
def test_nobody_is_expired_who_was_heard_and_all_agree_and_settle(block: int) -> None:
    failed = {seed: story for seed in range(block * 50, block * 50 + 50) if (story := plays(seed))}
    assert not failed


def serve_on_an_unconfirmed_connection() -> AbstractContextManager[Any]:
    def broken(self: Confirmations, entry: Entry, connection: int, now: float) -> bool:
        return entry.served

    return patch.object(Confirmations, "is_confirmed", broken)


def never_lapse() -> AbstractContextManager[Any]:
    def broken(self: Confirmations, entry: Entry, connection: int, now: float) -> bool:
        return connection in entry.confirmed

    return patch.object(Confirmations, "is_confirmed", broken)


def confirm_claims_that_came_after_the_write() -> AbstractContextManager[Any]:
    settle = Confirmations.settle

    def broken(self: Confirmations, entry: Entry, write: Write, now: float) -> None:
        write.claims = dict(entry.claims)
        settle(self, entry, write, now)

    return patch.object(Confirmations, "settle", broken)


def expire_at_once() -> AbstractContextManager[Any]:
    def broken(self: MemberLog, key: MemberKey, now: float) -> bool:
        self._members.outputs.append(Expired(key))
        return True

    return patch.object(MemberLog, "expire", broken)


def expire_what_was_lost() -> AbstractContextManager[Any]:
    outputs = MemberLog.outputs

    def broken(self: MemberLog) -> list[Any]:
        return [Expired(output.key) if isinstance(output, Taken) else output for output in outputs(self)]

    return patch.object(MemberLog, "outputs", broken)


def expire_who_came_back() -> AbstractContextManager[Any]:
    claim = MemberLog.claim

    def broken(self: MemberLog, key: MemberKey, *args: Any, **options: Any) -> Verdict:
        entry = self._members.entries.get(key)
        expires = entry is not None and entry.wants_expire
        verdict = claim(self, key, *args, **options)
        if entry is not None:
            entry.wants_expire = expires
        return verdict

    return patch.object(MemberLog, "claim", broken)


def write_before_the_first_is_read_back() -> AbstractContextManager[Any]:
    write_wanted = WriteQueue.write_wanted

    def broken(self: WriteQueue, number: int, now: float) -> None:
        for key in self._members.partitions[number].wanting:
            entry = self._members.entries.get(key)
            if entry is not None and entry.claims:
                self.resolve(key, entry)
        write_wanted(self, number, now)

    return patch.object(WriteQueue, "write_wanted", broken)


def write_while_away() -> AbstractContextManager[Any]:
    write_wanted = WriteQueue.write_wanted

    def broken(self: WriteQueue, number: int, now: float) -> None:
        state = self._members.partitions[number]
        health = state.health
        state.health = Health.READY if health is Health.AWAY else health
        write_wanted(self, number, now)
        state.health = health

    return patch.object(WriteQueue, "write_wanted", broken)


def serve_a_dead_id() -> AbstractContextManager[Any]:
    verdict = MemberLog.verdict

    def broken(self: MemberLog, key: MemberKey, connection: int, now: float) -> Verdict:
        found = verdict(self, key, connection, now)
        return Verdict.SERVE if found is Verdict.GONE else found

    return patch.object(MemberLog, "verdict", broken)


def forget_a_late_served() -> AbstractContextManager[Any]:
    def broken(self: RecordReader, key: MemberKey, entry: Entry) -> None:
        entry.served = True

    return patch.object(RecordReader, "_begin_serving", broken)


MUTATIONS = [
    serve_on_an_unconfirmed_connection,
    never_lapse,
    confirm_claims_that_came_after_the_write,
    expire_at_once,
    expire_what_was_lost,
    expire_who_came_back,
    write_before_the_first_is_read_back,
    write_while_away,
    serve_a_dead_id,
    forget_a_late_served,
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_each_rule_is_needed(mutation: Callable[[], AbstractContextManager[Any]]) -> None:
    with mutation():
        assert any(plays(seed) for seed in range(200))


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    found = {seed: story for seed in range(first, last) if (story := plays(seed))}
    sys.exit(f"{len(found)} of {last - first} seeds failed: {dict(list(found.items())[:5])}" if found else 0)
