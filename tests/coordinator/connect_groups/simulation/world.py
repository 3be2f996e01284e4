"""One history: workers, a network that loses, a coordinator that dies, an operator who changes configurations."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from coordinator.connect_groups.coordinator import ConnectGroupCoordinator
from coordinator.connect_groups.settings import ConnectGroupSettings
from coordinator.connect_groups.work import CONNECTOR, Work
from coordinator.log import MemoryLog
from coordinator.log.batches import read_batches
from coordinator.shard import Call
from protocol_codecs import connect_groups as c
from protocol_codecs.codec import decode, encode
from protocol_codecs.message import Message
from protocol_codecs.records import CoordinatorRecord
from tests.coordinator.connect_groups.simulation.judge import Judge, Violation
from tests.coordinator.connect_groups.simulation.worker import (
    GROUP,
    HEARTBEAT_MS,
    SESSION_MS,
    Habits,
    Worker,
)
from tests.coordinator.connect_groups.state import state_of
from tests.simulation.kernel import Kernel

TROUBLE_MS = 90_000
REST_MS = 90_000
SETTINGS = ConnectGroupSettings(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS)


class CoordinatorDies(Exception):
    """Instead of an answer."""


class DyingLog(MemoryLog):
    """A log whose coordinator dies at a change: before it is written, or after."""

    dies_before: Callable[[], bool] = staticmethod(lambda: False)
    dies_after: Callable[[], bool] = staticmethod(lambda: False)

    def append(self, *arguments: Any, **named: Any) -> None:
        if self.dies_before():
            raise CoordinatorDies
        super().append(*arguments, **named)
        if self.dies_after():
            raise CoordinatorDies


class Outcome(msgspec.Struct, frozen=True):
    violation: str | None
    counts: Counter[str]
    longest_turn_ms: int = 0


class World:
    def __init__(self, seed: int | str) -> None:
        self.kernel = Kernel(seed)
        kernel = self.kernel
        self.counts: Counter[str] = Counter()
        self.in_trouble = True
        self.loses = kernel.random.choice((0.0, 0.02, 0.1))
        self.dies = kernel.random.choice((0.0, 0.01, 0.04))
        self.log = DyingLog(codec=c.CONNECT_GROUPS)
        self.log.dies_before = self.log.dies_after = lambda: self.in_trouble and kernel.chance(self.dies / 2)
        self.configs: tuple[int, frozenset[Work]] = (0, _connector("c0", 3) | _connector("c1", 2))
        self._metadata: dict[str, bytes] = {}
        self.workers: dict[str, Worker] = {}
        self.judge = Judge(self.workers)
        self._read_batches = 0
        self.coordinator = self._loaded()
        for number in range(kernel.between(2, 5)):
            self._add_worker(f"w{number}")
        never_right = kernel.chance(0.2)
        if never_right:
            worker = self.workers["w0"]
            worker.habits = msgspec.structs.replace(worker.habits, never_right=True)

    def run(self) -> Outcome:
        try:
            self.kernel.after(1_000, self._something_happens)
            self.kernel.run_until(TROUBLE_MS)
            self._end_trouble()
            self.kernel.run_until(TROUBLE_MS + REST_MS)
            self._check_rest()
        except Violation as violation:
            return Outcome(str(violation), self.counts, self.judge.longest_turn_ms)
        self.counts["targets"] = self.judge.targets
        return Outcome(None, self.counts, self.judge.longest_turn_ms)

    def fail(self, reason: str) -> None:
        raise Violation(reason)

    def metadata_of(self, member_id: str) -> bytes:
        return self._metadata.get(member_id, b"")

    # The network

    def send(self, request: Message, then: Callable[[Any], None]) -> None:
        self.kernel.after(self.kernel.between(1, 60), self._arrives, request, then)

    def _arrives(self, request: Message, then: Callable[[Any], None]) -> None:
        if self._is_lost():
            return
        request = decode(type(request), c.VERSION, encode(request, c.VERSION))
        self._advance()
        response: Message | None = None
        try:
            response = self.coordinator.handle(request, Call(1, 0, "c", "/h"), self.kernel.now_ms)
        except CoordinatorDies:
            self.judge.served(request, None, self._written(), self.kernel.now_ms)
            self._restart(clean=False)
            return
        self.judge.served(request, response, self._written(), self.kernel.now_ms)
        code = getattr(response, "error_code", 0)
        self.counts[f"{type(request).__name__} {code}"] += 1
        self._wake()
        if not self._is_lost():
            response = decode(type(response), c.VERSION, encode(response, c.VERSION))
            self.kernel.after(self.kernel.between(1, 60), then, response)

    def _is_lost(self) -> bool:
        return self.in_trouble and self.kernel.chance(self.loses)

    # The coordinator

    def _loaded(self) -> ConnectGroupCoordinator:
        coordinator = ConnectGroupCoordinator(SETTINGS, log=self.log)
        coordinator.load(self.kernel.now_ms)
        return coordinator

    def _restart(self, *, clean: bool) -> None:
        self.counts["restarts" if clean else "deaths"] += 1
        before = state_of(self.coordinator.shard.groups)
        self.coordinator = self._loaded()
        if clean and state_of(self.coordinator.shard.groups) != before:
            self.fail("a restart finds another state")
        self.judge.restarted()
        self._wake()

    def _written(self) -> list[CoordinatorRecord]:
        new = self.log.batches[self._read_batches :]
        self._read_batches = len(self.log.batches)
        return [record for batch in _decoded(new) for record in batch]

    def _wake(self) -> None:
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is not None:
            self.kernel.at(deadline_ms, self._advance)

    def _advance(self) -> None:
        try:
            self.coordinator.advance(self.kernel.now_ms)
        except CoordinatorDies:
            self.judge.timers_fired(self._written(), self.kernel.now_ms)
            self._restart(clean=False)
            return
        self.judge.timers_fired(self._written(), self.kernel.now_ms)

    # What happens

    def crash(self, worker: Worker) -> None:
        self.counts["crashes"] += 1
        worker.die()
        self.kernel.after(self.kernel.between(100, 3 * SESSION_MS), self._start_again, worker, worker.life)

    def _start_again(self, worker: Worker, life: int) -> None:
        if worker.life == life and not worker.is_alive:
            worker.start()

    def _something_happens(self) -> None:
        if not self.in_trouble:
            return
        kernel = self.kernel
        alive = [worker for worker in self.workers.values() if worker.is_alive]
        what = kernel.random.choice(("config", "crash", "leave", "add", "restart", "metadata", "nothing"))
        self.counts[what] += 1
        if what == "config":
            self._change_configs()
        elif what == "crash" and alive:
            self.crash(kernel.random.choice(alive))
        elif what == "leave" and alive:
            worker = kernel.random.choice(alive)
            worker.leave()
            kernel.after(kernel.between(100, 9_000), self._start_again, worker, worker.life)
        elif what == "add" and len(self.workers) < 7:
            self._add_worker(f"w{len(self.workers)}")
        elif what == "restart":
            self._restart(clean=True)
        elif what == "metadata" and alive:
            member_id = kernel.random.choice(alive).member_id
            self._metadata[member_id] = str(kernel.now_ms).encode()
        kernel.after(kernel.between(200, 12_000), self._something_happens)

    def _change_configs(self) -> None:
        """Add a connector, take it away, or change its tasks; it may also stay as it is, with a newer offset."""
        _, works = self.configs
        name = f"c{self.kernel.between(0, 4)}"
        works = frozenset(work for work in works if work.connector != name)
        if self.kernel.chance(0.7):
            works |= _connector(name, self.kernel.between(0, 4))
        self._configure(works)

    def _configure(self, works: frozenset[Work]) -> None:
        self.configs = self.configs[0] + 1, works
        for worker in self.workers.values():
            self.kernel.after(self.kernel.between(1, 3_000), worker.read_configs)

    def _add_worker(self, member_id: str) -> None:
        kernel = self.kernel

        def sometimes(probability: float) -> float:
            return probability if kernel.chance(0.4) else 0.0

        habits = Habits(
            rebalance_timeout_ms=kernel.between(3_000, 6_000),
            wrong=sometimes(0.5),
            dies_computing=sometimes(0.3),
            slow_computing=sometimes(0.5),
            slow_stopping=sometimes(0.3),
            fails=sometimes(0.2),
            keeps_old_epoch=sometimes(0.5),
            says_too_little=sometimes(0.5),
        )
        self.workers[member_id] = Worker(self, member_id, habits)
        self.workers[member_id].start()

    def _end_trouble(self) -> None:
        self.in_trouble = False
        for worker in self.workers.values():
            worker.habits = Habits(
                rebalance_timeout_ms=worker.habits.rebalance_timeout_ms, never_right=worker.habits.never_right
            )
            if not worker.is_alive:
                worker.start()
            worker.read_configs()
        # An assignor that says that it failed leaves all as it is until something changes. A connector that was never
        # configured before is a change, whatever the workers have read until now.
        self._configure(self.configs[1] | _connector("c-last", self.kernel.between(0, 4)))
        self.kernel.after(REST_MS // 2, self._one_dies_for_good)

    def _one_dies_for_good(self) -> None:
        """What it ran has to go to others, although nothing else changes. One that computes rightly stays."""
        others = [worker for worker in self.workers.values() if not worker.habits.never_right]
        if len(others) > 1:
            others[0].die()

    def _check_rest(self) -> None:
        group = self.coordinator.shard.groups.get(GROUP)
        epochs = {worker.epoch for worker in self.workers.values() if worker.is_alive}
        self.judge.at_the_end(
            self.configs[1], epochs | ({-1} if group is None else {group.group_epoch, group.assignment_epoch})
        )


def _connector(name: str, tasks: int) -> frozenset[Work]:
    return frozenset(Work(name, number) for number in (CONNECTOR, *range(tasks)))


def _decoded(batches: list[bytes]) -> list[tuple[CoordinatorRecord, ...]]:
    return [
        logged.records
        for one in batches
        for _, logged in read_batches(one, "log", c.CONNECT_GROUPS, gaps=True)
    ]
