"""One classic member, two replicas with a member log, one topic with two partitions.

The member is served by the first replica when everything begins. From then on its calls, the replicas' calls at the
broker, and the records of the log are in flight at once: each producer's next record may land, and each replica may
read the next record, at any moment, before or after any message. So either replica may lag behind the other by any
number of records.

A *move* is no fault: at any moment the client goes to the other replica, as often as the scope says. It closes its
connections, or leaves them open, as a client does that was told to look for its coordinator; then it may come back to
them after half of its session.

Faults, beside those of connections and of the client:

* a replica crashes and is back at once, or stands still until it is chosen to go on, with its deadlines first or
  what has arrived;
* a replica reads nothing of the log, or writes nothing, until it is chosen to go on;
* the writes of a replica fail: what was on its way is lost, or lands all the same;
* a replica is told that the log was truncated, and reads it again;
* time passes although messages, or records, are in flight.
"""

from collections import deque
from typing import Any

import msgspec

from tests.simulation.clients.classic import ClassicClient, Pace, Phase
from tests.simulation.clients.habits import JAVA_COOPERATIVE, JAVA_EAGER, Habits
from tests.simulation.explore.small_world import TICK_MS, Choice, SmallWorld, small_plan
from tests.simulation.fleet.log_topic import LogTopic, LogWay, Written
from tests.simulation.network import Link
from tests.simulation.plan import ClientPlan, Plan
from tests.simulation.proxy_process import ProxyProcess

SESSION_MS = 6_000
"""The shortest that brokers take."""
LASTS_MS = SESSION_MS + 3_000
"""How long a fault that has not ended by the horizon goes on, with everything else in order."""


class TwoReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """What to explore. ``moves`` is how often the client may go to the other replica."""

    name: str
    habits: Habits = JAVA_EAGER
    moves: int = 1
    faults: int = 1
    from_ms: int = 4_000
    until_ms: int = 8_000

    def world(self) -> "FleetWorld":
        """Return the member served by the first of the two replicas."""
        pace = Pace(
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            heartbeat_ms=TICK_MS,
            poll_ms=TICK_MS,
            commit_ms=2 * TICK_MS,
            revoke_ms=0,
        )
        client = ClientPlan(
            name="a",
            starts_ms=0,
            habits=self.habits,
            pace=pace,
            topics=frozenset({"orders"}),
            instance_id=None,
        )
        plan = small_plan(client, processes=2, fleet=True)
        return FleetWorld(
            plan, from_ms=self.from_ms, until_ms=self.until_ms, faults=self.faults, moves=self.moves
        )


SCOPES = (
    TwoReplicas(name="eager, two replicas"),
    TwoReplicas(name="cooperative, two replicas", habits=JAVA_COOPERATIVE),
)


class _ManualTopic(LogTopic):
    """A member log whose records land, and are read, when the explorer says so; with ``free`` at once, in order."""

    free = True

    def delay_ms(self) -> int:
        return 0

    def pauses_reading(self) -> bool:
        return False

    def carry(self, way: LogWay, queue: deque[Written], at_ms: int) -> None:
        if self.free:
            super().carry(way, queue, at_ms)
        elif not any(queue is one for _, one in self.queues):
            self.queues.append((way, queue))

    def wake(self, way: LogWay, at_ms: int) -> None:
        if self.free:
            super().wake(way, at_ms)
        else:
            way.sleeps()

    def keeps_what_failed(self) -> bool:
        return self.keeps

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.queues: list[tuple[LogWay, deque[Written]]] = []
        """Of every producer that has anything on its way, replaced ones and those of dead processes too."""
        self.keeps = False
        """What becomes of what is on its way when the next producer is replaced."""


