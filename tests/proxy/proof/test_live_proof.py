"""The live verification in a process: off the path of calls, of its own events or of a topic, by one replica."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec
import pytest
import trio

from pipeline.rules.certificate import Verdict
from pipeline.rules.gains import APART_S, ENOUGH
from proxy.config.schema import Verify
from proxy.journal.journal import Journal, JournalEvent
from proxy.metrics.registry import Metrics
from proxy.proof.live_proof import DELAY_S, LOOK_EVERY_S, LiveProof
from proxy.proof.sources import Election, JournalUnreadable, Open, Read, ReadNext
from proxy.runtime.wall_clock import WallClock
from tests.proxy.groups.events import changed, event, topic
from translation.actions import EventKind
from translation.member_log.group_records import Proof
from translation.member_log.records import Writer
from translation.member_log.replicas import SILENT_AFTER_MS, Replica, Replicas, replica_header

BEGIN_S = 1_000
MIN_LOOKS_S = 2 * LOOK_EVERY_S + 1


def wall_clock() -> WallClock:
    """The clock of the tests, from a time that is not 1970."""
    return WallClock(lambda: int((BEGIN_S + trio.current_time() - STARTED[0]) * 1e9))


STARTED = [0.0]


class Bench:
    """A live verification, and the journal that feeds it."""

    def __init__(
        self,
        *,
        limit: int = 1_000,
        is_alone: bool = True,
        open_: Open | None = None,
        election: Election | None = None,
    ) -> None:
        STARTED[0] = trio.current_time()
        self.metrics, self.clock = Metrics(), wall_clock()
        self.live = LiveProof(
            Verify(live=True),
            self.metrics,
            self.clock,
            "pod",
            is_alone=is_alone,
            open_=open_,
            election=election,
        )
        self.proof_of: Callable[[str], Proof | None] = lambda _: None
        self.looks = 0
        self.journal = Journal(
            self.live.sinks,
            replica="pod",
            boot="1",
            queue_events=limit,
            queue_max_bytes=2**30,
            metrics=self.metrics,
        )

    def looked(self, proof_of: Callable[[str], Proof | None]) -> None:
        self.proof_of, self.looks = proof_of, self.looks + 1

    def record(self, kind: EventKind, member: str = "m-1", *owned: int) -> None:
        told = event(kind, member, owned=topic(*owned), generation=1)
        self.journal.record(told, "translate", self.clock.now_us())

    def count(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"epochgate_{name}", labels)


@contextlib.asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.live.run, bench.looked)
        nursery.start_soon(bench.journal.run)
        yield
        nursery.cancel_scope.cancel()


async def test_the_events_of_a_sole_process_prove_its_groups(autojump_clock):
    bench = Bench()
    async with running(bench):
        bench.record(EventKind.JOINED)
        bench.record(EventKind.ASSIGNED, "m-1", 0, 1)
        await trio.sleep(60)
        view = bench.live.view("g")
        assert view is not None
        assert (view.state, view.scope, view.verdict, view.complete) == (
            "live",
            "all processes",
            "proven",
            True,
        )
        assert view.certificate is not None
        assert (view.certificate.verdict, view.certificate.events) == (Verdict.PROVEN, 2)
        proof = bench.proof_of("g")
        assert proof is not None
        assert not proof.violated
        assert proof.clean_ms > 40_000
        assert proof.ago_ms < 2 * LOOK_EVERY_S * 1000
        assert bench.count("proof_groups", verdict="proven") == 1
        assert bench.proof_of("unknown") is bench.live.view("unknown") is None


async def test_two_owners_for_a_millisecond_are_found(autojump_clock):
    bench = Bench()
    async with running(bench):
        bench.record(EventKind.JOINED)
        bench.record(EventKind.ASSIGNED, "m-1", 0)
        bench.record(EventKind.JOINED, "m-2")
        bench.record(EventKind.ASSIGNED, "m-2", 0)
        await trio.sleep(0.001)
        bench.record(EventKind.JOINED, "m-1")
        await trio.sleep(MIN_LOOKS_S)
        view, proof = bench.live.view("g"), bench.proof_of("g")
        assert view is not None
        assert (view.verdict, view.provisional) == ("violated", False)
        assert view.certificate is not None
        (violation,) = view.certificate.owners.violations
        assert violation.until_us - violation.from_us in {999, 1000, 1001}
        assert proof is not None
        assert proof.violated
        assert bench.count("proof_groups", verdict="violated") == 1


async def test_events_that_do_not_fit_leave_the_time_unproven_and_delay_nobody(autojump_clock):
    bench = Bench(limit=5)
    async with running(bench):
        bench.record(EventKind.JOINED)
        await trio.sleep(60)
        for _ in range(20):
            bench.record(EventKind.EPOCH_MOVED)
        await trio.sleep(MIN_LOOKS_S)
        view, proof = bench.live.view("g"), bench.proof_of("g")
        assert view is not None
        assert not view.complete
        assert "events are missing" in view.why
        assert proof is not None
        assert proof.clean_ms < MIN_LOOKS_S * 1000
        lost = bench.count("journal_events_lost_total", sink="proof")
        assert lost is not None
        assert lost > 0
        await trio.sleep(120)
        proof = bench.proof_of("g")
        assert proof is not None
        assert proof.clean_ms > 100_000, "from then on it is complete"


async def test_a_process_that_is_not_the_only_one_proves_nothing_by_its_own_events(autojump_clock):
    bench = Bench(is_alone=False)
    async with running(bench):
        bench.record(EventKind.JOINED)
        bench.record(EventKind.ASSIGNED, "m-1", 0)
        await trio.sleep(60)
    view = bench.live.view("g")
    assert view is not None
    assert (view.scope, view.provisional) == ("this process only", True)
    assert view.certificate is not None
    assert view.certificate.provisional
    assert bench.looks == 0, "nothing of it is recorded for the steps of a move"


async def test_rebalances_before_a_move_and_after_it_are_compared(autojump_clock):
    bench = Bench()

    def state(before: str, after: str, protocol: str, member: str = "m-1") -> None:
        bench.journal.record(
            changed(before, after, member, protocol=protocol), "translate", bench.clock.now_us()
        )

    async def rebalance(protocol: str, pause_s: float) -> None:
        state("Stable", "PrepareRebalance", protocol)
        await trio.sleep(pause_s)
        state("PrepareRebalance", "Stable", protocol)
        await trio.sleep(APART_S + 1)

    async with running(bench):
        for _ in range(ENOUGH):
            await rebalance("classic", 2)
        assert bench.count("proof_rebalances", kind="other", phase="before") == 0, "it has not moved"
        bench.record(EventKind.ADOPTED)
        await trio.sleep(1)
        for _ in range(ENOUGH):
            await rebalance("translated", 0.5)
        await trio.sleep(MIN_LOOKS_S)
    view = bench.live.view("g")
    assert view is not None
    (other,) = view.compared
    assert (other.kind, other.before.count, other.after.count, other.verdict) == (
        "other",
        ENOUGH,
        ENOUGH,
        "shorter",
    )
    assert [bench.count("proof_rebalances", kind="other", phase=one) for one in ("before", "after")] == [3, 3]
    assert bench.count("proof_rebalances_stopped_seconds", kind="other", phase="after") == pytest.approx(1.5)
    assert bench.count("proof_compared_rebalances", verdict="shorter") == 1
    assert bench.count("proof_compared_rebalances", verdict="too_few") == 0


# -- the topic -------------------------------------------------------------------------------------------------


class Topic:
    """A journal's topic that has what the test puts into it; each read takes a second."""

    def __init__(self) -> None:
        self.lines: list[bytes | None] = []
        self.failing: str | None = None
        self.is_at_end = True
        self.opened = 0
        self._seqs: dict[str, int] = {}

    def write(self, replica: str, kind: str, member: str = "", owned: Iterable[int] = ()) -> None:
        self._seqs[replica] = seq = self._seqs.get(replica, 0) + 1
        told = JournalEvent(
            replica=replica,
            boot="1",
            seq=seq,
            time_us=int((BEGIN_S + trio.current_time() - STARTED[0]) * 1e6),
            kind=kind,
            group="g" if member else "",
            member=member,
            protocol="translated" if member else "",
            owned=topic(*owned) if member else None,
            generation=1,
        )
        self.lines.append(msgspec.json.encode(told))

    async def alive(self, *replicas: str) -> None:
        """Replicas write that they are alive, as long as the test goes on."""
        while True:
            for replica in replicas:
                self.write(replica, "alive")
            await trio.sleep(5)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[ReadNext]:
        self.opened += 1
        yield self._read

    async def _read(self) -> Read:
        await trio.sleep(1)
        if self.failing is not None:
            raise JournalUnreadable(self.failing)
        lines, self.lines = self.lines, []
        now_ms = int((BEGIN_S + trio.current_time() - STARTED[0]) * 1000)
        return Read(lines, now_ms if self.is_at_end else 0, self.is_at_end)


