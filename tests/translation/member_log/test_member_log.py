"""One member log by hand: what it writes, and what it says when records are read."""

from collections.abc import Callable

import pytest

from translation.member_log.counting import FORGET_DEAD_MS, FORGET_MS, Stored
from translation.member_log.formats import FORMATS
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import (
    Expired,
    Health,
    HealthChanged,
    JoinTerms,
    OtherRecordCounts,
    Output,
    ServeDecision,
    Serving,
    Settled,
    Taken,
    WriteRecord,
)
from translation.member_log.ownership import Ownership
from translation.member_log.records import (
    PROBE,
    Kind,
    MemberKey,
    MemberRecord,
    Writer,
    decode_key,
    member_key,
    partition_of,
)
from translation.member_log.settings import FleetSettings

KEY = member_key("payments", "epochgate-1")
OURS, THEIRS = Writer(b"ours"), Writer(b"theirs")
A, B = 1, 2
"""Connections."""


class Bench:
    """A member log of one partition, and the partition."""

    def __init__(self, **settings: object) -> None:
        self.now = 100.0
        self.offset = 10
        self.writer = OURS
        self.log = MemberLog(FleetSettings(partitions=1, server="pod-0", **settings), OURS, self.now)  # type: ignore[arg-type]
        self.said: list[Output] = []
        self.written: list[MemberRecord] = []
        self.bytes_written: list[bytes] = []
        self.probes = 0
        self.log.replay_to(0, self.offset, self.now)
        self.log.read_to(0, self.offset, self.now)
        self.take()

    def take(self) -> None:
        for output in self.log.outputs():
            if isinstance(output, WriteRecord):
                assert decode_key(output.key)[1] == self.writer
                if output.value is None:
                    self.probes += 1
                else:
                    self.written.append(FORMATS[output.format].decode(output.value))
                    self.bytes_written.append(output.value)
            else:
                self.said.append(output)

    def heard(self) -> list[Output]:
        """What was said since this was asked for."""
        self.take()
        said, self.said = self.said, []
        return said

    def ready(self) -> "Bench":
        """All probes are read back."""
        self.take()
        while self.probes:
            self.probes -= 1
            self.log.read_probe(0, self.writer, self.offset, int(self.now * 1000), self.now)
            self.offset += 1
            self.take()
        assert self.log.health(0) is Health.READY
        self.said.clear()
        return self

    def claim(
        self, connection: int = A, terms: JoinTerms | None = None, *, issued: bool = False
    ) -> ServeDecision:
        verdict = self.log.claim(KEY, connection, self.now, terms, issued=issued)
        self.take()
        return verdict

    def verdict(self, connection: int = A) -> ServeDecision:
        return self.log.verdict(KEY, connection, self.now)

    def read(self, record: MemberRecord, writer: Writer, key: MemberKey = KEY) -> None:
        self.log.read(0, key, Stored(self.offset, int(self.now * 1000), writer, record), self.now)
        self.offset += 1
        self.take()

    def read_back(self, writer: Writer | None = None) -> MemberRecord:
        """The oldest record of ours that is not read back."""
        record = self.written.pop(0)
        self.read(record, writer or self.writer)
        return record

    def other(self, kind: Kind, *, stale: bool = False) -> None:
        """Another's record is read, written by one who had read what we have."""
        present = self.log._members.partitions[0].view.get(KEY)
        version = self.offset if present is None else present.offset + 1
        self.read(MemberRecord(kind, version - stale, first=present is None), THEIRS)

    def served(self) -> "Bench":
        assert self.claim() is ServeDecision.PENDING
        self.read_back()
        assert self.verdict() is ServeDecision.SERVE
        self.said.clear()
        return self

    def expiring(self) -> "Bench":
        self.served()
        assert self.log.expire(KEY, self.now)
        self.take()
        assert self.ownership is Ownership.EXPIRING
        return self

    @property
    def ownership(self) -> Ownership:
        return self.log.ownership(KEY)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.log.handle_time(self.now)
        self.take()


@pytest.fixture
def bench() -> Bench:
    return Bench().ready()


# -- claims ------------------------------------------------------------------------------------------------------


