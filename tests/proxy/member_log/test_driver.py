"""What the driver of the member log makes of what its client reads, without a broker (with one: tests/integration)."""

from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from proxy.config.fleet import Fleet, ReplicaNames
from proxy.member_log.driver import FleetDriver, Reports
from proxy.member_log.log_events import (
    AccessLost,
    EndReached,
    GroupRecordRead,
    RecordIgnored,
    RecordRead,
    RecordUnknown,
    WriteFailed,
)
from proxy.member_log.log_messages import Begun
from proxy.member_log.reader_watch import PATIENCE_S
from proxy.member_log.record_decoding import RawRecord, decode_record
from proxy.member_log.refusals import MemberLogRefused
from proxy.member_log.writer_watch import DOUBT_S, NOT_KNOWN_YET, Lookup, WriterWatch
from proxy.metrics.registry import Metrics
from translation.member_log.counting import Stored
from translation.member_log.formats import FORMATS
from translation.member_log.group_log import UNKNOWN_MS
from translation.member_log.group_records import MOVE, GroupRecord, Move, StoredGroup, group_key
from translation.member_log.outputs import (
    ExpiryBegan,
    Health,
    HealthChanged,
    Output,
    ServeDecision,
    Serving,
    Settled,
    WriteRecord,
)
from translation.member_log.records import (
    PROBE,
    Ignored,
    Kind,
    MemberRecord,
    Writer,
    member_key,
    partition_of,
)
from translation.member_log.replicas import Heard, Replica, replica_header

CREATE_TIME = 1
KEY = member_key("payments", "epochgate-1")
PARTITIONS = 2
PROPERTIES = {"bootstrap.servers": "127.0.0.1:1"}


class Bench:
    """A driver whose client writes to a list; each record is read back when the test says so."""

    def __init__(self, **settings: Any) -> None:
        self.metrics = Metrics()
        fleet = Fleet(kafka=dict(PROPERTIES), partitions=PARTITIONS, **settings)
        self.driver = FleetDriver(fleet, dict(PROPERTIES), self.metrics)
        self.said: list[Output] = []
        self.refusals: list[str] = []
        self.written: list[WriteRecord] = []
        self.offset = 0
        self.driver._client.write = self.written.append
        self.driver._reports = Reports(self.said.extend, self.refusals.append, lambda _policy: None)

    def start(self) -> "Bench":
        for partition in range(PARTITIONS):
            self.driver.log.replay_to(partition, 0, trio.current_time())
        self.driver.carry_out()
        self.read_back()
        return self

    def read_back(self) -> None:
        written, self.written[:] = list(self.written), []
        for write in written:
            key, stored = PROBE, None
            if write.value is not None:
                key, stored = (
                    KEY,
                    Stored(self.offset, 1_000, write.writer, FORMATS[write.format].decode(write.value)),
                )
            self.read(RecordRead(write.partition, key, write.writer, stored, self.offset, 1_000))
            self.offset += 1

    def read(self, *events) -> None:
        self.driver._handle(list(events))

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"epochgate_{name}", labels)


async def test_what_is_written_and_read_is_counted_and_what_is_said_is_told():
    bench = Bench()
    assert bench.metric("fleet_log_away") == PARTITIONS
    bench.start()
    assert bench.driver.replayed.is_set()
    assert bench.metric("fleet_log_away") == 0
    assert bench.driver.log.claim(KEY, 1, trio.current_time()) is ServeDecision.PENDING
    bench.driver.carry_out()
    assert bench.metric("fleet_unresolved_records") == 1
    bench.read_back()
    ready = [HealthChanged(partition, Health.READY) for partition in range(PARTITIONS)]
    assert bench.said == [*ready, Serving(KEY), Settled(KEY)]
    assert bench.metric("fleet_unresolved_records") == 0
    for kind, count in (("probe", PARTITIONS), ("served", 1), ("ended", 0)):
        for direction in ("read", "written"):
            assert bench.metric("fleet_records_total", kind=kind, direction=direction) == count


