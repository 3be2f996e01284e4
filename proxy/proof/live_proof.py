"""What is proven of each group while the journal is written (``verify.groups``, ``things_of_group``,
``waiting_events``), in short slices; after how long a process that writes nothing counts as ended.

With a journal's topic and the account of the member log, one replica reads what all of them write: of those that are
not silent the one whose id is the lowest, so nobody has to agree on it. For a moment there may be two, which find the
same. Otherwise each process verifies its own events alone, which proves something only if it is the only one.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, product

import structlog
import trio
from msgspec.structs import replace

from pipeline.rules.certificate import Compared, Verdict
from pipeline.rules.gains import KINDS, VERDICTS
from pipeline.rules.live import Bounds, LiveVerifier
from proxy.config.fleet import Property
from proxy.config.reporting import Verify
from proxy.config.schema import Config
from proxy.groups.proof_view import ProofView
from proxy.journal.journal import Sink
from proxy.metrics.registry import Metrics
from proxy.proof.journal_topic import topic_of
from proxy.proof.own_events import OwnEvents
from proxy.proof.pace import Pace
from proxy.proof.sources import Election, JournalUnreadable, Open, ReadNext
from proxy.runtime.wall_clock import WallClock
from translation.member_log.group_records import Proof

LOOK_EVERY_S = 5.0
DELAY_S = 15.0
"""How long events wait for others that were written before them and come later. A process that has written nothing for
as long counts as ended."""

_LOOK_COSTS = 20
"""The next look begins after this many times what the last one took."""
_AGAIN_S = 10.0
_AT_ONCE = 20
_LONGEST_WHY = 200
_ALL, _OWN = "all processes", "this process only"
_ONLY_OWN = "it is about the members that this process serves; others may have more"
_US = 1_000_000

Labels = tuple[str, str]
"""The kind of a rebalance and the phase of its group's move."""
Looked = Callable[[Callable[[str], Proof | None]], None]
"""Is called after each look with what returns the proof of a group, None if there is none."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.proof")


class LiveProof:
    """The live verification of one process. ``is_alone``: no other process serves members of the same groups.

    ``open_`` opens the journal's topic, and ``election`` says whether it is this process that reads it; without them
    the events of this process are taken (:attr:`sinks`).
    """

    def __init__(
        self,
        settings: Verify,
        metrics: Metrics,
        clock: WallClock,
        replica: str,
        *,
        is_alone: bool = True,
        open_: Open | None = None,
        election: Election | None = None,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._replica = replica
        self._open = open_
        self._election = election or Election.alone(replica)
        self._scope = _ALL if is_alone or open_ is not None else _OWN
        self._verifier = self._new_verifier()
        self._compared: dict[str, tuple[Compared, ...]] = {}
        self._state = "live" if open_ is None else "reading"
        self._note: str | None = None
        self._busy = trio.Lock()
        self._pace = Pace(settings.cpu_share)
        for verdict in Verdict:
            metrics.proof_groups.labels(verdict).set_function(partial(self._count, verdict))
        metrics.proof_behind.set_function(self._behind_s)
        metrics.proof_waiting.set_function(lambda: self._verifier.waiting)

    @property
    def sinks(self) -> list[Sink]:
        """Return the destination that the journal of this process has to write to."""
        return [] if self._open is not None else [OwnEvents(self._take, self._nothing_waits)]

    def _new_verifier(self) -> LiveVerifier:
        delay_us = 0 if self._open is None else int(DELAY_S * _US)
        bounds = Bounds(
            waiting=self._settings.waiting_events,
            groups=self._settings.groups,
            of_group=self._settings.things_of_group,
        )
        return LiveVerifier(delay_us=delay_us, bounds=bounds)

    # -- what is shown -------------------------------------------------------------------------------------------

    def view(self, group_id: str) -> ProofView | None:
        """Return what is proven of a group; None if there is nothing to prove, as of a share group."""
        if self._state == "elsewhere":
            return ProofView(state=self._state, scope=self._scope, by=self._election.name)
        verifier = self._verifier
        base = ProofView(state=self._state, scope=self._scope, by=self._replica, note=self._note)
        why_not = verifier.why_not_judged(group_id)
        if why_not is not None:
            return replace(base, state="left out", note=why_not)
        certificate, proven = verifier.certificate(group_id), verifier.proven.get(group_id)
        if certificate is None:
            return None
        if self._scope == _OWN:
            certificate = replace(certificate, provisional=True, pending=(*certificate.pending, _ONLY_OWN))
        shown = replace(
            base,
            certificate=certificate,
            complete=verifier.is_complete,
            compared=self._compared.get(group_id, ()),
        )
        if proven is None:
            return shown
        return replace(
            shown,
            verdict=proven.verdict,
            clean_since=proven.since_us / _US,
            looked_at=proven.until_us / _US,
            why=proven.why,
            provisional=not proven.is_final or self._scope == _OWN,
            violated_at=None if proven.violated_us is None else proven.violated_us / _US,
        )

    def _count(self, verdict: Verdict) -> int:
        return sum(one.verdict is verdict for one in self._verifier.proven.values())

    def _behind_s(self) -> float:
        if self._state == "elsewhere":
            return 0.0
        until_us = self._verifier.until_us
        return (self._clock.now_us() - until_us) / _US if until_us else math.inf

    # -- the events of this process ------------------------------------------------------------------------------

    async def _take(self, lines: list[bytes | None]) -> None:
        async with self._busy:
            self._pace.begin()
            await self._go_through(lines, None)

    def _nothing_waits(self) -> None:
        self._verifier.go_through(self._clock.now_us(), 1)

    # -- for ever ------------------------------------------------------------------------------------------------

    async def run(self, on_look: Looked) -> None:
        """Verify until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_looking, on_look)
            if self._open is not None:
                nursery.start_soon(self._keep_reading, self._open)

    async def _keep_looking(self, on_look: Looked) -> None:
        while True:
            began = trio.current_time()
            async with self._busy:
                await self._look(on_look)
            await trio.sleep(max(LOOK_EVERY_S, _LOOK_COSTS * (trio.current_time() - began)))

    async def _look(self, on_look: Looked) -> None:
        verifier = self._verifier
        self._pace.begin()
        for _ in verifier.look():
            await self._pace.rest()
        await self._compare()
        if self._state == "live" and self._scope == _ALL:
            on_look(partial(_proof_of, verifier, (self._clock.now_us() - verifier.until_us) // 1000))

    async def _compare(self) -> None:
        """Compare rebalances before and after the moves of all groups, for the page and the metrics."""
        verifier, found = self._verifier, dict[str, tuple[Compared, ...]]()
        for name, gains in verifier.gains.items():
            gains.count(verifier.until_us)
            if compared := gains.compared():
                found[name] = compared
            await self._pace.rest()
        if verifier is self._verifier:
            self._show_compared(found)

    def _show_compared(self, found: dict[str, tuple[Compared, ...]]) -> None:
        self._compared, metrics = found, self._metrics
        counts, total_us, verdicts = Counter[Labels](), Counter[Labels](), Counter[str]()
        for one in chain.from_iterable(found.values()):
            verdicts[one.verdict] += 1
            for phase, side in (("before", one.before), ("moving", one.moving), ("after", one.after)):
                counts[one.kind, phase] += side.count
                total_us[one.kind, phase] += side.total_us
        for labels in product(KINDS, ("before", "moving", "after")):
            metrics.proof_rebalances.labels(*labels).set(counts[labels])
            metrics.proof_stopped.labels(*labels).set(total_us[labels] / _US)
        for verdict in VERDICTS:
            metrics.proof_compared.labels(verdict).set(verdicts[verdict])

    async def _keep_reading(self, open_: Open) -> None:
        while True:
            self._forget_all()
            if not self._election.is_own_turn():
                self._state, self._note = "elsewhere", None
                await trio.sleep(LOOK_EVERY_S)
                continue
            self._state = "reading"
            try:
                async with open_() as read:
                    _log.info("the journal is verified here from now on")
                    await self._read(read)
            except JournalUnreadable as error:
                self._metrics.proof_errors.inc()
                self._state, self._note = "failed", str(error)
                _log.error("the journal can't be verified", reason=str(error))
                await trio.sleep(_AGAIN_S)

    def _forget_all(self) -> None:
        self._verifier = self._new_verifier()
        self._show_compared({})

    async def _read(self, read: ReadNext) -> None:
        delay_us = int(DELAY_S * _US)
        while self._election.is_own_turn():
            found = await read()
            async with self._busy:
                self._pace.begin()
                await self._go_through(found.lines, found.until_ms * 1000 - delay_us)
            behind_s = (self._clock.now_us() // 1000 - found.until_ms) / 1000
            if found.is_at_end or behind_s < DELAY_S:
                self._state, self._note = "live", None
            elif self._state == "reading":
                self._note = f"the topic is read up to {behind_s:.0f} s ago"

    async def _go_through(self, lines: list[bytes | None], until_us: int | None) -> None:
        """Take lines, and go through what is in order before ``until_us``; None: all of it."""
        verifier = self._verifier
        left_out = verifier.left_out
        for start in range(0, len(lines), _AT_ONCE):
            verifier.add(lines[start : start + _AT_ONCE])
            await self._pace.rest()
        while verifier.go_through(verifier.newest_us + 1 if until_us is None else until_us, _AT_ONCE):
            await self._pace.rest()
        self._metrics.proof_left_out.inc(verifier.left_out - left_out)


def _proof_of(verifier: LiveVerifier, ago_ms: int, group_id: str) -> Proof | None:
    """Return the proof of a group for its record in the member log."""
    proven = verifier.proven.get(group_id)
    if proven is None:
        return None
    violated = proven.verdict is Verdict.VIOLATED
    return Proof(
        clean_ms=max(0, proven.until_us - proven.since_us) // 1000,
        ago_ms=max(0, ago_ms),
        violated=violated,
        why="" if violated else "; ".join(proven.why)[:_LONGEST_WHY],
    )


def live_proof(
    config: Config,
    metrics: Metrics,
    clock: WallClock,
    replica: str,
    election: Election | None,
    account: Mapping[str, Property] | None,
) -> LiveProof:
    """Make the live verification of a process: of the journal's topic with a member log, else of its own events.

    ``election`` is among the replicas of the member log, and ``account`` has its properties.
    """
    open_journal = None
    if election is not None and account is not None and config.journal.topic is not None:
        open_journal = topic_of(
            config.journal.topic,
            account,
            metrics.kafka_process_crashes.labels("proof").inc,
        )
    return LiveProof(
        config.verify,
        metrics,
        clock,
        replica,
        is_alone=config.sole_process and config.workers == 1 and config.fleet is None,
        open_=open_journal,
        election=None if open_journal is None else election,
    )