def test_a_claim_waits_until_it_is_read_back(bench: Bench) -> None:
    assert bench.claim(terms=JoinTerms(10_000, 60_000, "static-1")) is ServeDecision.PENDING
    assert bench.ownership is Ownership.CLAIMING
    assert not bench.log.may_speak_for(KEY)
    record = bench.read_back()
    assert record == MemberRecord(Kind.SERVED, 11, True, "pod-0", "static-1", 10_000, 60_000)  # noqa: FBT003
    assert bench.heard() == [Serving(KEY), Settled(KEY)]
    assert bench.ownership is Ownership.SERVING
    assert bench.claim() is ServeDecision.SERVE
    assert bench.log.may_speak_for(KEY)
    assert not bench.written


def test_ids_that_are_not_known_are_not_claimed_in_a_group_with_too_many_dead_ones() -> None:
    """Whoever may read the group can make them, and all replicas keep each for an hour."""
    bench = Bench(dead_ids=2).ready().served()
    ids = [member_key("payments", f"made-up-{number}") for number in range(4)]
    for key in ids[:3]:
        assert bench.log.claim(key, B, bench.now, issued=True) is ServeDecision.SERVE
        bench.read(MemberRecord(Kind.ENDED, bench.offset + 1), THEIRS, key)
    # Three are dead and one lives.
    assert bench.log.claim(ids[3], B, bench.now) is ServeDecision.UNAVAILABLE
    assert bench.log.claim(ids[3], B, bench.now, issued=True) is ServeDecision.UNAVAILABLE
    assert bench.log.claims_refused == 2
    assert bench.claim(B) is ServeDecision.PENDING, "a member that is known goes on"
    assert bench.log.claim(member_key("another", "id"), B, bench.now) is ServeDecision.PENDING
    # They are forgotten.
    bench.now += FORGET_DEAD_MS / 1000 + 1
    bench.read(MemberRecord(Kind.SERVED, bench.offset, first=True), THEIRS, member_key("another", "2"))
    assert bench.log.claim(ids[3], B, bench.now, issued=True) is ServeDecision.SERVE


def test_an_id_that_was_claimed_before_there_were_too_many_goes_on() -> None:
    bench = Bench(dead_ids=1).ready()
    assert bench.log.claim(KEY, A, bench.now, issued=True) is ServeDecision.SERVE
    for number in range(3):
        bench.read(
            MemberRecord(Kind.ENDED, bench.offset, first=True), THEIRS, member_key("payments", f"{number}")
        )
    assert bench.claim(A) is ServeDecision.SERVE
    assert bench.claim(B) is ServeDecision.PENDING


def test_a_member_whose_claim_is_confirmed_changes_nothing(bench: Bench) -> None:
    """So nothing has to be carried out after each of its calls."""
    bench.served()
    assert bench.claim() is ServeDecision.SERVE
    assert not bench.log.has_changed
    assert bench.log.claim(KEY, B, bench.now) is ServeDecision.PENDING
    assert bench.log.has_changed
    bench.take()
    assert not bench.log.has_changed
    assert bench.log.oldest_unresolved_s(bench.now + 3) == 3
    bench.read_back()
    assert bench.log.oldest_unresolved_s(bench.now + 3) == 0


def test_a_new_connection_at_its_own_server_is_confirmed_by_another_record(bench: Bench) -> None:
    bench.served()
    assert bench.claim(B) is ServeDecision.PENDING
    assert bench.claim(A) is ServeDecision.SERVE
    assert bench.ownership is Ownership.CLAIMING
    assert bench.log.may_speak_for(KEY)
    bench.read_back()
    assert bench.heard() == [Settled(KEY)]
    assert bench.verdict(B) is ServeDecision.SERVE


def test_a_claim_that_came_after_the_record_was_written_is_not_settled_by_it(bench: Bench) -> None:
    """The client may have been elsewhere in between: another's record may lie behind ours."""
    bench.claim(A)
    assert bench.claim(B) is ServeDecision.PENDING
    assert len(bench.written) == 1
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.SERVE
    assert bench.verdict(B) is ServeDecision.PENDING
    bench.read_back()
    assert bench.verdict(B) is ServeDecision.SERVE


def test_a_later_call_on_the_same_connection_is_not_settled_by_it_either(bench: Bench) -> None:
    bench.claim(A)
    bench.now += 30.0  # half a session and more
    bench.claim(A)
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.PENDING
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.SERVE


def test_a_connection_whose_call_was_answered_meanwhile_is_confirmed_all_the_same(bench: Bench) -> None:
    bench.claim(A)
    bench.now += 2.1
    assert bench.verdict(A) is ServeDecision.UNAVAILABLE
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.SERVE
    bench.now += 20.5  # half a session after the call, not after the record
    assert bench.verdict(A) is ServeDecision.UNAVAILABLE