async def test_a_replica_proves_by_the_topic_what_all_write_and_a_kill_is_not_proven(autojump_clock):
    journal = Topic()
    bench = Bench(open_=journal.open, is_alone=False)
    assert bench.live.sinks == []
    async with running(bench), trio.open_nursery() as nursery:
        living = trio.CancelScope()

        async def alive(scope: trio.CancelScope, replica: str) -> None:
            with scope:
                await journal.alive(replica)

        nursery.start_soon(alive, trio.CancelScope(), "a")
        nursery.start_soon(alive, living, "b")
        for replica, member, number in (("a", "m-1", 0), ("b", "m-2", 1)):
            journal.write(replica, "joined", member)
            journal.write(replica, "assigned", member, [number])
        await trio.sleep(60)
        view = bench.live.view("g")
        assert view is not None
        assert (view.state, view.scope, view.verdict) == ("live", "all processes", "proven")
        assert view.certificate is not None
        assert view.certificate.members == {"translated": 2}

        living.cancel()
        await trio.sleep(DELAY_S + MIN_LOOKS_S)
        view, proof = bench.live.view("g"), bench.proof_of("g")
        assert view is not None
        assert any("b.1 has ended, and did not say so" in why for why in view.why)
        assert proof is not None
        assert proof.clean_ms < (DELAY_S + MIN_LOOKS_S) * 1000
        journal.write("a", "joined", "m-2")
        journal.write("a", "assigned", "m-2", [1])
        await trio.sleep(120)
        view = bench.live.view("g")
        assert view is not None
        assert (view.verdict, view.violated_at) == ("proven", None)
        nursery.cancel_scope.cancel()