class FleetWorld(SmallWorld):
    """The world of a scope."""

    log_topic: _ManualTopic

    def __init__(self, plan: Plan, *, from_ms: int, until_ms: int, faults: int, moves: int) -> None:
        self.moves_left = moves
        self.cannot_write: set[str] = set()
        self.cannot_read: set[str] = set()
        self.stands_still: set[str] = set()
        self._left: tuple[int, dict[str, Link]] | None = None
        """When the client left its connections open, and which."""
        super().__init__(plan, from_ms=from_ms, until_ms=until_ms, faults=faults)

    def _log_topic(self) -> LogTopic:
        return _ManualTopic(self.kernel, self.watch.log, self.plan.seed)

    def prepare(self) -> None:
        self.homes["/a"] = 0

    def hold_everything(self) -> None:
        super().hold_everything()
        self.log_topic.free = False

    def let_everything_go(self) -> None:
        """What lasts still lasts for longer than the session, so that it ends one if it can."""
        kernel = self.kernel
        until_ms = kernel.now_ms + LASTS_MS
        self.log_topic.free = True
        for way, queue in self.log_topic.queues:
            for written in queue:
                kernel.at(until_ms if way.name in self.cannot_write else 0, way.land, queue, written)
        for way in self.log_topic.ways:
            if way.name in self.cannot_write:
                way.cannot_write_until_ms = until_ms
            if way.name in self.cannot_read:
                way.cannot_read_until_ms = until_ms
            way.read_soon()
        for process in self.processes:
            if process.name in self.stands_still:
                kernel.at(until_ms, self._go_on, process)
        super().let_everything_go()

    # -- what may come next ----------------------------------------------------------------------------------------

    def in_flight(self) -> list[Choice]:
        landing = [
            f"land {way.name} {number}"
            for number, (way, queue) in enumerate(self.log_topic.queues)
            if queue and way.name not in self.cannot_write
        ]
        reading = [
            f"read {way.name}"
            for way in self.log_topic.ways
            if way.has_more() and way.name not in self.cannot_read | self.stands_still
        ]
        return super().in_flight() + landing + reading

    def turns(self) -> list[Choice]:
        ended = [f"on {name}" for name in sorted(self.cannot_read | self.cannot_write | self.stands_still)]
        ended += [f"late {name}" for name in sorted(self.stands_still)]
        client = self._client()
        if client is None:
            return ended
        if self._left is not None and self.kernel.now_ms - self._left[0] >= SESSION_MS // 2:
            ended.append("back a")
        if self.moves_left and client.lines:
            ended.append("move a")
            if client.phase is Phase.STABLE:
                ended.append("leave a")
        return ended

    def take_turn(self, kind: str, what: str) -> None:
        match kind:
            case "land":
                way, queue = self.log_topic.queues[int(what.split()[1])]
                way.land(queue, queue[0])
            case "read":
                next(way for way in self.log_topic.ways if way.name == what).read_one()
            case "on" | "late":
                process = next(process for process in self.processes if process.name == what)
                self._go_on(process, timers_first=kind == "late")
            case _:
                self._move(kind)

    def _client(self) -> ClassicClient | None:
        return next((one for one in self.alive() if isinstance(one, ClassicClient)), None)

    def _move(self, how: str) -> None:
        client = self._client()
        assert client is not None
        self.homes[client.host] = 1 - self.homes[client.host]
        self.watch.note("move", f"{client} {how}s: {self.process_of(client)} serves it from now on")
        standing = self.watch.standings[client]
        standing.is_cut_off_for(0)
        standing.moved = True
        if how == "back":
            assert self._left is not None
            left, self._left = self._left[1], None
            client.return_to_lines(left)
            return
        self.moves_left -= 1
        if how == "leave":
            self._left = self.kernel.now_ms, client.leave_lines()
        else:
            client.close_lines()

    def _go_on(self, process: ProxyProcess, *, timers_first: bool = False) -> None:
        for names in (self.cannot_read, self.cannot_write, self.stands_still):
            names.discard(process.name)
        process.resume(timers_first=timers_first)

    # -- faults ----------------------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        names = [process.name for process in self.processes]
        kinds = ("still", "unreadable", "unwritable", "lost", "fails", "truncated")
        return super().faults() + [f"{kind} {name}" for kind in kinds for name in names]

    def happen(self, kind: str, whom: str) -> None:
        process = next((process for process in self.processes if process.name == whom), None)
        if process is None or process.member_log is None or kind in {"cut", "crash"}:
            super().happen(kind, whom)
            return
        way = process.member_log
        match kind:
            case "still":
                self.stands_still.add(whom)
                process.pause()
            case "unreadable":
                self.cannot_read.add(whom)
            case "unwritable":
                self.cannot_write.add(whom)
            case "lost" | "fails":
                self.log_topic.keeps = kind == "fails"
                way.fail()
            case "truncated":
                way.lose()

    def more_state(self) -> list[Any]:
        return [
            self.moves_left,
            self.cannot_read,
            self.cannot_write,
            self.stands_still,
            self._left,
            self.homes,
        ]