def test_a_connection_that_closed_is_not_confirmed(bench: Bench) -> None:
    bench.claim(A)
    bench.log.withdraw_confirmations(A)
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.UNAVAILABLE
    assert bench.ownership is Ownership.SERVING  # and its session timeout runs
    assert Serving(KEY) in bench.heard()


def test_who_loses_a_claim_writes_it_again_while_a_call_waits(bench: Bench) -> None:
    bench.claim()
    bench.other(Kind.SERVED)
    assert bench.ownership is Ownership.ELSEWHERE
    assert bench.heard() == [OtherRecordCounts(KEY)]  # nothing was served here
    bench.read_back()
    assert bench.ownership is Ownership.CLAIMING
    assert bench.read_back().version == 12
    assert bench.verdict() is ServeDecision.SERVE


def test_a_claim_that_loses_four_times_is_given_up(bench: Bench) -> None:
    bench.claim()
    for _ in range(4):
        bench.other(Kind.SERVED)
        bench.read_back()
    assert not bench.written
    assert [one for one in bench.heard() if one != OtherRecordCounts(KEY)] == [Settled(KEY)]
    assert bench.verdict() is ServeDecision.UNAVAILABLE
    assert bench.ownership is Ownership.ELSEWHERE


def test_a_record_that_is_skipped_when_it_is_read_is_given_up_once_a_later_probe_is_read(
    bench: Bench,
) -> None:
    """The topic had another timestamp type for a while: all replicas skip what was written then."""
    bench.claim()
    bench.written.clear()
    bench.offset += 1
    bench.now += FleetSettings().wait_s
    bench.log.handle_time(bench.now)
    assert bench.log.health(0) is Health.AWAY
    bench.ready()
    bench.claim()  # its client tries again
    assert bench.written, "nothing stands before it"
    assert bench.read_back().kind is Kind.SERVED
    assert bench.log.unresolved() == 0
    bench.log.handle_time(bench.now + FleetSettings().wait_s)
    assert bench.log.health(0) is Health.READY


def test_who_was_released_while_the_topic_had_a_wrong_setting_is_expired_when_that_is_over(
    bench: Bench,
) -> None:
    bench.served()
    bench.log.pause_expiry(bench.now, is_paused=True)
    assert not bench.log.expire(KEY, bench.now)
    bench.log.release(KEY)
    bench.take()
    assert not bench.written
    bench.log.pause_expiry(bench.now, is_paused=False)
    bench.take()
    assert bench.read_back().kind is Kind.EXPIRING
    assert bench.heard() == [Expired(KEY), Settled(KEY)]


def test_whom_another_replica_has_served_since_is_not_expired(bench: Bench) -> None:
    bench.served()
    bench.log.pause_expiry(bench.now, is_paused=True)
    bench.log.release(KEY)
    bench.other(Kind.SERVED)
    bench.log.pause_expiry(bench.now, is_paused=False)
    bench.take()
    assert not bench.written


def test_a_heartbeat_that_claims_a_member_keeps_what_its_join_group_elsewhere_asked_for(bench: Bench) -> None:
    """Also if that was not written yet when the Heartbeat came: else a dead client has 45 s."""
    bench.claim()
    bench.read(MemberRecord(Kind.SERVED, bench.offset, first=True, session_timeout_ms=6_000), THEIRS)
    bench.read_back()
    assert bench.written.pop().session_timeout_ms == 6_000


def test_a_join_group_that_waits_keeps_its_own_terms(bench: Bench) -> None:
    bench.claim(terms=JoinTerms(10_000, 60_000))
    bench.read(MemberRecord(Kind.SERVED, bench.offset, first=True, session_timeout_ms=6_000), THEIRS)
    bench.read_back()
    assert bench.written.pop().session_timeout_ms == 10_000


def test_a_join_group_keeps_its_own_terms_when_another_takes_the_member_that_was_served_here(
    bench: Bench,
) -> None:
    bench.claim(terms=JoinTerms(6_000, 60_000))
    bench.read_back()
    bench.claim(B, terms=JoinTerms(10_000, 60_000))
    bench.read(MemberRecord(Kind.SERVED, bench.offset, session_timeout_ms=6_000), THEIRS)
    bench.read_back()
    assert bench.read_back().session_timeout_ms == 10_000
    assert bench.verdict(B) is ServeDecision.SERVE