async def test_members_are_expired_while_every_replica_writes_the_log():
    bench = Bench(expires="auto", replica_names=ReplicaNames(every="a", writing="b")).start()
    assert bench.metric("fleet_expires") == 0
    assert bench.driver.warning == NOT_KNOWN_YET
    watched = WriterWatch("10.0.0.1")
    everybody, others = frozenset({"10.0.0.1"}), frozenset({"10.0.0.2"})
    watched.note(Lookup(everybody, everybody), 0)
    with capture_logs() as logs:
        bench.driver._note_writers(watched)
        bench.driver._note_writers(watched)
    assert [line["log_level"] for line in logs] == ["info"]
    assert bench.said[-1] == ExpiryBegan()
    assert (bench.metric("fleet_expires"), bench.driver.warning) == (1, None)
    for now in (0, DOUBT_S):
        watched.note(Lookup(everybody | others, everybody), now)
    bench.driver._note_writers(watched)
    assert bench.metric("fleet_expires") == 0
    assert bench.driver.warning is not None
    assert "10.0.0.2" in bench.driver.warning


async def test_the_newest_record_grows_older_while_nothing_is_read(mock_clock):
    bench = Bench()
    mock_clock.jump(2)
    assert bench.metric("fleet_newest_record_age_seconds") == 2, "of the start, before anything is read"
    bench.start()
    assert bench.metric("fleet_newest_record_age_seconds") == 0
    mock_clock.jump(30)
    bench.read(RecordRead(0, PROBE, Writer(b"theirs"), None, 9, 1_000))
    assert bench.metric("fleet_newest_record_age_seconds") == 30, "of the other partition"
    bench.read(RecordRead(1, PROBE, Writer(b"theirs"), None, 9, 1_000))
    assert bench.metric("fleet_newest_record_age_seconds") == 0
    bench.read(AccessLost("no right"), RecordRead(0, PROBE, Writer(b"theirs"), None, 10, 1_000))
    mock_clock.jump(300)
    assert bench.metric("fleet_newest_record_age_seconds") == 300


async def test_members_and_replicas_are_counted_by_state():
    bench = Bench().start()
    theirs, gone = Replica(Writer(b"t" * 16), "theirs"), Replica(Writer(b"g" * 16), "gone")
    bench.read(
        RecordRead(0, PROBE, gone.first, None, 10, 1_000, replica_header(gone)),
        RecordRead(0, PROBE, theirs.first, None, 11, 200_000, replica_header(theirs)),
    )
    own = bench.driver.replica
    bench.read(RecordRead(0, PROBE, own.first, None, 12, 200_000, replica_header(own)))
    kinds = (
        *((own, kind) for kind in (Kind.SERVED, Kind.EXPIRING, Kind.RELAYED)),
        *((theirs, kind) for kind in (Kind.SERVED, Kind.SERVED, Kind.RELAYED, Kind.EXPIRING, Kind.ENDED)),
        *((gone, kind) for kind in (Kind.SERVED, Kind.SERVED, Kind.SERVED, Kind.RELAYED)),
    )
    for offset, (replica, kind) in enumerate(kinds, 20):
        key = member_key("payments", f"epochgate-{offset}")
        stored = Stored(offset, 200_000, replica.first, MemberRecord(kind, offset, first=True))
        bench.read(RecordRead(partition_of(key, PARTITIONS), key, replica.first, stored, offset, 200_000))
    members = {
        state: bench.metric("fleet_members", state=state) for state in ("served", "silent", "expiring")
    }
    assert members == {"served": 3, "silent": 3, "expiring": 2}
    assert bench.metric("fleet_members_here") == 1
    assert [bench.metric("fleet_replicas", state=state) for state in ("active", "silent")] == [2, 1]
    bench.read(RecordRead(0, PROBE, own.first, None, 40, 3_601_000, replica_header(own)))
    assert bench.metric("fleet_members", state="silent") == 5, "of two replicas"
    assert bench.metric("fleet_replicas", state="silent") == 2
    bench.read(RecordRead(0, PROBE, own.first, None, 41, 3_601_001, replica_header(own)))
    assert bench.metric("fleet_members", state="silent") == 2, "for an hour"
    assert bench.metric("fleet_replicas", state="silent") == 1
    bench.driver.log.lose(partition_of(KEY, PARTITIONS), Writer(b"another"), trio.current_time())
    assert bench.metric("fleet_members", state="silent") == 0, "it is not read again yet"


