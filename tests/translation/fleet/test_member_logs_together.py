"""Two to four member logs on one simulated log, under faults (:mod:`tests.translation.fleet.replicas`).

``python -m tests.translation.fleet.test_member_logs_together 0 10000`` plays more seeds (25 a second).
"""

import sys
from typing import Any

import pytest

from tests.translation.fleet.replicas import plays
from translation.fleet.entries import Entry, Write
from translation.fleet.member_log import MemberLog
from translation.fleet.outputs import Expired, Health, Taken, Terms, Verdict
from translation.fleet.records import MemberKey


@pytest.mark.parametrize("block", range(4))
def test_nobody_is_expired_who_was_heard_and_all_agree_and_settle(block: int) -> None:
    failed = {seed: story for seed in range(block * 50, block * 50 + 50) if (story := plays(seed))}
    assert not failed


class ServesAnUnconfirmedConnection(MemberLog):
    def _is_confirmed(self, entry: Entry, connection: int, now: float) -> bool:
        return entry.served


class NeverLapses(MemberLog):
    def _is_confirmed(self, entry: Entry, connection: int, now: float) -> bool:
        return connection in entry.confirmed


class ConfirmsClaimsThatCameAfterTheWrite(MemberLog):
    def _serve(self, key: MemberKey, entry: Entry, resolved: Write | None, now: float) -> None:
        if resolved is not None:
            resolved.claims = dict(entry.claims)
        super()._serve(key, entry, resolved, now)


class ExpiresAtOnce(MemberLog):
    def expire(self, key: MemberKey, now: float) -> bool:
        self._outputs.append(Expired(key))
        return True


class ExpiresWhatItLost(MemberLog):
    def outputs(self) -> list[Any]:
        return [Expired(output.key) if isinstance(output, Taken) else output for output in super().outputs()]


class ExpiresWhoCameBack(MemberLog):
    def claim(
        self, key: MemberKey, connection: int, now: float, terms: Terms | None = None, *, issued: bool = False
    ) -> Verdict:
        entry = self._entries.get(key)
        expires = entry is not None and entry.wants_expire
        verdict = super().claim(key, connection, now, terms, issued=issued)
        if entry is not None:
            entry.wants_expire = expires
        return verdict


class WritesBeforeTheFirstIsReadBack(MemberLog):
    def _want_claim(self, key: MemberKey, entry: Entry, connection: int, until: float) -> None:
        self._drop_write(key, entry)
        super()._want_claim(key, entry, connection, until)


class WritesWhileAway(MemberLog):
    def _write_wanted(self, number: int, now: float) -> None:
        state = self._partitions[number]
        health = state.health
        state.health = Health.READY if health is Health.AWAY else health
        super()._write_wanted(number, now)
        state.health = health


class ServesADeadId(MemberLog):
    def verdict(self, key: MemberKey, connection: int, now: float) -> Verdict:
        verdict = super().verdict(key, connection, now)
        return Verdict.SERVE if verdict is Verdict.GONE else verdict


class ForgetsALateServed(MemberLog):
    def _begin_serving(self, key: MemberKey, entry: Entry) -> None:
        entry.served = True


MUTATIONS = [
    ServesAnUnconfirmedConnection,
    NeverLapses,
    ConfirmsClaimsThatCameAfterTheWrite,
    ExpiresAtOnce,
    ExpiresWhatItLost,
    ExpiresWhoCameBack,
    WritesBeforeTheFirstIsReadBack,
    WritesWhileAway,
    ServesADeadId,
    ForgetsALateServed,
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_each_rule_is_needed(mutation: type[MemberLog]) -> None:
    assert any(plays(seed, mutation) for seed in range(200))


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    found = {seed: story for seed in range(first, last) if (story := plays(seed))}
    sys.exit(f"{len(found)} of {last - first} seeds failed: {dict(list(found.items())[:5])}" if found else 0)