def test_what_a_join_group_without_a_verdict_asked_for_is_not_written_for_a_later_heartbeat(
    bench: Bench,
) -> None:
    bench.claim(terms=JoinTerms(10_000, 60_000))
    bench.log.withdraw_confirmations(A)  # its client has gone on elsewhere
    bench.read(MemberRecord(Kind.SERVED, bench.offset, first=True, session_timeout_ms=6_000), THEIRS)
    bench.claim(B)
    bench.read_back()
    assert bench.written.pop().session_timeout_ms == 6_000


def test_by_whom_nobody_is_expired_nobody_is_remembered_to_have_been_released() -> None:
    bench = Bench(expires=False).ready().served()
    bench.log.pause_expiry(bench.now, is_paused=True)
    bench.log.release(KEY)
    bench.log.pause_expiry(bench.now, is_paused=False)
    bench.take()
    assert not bench.written


def test_nobody_waits_any_more_for_a_claim_that_lost(bench: Bench) -> None:
    bench.claim()
    bench.other(Kind.SERVED)
    bench.now += 3.0
    bench.read_back()
    assert not bench.written
    assert KEY not in bench.log._members.entries


def test_an_issued_id_does_not_wait_and_is_taken_by_whoever_else_claims_it(bench: Bench) -> None:
    assert bench.claim(issued=True) is ServeDecision.SERVE
    assert bench.log.may_speak_for(KEY)
    assert bench.claim() is ServeDecision.SERVE
    bench.other(Kind.SERVED)
    assert bench.heard() == [Taken(KEY), OtherRecordCounts(KEY)]
    assert not bench.log.may_speak_for(KEY)


def test_the_record_of_an_issued_id_renews_nothing_when_it_is_late(bench: Bench) -> None:
    bench.claim(issued=True)
    bench.now += 30.0
    bench.read_back()
    assert bench.verdict() is ServeDecision.UNAVAILABLE


def test_a_confirmed_connection_lapses_after_half_a_session_of_silence(bench: Bench) -> None:
    bench.claim(terms=JoinTerms(10_000))
    bench.read_back()
    bench.now += 4.9
    assert bench.claim() is ServeDecision.SERVE
    bench.now += 5.0
    assert bench.claim() is ServeDecision.PENDING
    bench.read_back()
    bench.now += 60.0
    bench.log.heard(KEY, A, bench.now)  # a JoinGroup waited all the time
    assert bench.claim() is ServeDecision.SERVE


def test_terms_that_change_are_written_and_nobody_waits(bench: Bench) -> None:
    bench.served()
    assert bench.claim(terms=JoinTerms(10_000)) is ServeDecision.SERVE
    assert bench.written[0].session_timeout_ms == 10_000


def test_who_takes_a_member_over_keeps_its_timeouts(bench: Bench) -> None:
    bench.read(MemberRecord(Kind.SERVED, 9, session_timeout_ms=6_000, instance_id="s"), THEIRS)
    bench.claim()
    record = bench.read_back()
    assert (record.session_timeout_ms, record.instance_id) == (6_000, "s")
    assert bench.log.record(KEY) == record


def test_a_relayed_id_can_be_claimed_back(bench: Bench) -> None:
    bench.other(Kind.RELAYED)
    assert bench.verdict() is ServeDecision.RELAYED
    assert bench.claim() is ServeDecision.PENDING
    assert bench.ownership is Ownership.CLAIMING
    bench.read_back()
    assert bench.ownership is Ownership.SERVING


# -- expiry ------------------------------------------------------------------------------------------------------


def test_epoch_minus_1_is_allowed_only_when_our_expiring_counts(bench: Bench) -> None:
    bench.expiring()
    assert not bench.log.may_keep_alive(KEY)
    assert not bench.log.may_speak_for(KEY)
    assert bench.heard() == []
    bench.read_back()
    assert bench.heard() == [Expired(KEY), Settled(KEY)]
    assert bench.ownership is Ownership.EXPIRED
    assert bench.claim() is ServeDecision.GONE
    bench.log.end(KEY, bench.now)
    bench.take()
    assert bench.read_back().kind is Kind.ENDED
    assert bench.ownership is Ownership.ENDED
    assert bench.claim() is ServeDecision.GONE
    assert bench.log.relay(KEY, bench.now) is ServeDecision.GONE
    assert KEY not in bench.log._members.entries