async def test_who_writes_the_log_is_known_from_probes():
    bench = Bench().start()
    theirs = Replica(Writer(b"t" * 16), "theirs")
    bench.read(RecordRead(0, PROBE, theirs.first, None, 9, 5_000, replica_header(theirs)))
    assert Heard(theirs, 5_000) in bench.driver.replicas.all()


async def test_claims_that_a_bound_refuses_are_counted():
    bench = Bench().start()
    bench.driver.log.settings = type(bench.driver.log.settings)(partitions=PARTITIONS, dead_ids=0)
    assert bench.driver.log.claim(KEY, 1, trio.current_time(), issued=True) is ServeDecision.UNAVAILABLE
    assert bench.driver.log.claim(KEY, 2, trio.current_time(), issued=True) is ServeDecision.UNAVAILABLE
    bench.read(EndReached(0, 9))
    assert bench.metric("bounds_hit_total", bound="fleet_ids") == 2


async def test_records_that_are_forgotten_for_want_of_room_are_counted():
    bench = Bench().start()
    bench.driver.log._members.room.most_members = 1
    for offset in range(20, 23):
        key = member_key("payments", f"epochgate-{offset}")
        stored = Stored(offset, 1_000, Writer(b"theirs"), MemberRecord(Kind.SERVED, offset))
        bench.read(RecordRead(partition_of(key, PARTITIONS), key, stored.writer, stored, offset, 1_000))
    assert bench.metric("bounds_hit_total", bound="fleet_records") == 2


async def test_what_became_of_calls_is_shown_at_a_scrape():
    bench = Bench().start()
    assert bench.metric("fleet_verdicts_total", verdict="served") == 0
    bench.driver.log.decided(KEY, ServeDecision.SERVE)
    bench.driver.log.decided(KEY, ServeDecision.GONE)
    bench.driver.log.decided(KEY, ServeDecision.SERVE)
    assert bench.metric("fleet_verdicts_total", verdict="served") == 2
    assert bench.metric("fleet_verdicts_total", verdict="dead") == 1


async def test_after_a_refusal_nothing_is_written_or_read_and_somebody_is_told_once():
    bench = Bench().start()
    with capture_logs() as lines:
        bench.read(AccessLost("no right"), AccessLost("again"))
        bench.read(AccessLost("again"))
    assert bench.refusals == ["the member log can't be used: no right"]
    assert [line["reason"] for line in lines] == ["no right"]
    assert (bench.metric("fleet_log_refused"), bench.metric("fleet_log_away")) == (1, PARTITIONS)
    assert bench.driver.log.claim(KEY, 1, trio.current_time()) is ServeDecision.PENDING
    bench.driver.carry_out()
    assert not bench.written
    theirs = Stored(9, 1_000, Writer(b"theirs"), MemberRecord(Kind.SERVED, 1, first=True))
    bench.read(RecordRead(0, KEY, theirs.writer, theirs, 9, 1_000))
    assert bench.driver.log.record(KEY) is None


async def test_an_error_in_the_member_log_ends_its_use_and_not_the_process(monkeypatch):
    bench = Bench().start()

    def fails(*_arguments):
        raise ValueError("a bug")

    monkeypatch.setattr(bench.driver.log, "read_to", fails)
    bench.read(EndReached(0, 9))
    assert bench.metric("internal_errors_total", where="fleet") == 1
    assert "unexpected error" in bench.refusals[0]