async def test_while_the_topic_is_read_or_away_nothing_is_proven(autojump_clock):
    journal = Topic()
    journal.is_at_end = False
    bench = Bench(open_=journal.open)
    async with running(bench):
        await trio.sleep(10)
        assert bench.live.view("g") is None, "nothing is known of it"
        assert bench.looks == 0
        journal.write("a", "joined", "m-1")
        await trio.sleep(10)
        journal.failing = "journal: Topic authorization failed"
        await trio.sleep(2)
        assert bench.live._state == "failed"
        assert bench.count("proof_errors_total") == 1
        journal.failing = None
        await trio.sleep(15)
        assert (bench.live._state, journal.opened) == ("reading", 2)
        assert bench.looks == 0


async def test_of_the_replicas_that_are_heard_the_lowest_reads_the_topic(autojump_clock):
    journal, replicas = Topic(), Replicas()
    low, high = (Replica(Writer(bytes([number]) * 16), f"pod-{number}") for number in (1, 2))
    bench = Bench(open_=journal.open, election=Election.among(replicas, lambda: high))
    async with running(bench):
        await trio.sleep(10)
        assert journal.opened == 0, "nobody is heard yet"
        for one in (low, high):
            replicas.heard(one.first, replica_header(one), 1_000)
        await trio.sleep(10)
        view = bench.live.view("g")
        assert view is not None
        assert (view.state, view.by, journal.opened) == ("elsewhere", "pod-1", 0)
        replicas.heard(high.first, replica_header(high), 1_001 + SILENT_AFTER_MS)
        await trio.sleep(10)
        assert (bench.live._state, journal.opened) == ("live", 1)
        replicas.heard(low.first, replica_header(low), 1_001 + SILENT_AFTER_MS)
        await trio.sleep(10)
        assert bench.live._state == "elsewhere"