@pytest.mark.parametrize(
    ("kind", "ownership"),
    [
        (Kind.SERVED, Ownership.ELSEWHERE),
        (Kind.RELAYED, Ownership.RELAYED),
        (Kind.ENDED, Ownership.ENDED),
        (Kind.EXPIRING, Ownership.EXPIRED),
    ],
)
@pytest.mark.parametrize("prepare", [Bench.served, Bench.expiring])
def test_whose_member_is_taken_drops_it_without_a_word(
    bench: Bench, prepare: Callable[[Bench], Bench], kind: Kind, ownership: Ownership
) -> None:
    prepare(bench)
    bench.other(kind)
    assert bench.ownership is ownership
    assert Taken(KEY) in bench.heard()
    assert not bench.log.may_speak_for(KEY)
    while bench.written:
        bench.read_back()
    assert bench.ownership is ownership
    assert Expired(KEY) not in bench.heard()


def test_a_call_while_expiring_is_on_its_way_waits_and_is_gone(bench: Bench) -> None:
    """Also on a connection that was heard a moment ago: it was the rebalance timeout that passed."""
    bench.expiring()
    assert bench.claim(A) is ServeDecision.PENDING
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.GONE


def test_a_call_after_an_expiring_of_unknown_outcome_claims_the_member_anew(bench: Bench) -> None:
    bench.expiring()
    bench.writer = Writer(b"ours2")
    bench.log.replace_writer(bench.writer, bench.now)
    lost = bench.written.pop()
    assert bench.claim(A) is ServeDecision.UNAVAILABLE  # not SERVE: the id may be dead
    bench.ready()
    assert bench.claim(A) is ServeDecision.PENDING
    bench.read(lost, OURS)
    assert bench.verdict(A) is ServeDecision.GONE
    assert Expired(KEY) in bench.heard()


def test_a_client_that_comes_back_revokes_its_expiry(bench: Bench) -> None:
    bench.served()
    bench.claim(B)
    bench.log.expire(KEY, bench.now)  # waits for the claim
    assert bench.claim(A) is ServeDecision.SERVE
    bench.read_back()
    assert not bench.written
    assert bench.log.may_keep_alive(KEY)


def test_an_expiry_waits_for_a_claim_under_way(bench: Bench) -> None:
    bench.served()
    bench.claim(B)
    bench.log.expire(KEY, bench.now)
    bench.read_back()
    bench.take()
    assert bench.read_back().kind is Kind.EXPIRING


def test_an_expiry_while_the_log_is_away_waits_and_keeps_nobody_alive(bench: Bench) -> None:
    bench.served()
    bench.claim(B)
    bench.pass_time(2.0)
    assert bench.log.health(0) is Health.AWAY
    assert bench.log.expire(KEY, bench.now)
    assert not bench.log.may_keep_alive(KEY)
    bench.read_back()
    bench.ready()
    assert bench.read_back().kind is Kind.EXPIRING


def test_who_is_not_served_here_is_forgotten_by_the_caller(bench: Bench) -> None:
    assert not bench.log.expire(KEY, bench.now)
    bench.other(Kind.SERVED)
    assert not bench.log.expire(KEY, bench.now)


def test_nobody_is_expired_before_all_processes_write_the_log() -> None:
    bench = Bench(expires=False).ready().served()
    assert not bench.log.expire(KEY, bench.now)
    assert not bench.written


# -- end and relay -----------------------------------------------------------------------------------------------


def test_a_member_that_left_is_written_off_and_again_if_another_wins(bench: Bench) -> None:
    bench.served()
    bench.log.end(KEY, bench.now)
    bench.take()
    bench.other(Kind.SERVED)
    bench.read_back()
    assert bench.read_back().kind is Kind.ENDED
    assert bench.ownership is Ownership.ENDED


def test_the_end_of_a_member_that_nobody_knows_is_not_written(bench: Bench) -> None:
    bench.log.end(KEY, bench.now)
    bench.other(Kind.ENDED)
    bench.log.end(KEY, bench.now)
    bench.take()
    assert not bench.written


def test_somebody_else_finishes_an_expiry(bench: Bench) -> None:
    bench.other(Kind.EXPIRING)
    assert bench.claim() is ServeDecision.GONE
    bench.log.end(KEY, bench.now)
    bench.take()
    bench.read_back()
    assert bench.ownership is Ownership.ENDED