def planted(*_arguments):
    raise ValueError("a bug")


def has_ended_its_use(bench):
    return bench.metric("internal_errors_total", where="fleet") == 1 and bench.driver._is_broken


async def test_an_error_where_what_was_read_is_handed_on_ends_its_use_too():
    bench = Bench().start()
    bench.driver.log.claim(KEY, 1, trio.current_time())
    bench.driver.carry_out()
    bench.driver._reports = Reports(planted, bench.refusals.append)
    bench.read_back()
    assert has_ended_its_use(bench)


@pytest.mark.parametrize("where", ["carry_out", "replace_reader", "replace_writer"])
async def test_an_error_when_time_passes_ends_its_use_too(autojump_clock, monkeypatch, where):
    bench = Bench()
    bench.driver._has_failed = where == "replace_writer"
    monkeypatch.setattr(bench.driver if where == "carry_out" else bench.driver._client, where, planted)
    with trio.fail_after(2 * PATIENCE_S):
        await bench.driver._keep_time()
    assert has_ended_its_use(bench)


@pytest.mark.parametrize("where", ["carry_out", "_note_settings"])
async def test_an_error_when_its_client_begins_again_ends_its_use_too(autojump_clock, monkeypatch, where):
    bench = Bench().start()

    async def begin():
        return Begun("topic", {0: 0, 1: 0}, "wrong")

    monkeypatch.setattr(bench.driver._client, "begin", begin)
    monkeypatch.setattr(bench.driver, where, planted)
    assert await bench.driver._begin_again()
    assert has_ended_its_use(bench)


async def test_records_that_are_none_of_the_log_are_counted_and_skipped():
    bench = Bench().start()
    bench.read(
        RecordIgnored(0, 20, Ignored.KEY, "no key"),
        RecordIgnored(0, 21, Ignored.VALUE, "no value"),
        RecordIgnored(1, 22, Ignored.VALUE, "no value"),
    )
    assert bench.driver.refused is None
    assert bench.driver.ignored == {Ignored.KEY: 1, Ignored.VALUE: 2}
    assert bench.metric("fleet_records_ignored_total", reason="value") == 2
    assert bench.metric("fleet_records_ignored_total", reason="mac") == 0
    assert bench.driver.log._members.partitions[0].view.position == 22


async def test_the_log_is_ready_with_the_first_probe_after_those_without_the_brokers_time(mock_clock):
    """Somebody has changed message.timestamp.type, and changed it back."""
    bench = Bench().start()
    for _ in range(3):
        mock_clock.jump(30)
        bench.driver.log.handle_time(trio.current_time())
        bench.driver.carry_out()
        for write in bench.written:
            header = {"v": bytes((write.format,))}
            raw = RawRecord(
                write.partition, bench.offset, (CREATE_TIME, 1_000), header, write.key, write.value
            )
            bench.offset += 1
            bench.read(decode_record(raw, PARTITIONS))
        bench.written.clear()
        assert bench.metric("fleet_log_away") == PARTITIONS
    mock_clock.jump(5)
    bench.driver.log.handle_time(trio.current_time())
    bench.driver.carry_out()
    bench.read_back()
    assert bench.metric("fleet_log_away") == 0