def test_a_join_is_relayed_when_its_record_counts(bench: Bench) -> None:
    bench.served()
    assert bench.log.relay(KEY, bench.now) is ServeDecision.PENDING
    bench.take()
    assert bench.verdict(B) is ServeDecision.PENDING
    assert bench.read_back().kind is Kind.RELAYED
    assert bench.heard() == [Settled(KEY)]
    assert bench.verdict() is ServeDecision.RELAYED
    assert bench.log.relay(KEY, bench.now) is ServeDecision.RELAYED
    bench.claim(B)
    bench.pass_time(2.0)
    assert bench.log.health(0) is Health.AWAY
    assert bench.log.relay(KEY, bench.now) is ServeDecision.RELAYED


def test_a_join_that_no_longer_waits_is_not_relayed(bench: Bench) -> None:
    bench.served()
    bench.claim(B)
    bench.log.relay(KEY, bench.now)
    bench.now += 2.5
    bench.log.withdraw_confirmations(B)
    bench.read_back()
    assert not bench.written


# -- outcomes that are unknown, and outages ----------------------------------------------------------------------


def test_what_failed_is_written_anew_by_another_writer_when_the_log_is_back(bench: Bench) -> None:
    bench.claim(A)
    bench.written.clear()
    bench.writer = Writer(b"ours2")
    bench.log.replace_writer(bench.writer, bench.now)
    assert bench.heard() == [HealthChanged(0, Health.AWAY)]
    assert bench.ownership is Ownership.UNKNOWN
    assert not bench.written
    bench.ready()
    assert bench.ownership is Ownership.CLAIMING
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.SERVE


def test_what_failed_and_landed_all_the_same_is_ours_and_confirms_nothing(bench: Bench) -> None:
    bench.claim(A)
    lost = bench.written.pop()
    bench.writer = Writer(b"ours2")
    bench.log.replace_writer(bench.writer, bench.now)
    bench.read(lost, OURS)
    assert bench.ownership is Ownership.SERVING
    assert bench.heard()[-2:] == [Serving(KEY), Settled(KEY)]
    assert bench.verdict(A) is ServeDecision.PENDING
    bench.ready()
    bench.read_back()
    assert bench.verdict(A) is ServeDecision.SERVE


def test_a_log_that_reads_nothing_back_is_away_and_gets_probes_only(bench: Bench) -> None:
    bench.served()
    bench.claim(B)
    assert bench.log.next_deadline() == bench.now + 2.0
    bench.pass_time(2.0)
    assert bench.heard() == [HealthChanged(0, Health.AWAY)]
    assert bench.probes == 1
    assert bench.claim(A) is ServeDecision.SERVE  # confirmed, so it goes on
    assert bench.claim(3) is ServeDecision.UNAVAILABLE
    assert bench.log.claim(member_key("payments", "other"), 4, bench.now) is ServeDecision.UNAVAILABLE
    fresh = member_key("payments", "fresh")
    assert bench.log.claim(fresh, 5, bench.now, issued=True) is ServeDecision.SERVE
    for _ in range(3):
        bench.pass_time(5.0)
    assert bench.probes == 4
    assert len(bench.written) == 1
    bench.read_back()
    bench.ready()
    assert bench.log.ownership(fresh) is Ownership.CLAIMING


def test_it_is_back_when_the_last_probe_is_read_back(bench: Bench) -> None:
    bench.claim()
    bench.pass_time(2.0)
    bench.pass_time(5.0)
    assert bench.probes == 2
    bench.probes = 1
    bench.log.read_probe(0, OURS, bench.offset, 0, bench.now)
    assert bench.log.health(0) is Health.AWAY
    bench.log.read_probe(0, THEIRS, bench.offset, 0, bench.now)
    assert bench.log.health(0) is Health.AWAY
    bench.ready()


def test_an_idle_reader_that_is_stuck_is_noticed(bench: Bench) -> None:
    bench.pass_time(30.0)
    assert bench.probes == 1
    bench.pass_time(2.0)
    assert bench.log.health(0) is Health.AWAY


def test_nothing_is_decided_before_the_end_is_read() -> None:
    bench = Bench()
    assert bench.log.health(0) is Health.REPLAYING
    assert bench.claim() is ServeDecision.UNAVAILABLE
    assert bench.log.relay(KEY, bench.now) is ServeDecision.UNAVAILABLE
    bench.ready()
    assert bench.claim() is ServeDecision.PENDING


def test_what_was_read_is_lost_and_read_again(bench: Bench) -> None:
    bench.served()
    ours = bench.log.record(KEY)
    assert ours is not None
    bench.writer = Writer(b"ours2")
    bench.log.lose(0, bench.writer, bench.now)
    bench.probes = 0
    assert bench.heard() == [HealthChanged(0, Health.REPLAYING)]
    assert bench.ownership is Ownership.UNKNOWN
    assert bench.claim(A) is ServeDecision.UNAVAILABLE
    bench.log.replay_to(0, bench.offset + 1, bench.now)
    bench.read(ours, OURS)
    bench.pass_time(0.0)
    bench.ready()
    assert bench.ownership is Ownership.CLAIMING  # it is confirmed anew
    bench.read_back()
    assert bench.ownership is Ownership.SERVING


@pytest.mark.parametrize("found", [None, THEIRS])
def test_after_a_loss_a_member_is_claimed_anew_or_somebody_has_it(bench: Bench, found: Writer | None) -> None:
    bench.served()
    bench.writer = Writer(b"ours2")
    bench.log.lose(0, bench.writer, bench.now)
    bench.probes = 0
    if found is not None:
        bench.read(MemberRecord(Kind.SERVED, 1), found)
    bench.log.replay_to(0, bench.offset, bench.now)
    bench.log.read_to(0, bench.offset, bench.now)
    bench.heard()
    probes, bench.probes = bench.probes, 0
    for _ in range(probes):
        bench.log.read_probe(0, bench.writer, bench.offset, 0, bench.now)
    said = bench.heard()
    assert (Taken(KEY) in said) == (found is not None)
    assert [record.kind for record in bench.written] == ([] if found else [Kind.SERVED])


# -- age ---------------------------------------------------------------------------------------------------------


def test_a_member_that_is_served_is_written_anew_before_its_record_is_old(bench: Bench) -> None:
    bench.served()
    for _ in range(13):
        bench.pass_time(1800.0)
        bench.ready()
    assert bench.read_back().kind is Kind.SERVED
    assert bench.verdict() is ServeDecision.UNAVAILABLE  # a refresh confirms no connection
    assert bench.ownership is Ownership.SERVING


@pytest.mark.parametrize(
    ("kind", "age_ms"), [(Kind.ENDED, FORGET_DEAD_MS), (Kind.SERVED, FORGET_MS), (Kind.RELAYED, FORGET_MS)]
)
def test_old_records_are_forgotten(bench: Bench, kind: Kind, age_ms: int) -> None:
    bench.other(kind)
    bench.pass_time(age_ms / 1000 + 1)
    assert bench.ownership is not Ownership.UNKNOWN
    bench.log.read_probe(0, THEIRS, bench.offset, int(bench.now * 1000), bench.now)
    assert bench.ownership is Ownership.UNKNOWN


def test_records_are_written_no_faster_than_allowed() -> None:
    bench = Bench(writes_per_s=3.0).ready()
    keys = [member_key("payments", str(number)) for number in range(10)]
    for key in keys:
        bench.log.claim(key, A, bench.now)
    bench.take()
    assert len(bench.written) == 3
    assert bench.log.next_deadline() == pytest.approx(bench.now + 1 / 3)
    bench.pass_time(1.0)
    assert len(bench.written) == 6


def test_a_record_in_another_partition_than_its_groups_is_ignored() -> None:
    log = MemberLog(FleetSettings(partitions=16), OURS, 0.0)
    wrong = (partition_of(KEY, 16) + 1) % 16
    log.read(wrong, KEY, Stored(0, 0, THEIRS, MemberRecord(Kind.SERVED, 0, first=True)), 0.0)
    assert log.record(KEY) is None


def test_a_process_that_served_many_remembers_none_of_them(bench: Bench) -> None:
    for number in range(100):
        key = member_key("payments", f"m{number}")
        bench.log.claim(key, number, bench.now)
        bench.take()
        bench.read(bench.written.pop(), OURS, key)
        bench.log.end(key, bench.now)
        bench.take()
        bench.read(bench.written.pop(), OURS, key)
        bench.log.withdraw_confirmations(number)
        bench.pass_time(1.0)
        bench.ready()
    assert not bench.log._members.entries
    assert not bench.log._members.confirmations._by_connection
    assert not bench.log.unresolved()
    assert PROBE not in bench.log._members.partitions[0].view