async def test_a_record_of_a_later_release_costs_its_member_alone():
    """Nobody knows what it says, so the member is not served here any more; the log is used on."""
    bench = Bench().start()
    number = partition_of(KEY, PARTITIONS)
    bench.driver.log.claim(KEY, 1, trio.current_time())
    bench.driver.carry_out()
    bench.read_back()
    stands_for = Stored(90, 1_000, Writer(b"theirs"), MemberRecord(Kind.ENDED, 90))
    bench.read(RecordUnknown(number, KEY, stands_for, 90, 1_000, "format 99"))
    assert bench.driver.refused is None
    assert bench.driver.log.verdict(KEY, 1, trio.current_time()) is ServeDecision.GONE
    other = member_key(KEY.group_id, "epochgate-another")
    assert bench.driver.log.claim(other, 1, trio.current_time()) is ServeDecision.PENDING
    groups = bench.driver.log.groups
    assert groups.is_ready(KEY.group_id)
    bench.read(RecordUnknown(number, group_key(KEY.group_id, MOVE), None, 91, 1_000, "format 99"))
    assert not groups.is_ready(KEY.group_id)
    assert groups.write(KEY.group_id, MOVE, trio.current_time(), move=Move("1")) is None
    bench.read(RecordRead(number, PROBE, Writer(b"theirs"), None, 92, 1_001 + UNKNOWN_MS))
    assert groups.is_ready(KEY.group_id), "whoever can read it has renewed it by then, if it is needed"
    assert bench.metric("fleet_records_ignored_total", reason="format") == 2


async def test_a_record_that_meets_a_bug_is_skipped_and_the_log_is_used_on(monkeypatch):
    """The record would meet it again after each restart."""
    bench = Bench().start()

    def fails(*_arguments):
        raise ValueError("a bug")

    monkeypatch.setattr(bench.driver.log, "read_group", fails)
    stored = StoredGroup(30, 1_000, Writer(b"theirs"), GroupRecord(1))
    bench.read(GroupRecordRead(0, group_key("g", MOVE), stored), RecordIgnored(0, 31, Ignored.KEY, "no key"))
    assert bench.driver.refused is None
    assert bench.driver.ignored == {Ignored.ERROR: 1, Ignored.KEY: 1}
    assert bench.metric("internal_errors_total", where="fleet") == 1
    assert bench.driver.log.positions()[0] == 32


async def test_a_writer_that_has_been_replaced_may_fail():
    bench = Bench().start()
    bench.read(WriteFailed(Writer(b"an earlier one"), "timed out"))
    assert not bench.driver._has_failed
    bench.read(WriteFailed(bench.driver._client.writer, "timed out"))
    assert bench.driver._has_failed


async def test_a_reader_that_reads_nothing_while_the_log_is_away_is_replaced(autojump_clock, monkeypatch):
    bench = Bench()
    replaced: list[float] = []
    monkeypatch.setattr(
        bench.driver._client, "replace_reader", lambda: replaced.append(trio.current_time() - began)
    )
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.driver._keep_time)
        await trio.sleep(PATIENCE_S - 1)
        bench.read(EndReached(0, 9), EndReached(1, 9))
        await trio.sleep(5 * PATIENCE_S)
        assert replaced == pytest.approx([2 * PATIENCE_S - 1, 4 * PATIENCE_S - 1], abs=0.1)
        assert bench.metric("fleet_reader_replacements_total") == 2
        bench.start()
        await trio.sleep(20)
        assert len(replaced) == 2
        nursery.cancel_scope.cancel()


async def test_a_log_that_is_refused_has_no_reader_replaced(autojump_clock):
    bench = Bench()
    bench.read(AccessLost("no right"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.driver._keep_time)
        await trio.sleep(10 * PATIENCE_S)
        nursery.cancel_scope.cancel()
    assert bench.metric("fleet_reader_replacements_total") == 0


async def test_a_value_that_librdkafka_does_not_take_is_refused():
    fleet = Fleet(kafka={**PROPERTIES, "security.protocol": "x"})
    with pytest.raises(MemberLogRefused, match=r"`fleet\.kafka`.*security\.protocol"), trio.fail_after(60):
        await FleetDriver(fleet, dict(fleet.kafka), Metrics()).run(*[lambda _: None] * 3)


async def test_brokers_that_do_not_answer_end_the_start():
    fleet = Fleet(kafka=dict(PROPERTIES))
    with pytest.raises(MemberLogRefused, match=r"127\.0\.0\.1:1.*`security\.protocol`"), trio.fail_after(60):
        await FleetDriver(fleet, dict(fleet.kafka), Metrics()).run(*[lambda _: None] * 3)
