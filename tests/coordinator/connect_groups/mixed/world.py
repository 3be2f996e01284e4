"""The embedded coordinator with a group of both kinds of workers, and what has to hold after every step.

1. No connector and no task runs on two workers. A dead one counts until its session has ended. In one of four
   histories workers stand still for longer than their session, and this holds in the end only.
2. A classic worker hears no error that its calls do not have (:data:`CONTRACT`).
3. Generation and group epoch never go back, also when the group is converted.
4. In the end all that is configured runs, nobody joins any more, and all know the same leader.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from coordinator.classic_groups.group import ClassicGroup
from coordinator.config import CoordinatorConfig
from coordinator.connect_groups.coordinator import HANDLERS, ConnectGroupCoordinator
from coordinator.connect_groups.formats import Said, for_leader
from coordinator.connect_groups.settings import ConnectGroupSettings
from coordinator.connect_groups.work import Work, WorkSet, as_message, from_message
from coordinator.group_coordinator import GroupCoordinator
from coordinator.log import MemoryLog
from coordinator.shard import Call
from coordinator.uuids import SeededUuids
from hosting.groups.member import HostedCall
from hosting.groups.room import HostedAnswer
from protocol_codecs import ErrorCode
from protocol_codecs import connect_groups as c
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from protocol_codecs.message import Message
from tests.coordinator.connect_groups.state import state_of
from tests.hosting.groups.connect import world as hosted
from tests.hosting.groups.connect.assignor import Works, ordered
from tests.hosting.groups.connect.world import GROUP, REBALANCE_MS, SESSION_MS

HEARTBEAT_MS, VERSION = 3_000, 4
SETTINGS = ConnectGroupSettings(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS)
_E = ErrorCode
CONTRACT: dict[type[Message], frozenset[ErrorCode]] = {
    JoinGroupRequest: frozenset({_E.MEMBER_ID_REQUIRED, _E.UNKNOWN_MEMBER_ID, _E.REBALANCE_IN_PROGRESS}),
    SyncGroupRequest: frozenset({_E.REBALANCE_IN_PROGRESS, _E.ILLEGAL_GENERATION, _E.UNKNOWN_MEMBER_ID}),
    HeartbeatRequest: frozenset({_E.REBALANCE_IN_PROGRESS, _E.ILLEGAL_GENERATION, _E.UNKNOWN_MEMBER_ID}),
    LeaveGroupRequest: frozenset(),
}
"""What Connect's AbstractCoordinator takes from each call, and goes on."""


class Room:
    """Both coordinators of one shard, as the embedded broker puts them together."""

    def __init__(self, logs: tuple[MemoryLog, MemoryLog], number: int, now_ms: int) -> None:
        config = CoordinatorConfig(classic_initial_rebalance_delay_ms=1_000)
        self.groups = GroupCoordinator(config, uuids=SeededUuids(number), log=logs[0])
        self.groups.load(now_ms)
        self.connect = ConnectGroupCoordinator(SETTINGS, log=logs[1], others=self.groups.shard)
        self.connect.load(now_ms)
        self._calls: dict[int, HostedCall] = {}

    def handle(self, call: HostedCall, message: Message, now_ms: int) -> list[HostedAnswer]:
        self._calls[call.key] = call
        due = self.advance(now_ms)
        request = Call(call.key, VERSION, call.connection, "/h")
        if type(message) in HANDLERS or self.connect.serves(message):
            due.append(HostedAnswer(self._calls.pop(call.key), self.connect.handle(message, request, now_ms)))
            return due + self._answers(self.groups.advance(now_ms))
        return due + self._answers(self.groups.handle(message, request, now_ms))

    def advance(self, now_ms: int) -> list[HostedAnswer]:
        self.connect.advance(now_ms)
        return self._answers(self.groups.advance(now_ms))

    def next_deadline_ms(self) -> int | None:
        due = [self.connect.next_deadline_ms(), self.groups.next_deadline_ms()]
        return min((one for one in due if one is not None), default=None)

    def client_gone(self, name: str, _now_ms: int) -> list[HostedAnswer]:
        for key in [key for key, call in self._calls.items() if call.connection == name]:
            self.groups.forget(key)
            del self._calls[key]
        return []

    def epoch(self) -> int | None:
        """The group epoch, or the generation; None if there is no group."""
        group = self.connect.shard.groups.get(GROUP)
        if group is not None:
            return group.group_epoch
        classic = self.groups.shard.groups.get(GROUP)
        return classic.generation if isinstance(classic, ClassicGroup) else None

    def _answers(self, replies: Any) -> list[HostedAnswer]:
        return [
            HostedAnswer(self._calls.pop(one.request_id), one.response)
            for one in replies
            if one.request_id in self._calls
        ]


class ClassicWorker(hosted.Worker):
    """A worker that speaks JoinGroup to LeaveGroup."""

    least_generation = 0

    def _joined(self, response: Any) -> None:
        if response.error_code == _E.MEMBER_ID_REQUIRED:
            self.waits, self.member_id, self.least_generation = False, response.member_id, 0
            self._next(self._join)
            return
        if not response.error_code:
            # A worker that stood still may find another group of that name: its own has ended.
            is_back = response.generation_id < self.least_generation
            assert not is_back or self.world.has_zombies, "a generation goes back"
            self.least_generation = response.generation_id
        super()._joined(response)


class NewWorker:
    """A worker that speaks ConnectGroupHeartbeat: stops first, says so, starts what it is given."""

    def __init__(self, world: "MixedWorld", name: str) -> None:
        self.world, self.name, self.member_id = world, name, f"new-{name}"
        self.url = f"http://{name}/"
        self.epoch = 0
        self.runs: Works = {}
        self.read = world.latest
        self.alive, self.waits, self.leads = True, False, False
        self.dead_since_ms: int | None = None
        self.joins = self.lost_answers = 0
        self.due_ms = world.now_ms
        self._does: Callable[[], None] = self._beat
        self._heard_ms = world.now_ms
        self._declared = -1

    def act(self) -> None:
        self._does()

    def _next(self, does: Callable[[], None], in_ms: int = 0) -> None:
        self._does, self.due_ms = does, self.world.now_ms + in_ms

    def _beat(self) -> None:
        said, read = frozenset(self.runs), self.read
        news = self.epoch == 0 or read != self._declared
        request = c.ConnectGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            client_assignors=offers(self.url, read) if self.epoch == 0 else None,
            connectors_and_tasks=as_message(said),
            config_offset=read if news else -1,
            configured=as_message(self.world.configured_at(read)) if news else None,
        )
        self.world.send(self, request, lambda response: self._beaten(response, read))

    def _beaten(self, response: Any, read: int) -> None:
        self._heard_ms = self.world.now_ms
        if response.error_code in {_E.UNKNOWN_MEMBER_ID, _E.FENCED_MEMBER_EPOCH}:
            self.epoch, self.runs, self._declared = 0, {}, -1
            self._next(self._beat)
            return
        assert response.error_code == 0, f"{self.name}: {response.error_code} {response.error_message}"
        assert response.member_epoch >= self.epoch, "a member epoch goes back"
        self.epoch, self._declared = response.member_epoch, read
        then = self._prepare if response.should_compute_assignment else self._rest
        if response.assignment is None:
            self._next(then)
            return
        may_run = from_message(response.assignment.connectors_and_tasks)
        stops = not may_run >= frozenset(self.runs)
        takes_ms = self.world.random.choice((0, 100, 2_500)) if stops else 0
        self._next(lambda: self._take(may_run, then, stopped=stops), takes_ms)

    def _take(self, may_run: WorkSet, then: Callable[[], None], *, stopped: bool) -> None:
        self.runs = ordered(sorted(may_run))
        self.world.check(f"{self.name} has its part")
        self._next(self._beat if stopped else then)

    def _rest(self) -> None:
        self._next(self._beat, HEARTBEAT_MS)

    def _prepare(self) -> None:
        request = c.ConnectGroupPrepareAssignmentRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch
        )
        self.world.send(self, request, self._prepared)

    def _prepared(self, response: Any) -> None:
        if response.error_code:
            self._next(self._beat, 100)
            return
        self.world.counts["computed by a new worker"] += 1
        self._next(lambda: self._install(response), self.world.random.choice((0, 0, 50, 2_000)))

    def _install(self, prepared: Any) -> None:
        request = installing(GROUP, self.member_id, self.epoch, prepared)
        self.world.send(self, request, lambda _response: self._next(self._beat, 100))

    # -- what happens to it

    def lost(self) -> None:
        self.lost_answers -= 1
        self.world.disconnect(self)
        self._next(self._beat, self.world.random.choice((0, 100, 5_000)))

    def reads(self) -> None:
        self.read = self.world.latest

    def leave(self) -> None:
        self.alive, self.runs = False, {}
        request = c.ConnectGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        if self.epoch:
            self.world.send(self, request, lambda _response: None)
        self.world.disconnect(self)

    def freeze(self, ms: int) -> None:
        """Stand still for longer than its session, with all that it runs, and go on."""
        self.due_ms = self.world.now_ms + ms

    def die(self) -> None:
        self.alive, self.dead_since_ms = False, self._heard_ms
        self.world.disconnect(self)


def offers(url: str, config_offset: int) -> tuple[c.ConnectAssignor, ...]:
    """What a new worker declares, so that classic ones can be in its group: their protocols, and their metadata."""
    metadata = for_leader(Said(url, config_offset, frozenset()), "sessioned")
    return tuple(
        c.ConnectAssignor(name=name, minimum_version=1, maximum_version=2, version=2, metadata=metadata)
        for name in ("sessioned", "compatible")
    )


def installing(
    group_id: str, member_id: str, epoch: int, prepared: c.ConnectGroupPrepareAssignmentResponse
) -> c.ConnectGroupInstallAssignmentRequest:
    """Compute an assignment: keep what is there, and give what is free to who has least."""
    configured = from_message(prepared.configured)
    parts = {
        one.member_id: sorted(from_message(one.connectors_and_tasks) & configured) for one in prepared.members
    }
    most = -(-len(configured) // len(parts))
    given: set[Work] = set()
    for part in parts.values():
        part[:] = [work for work in part if work not in given][:most]
        given |= set(part)
    for work in sorted(configured - given):
        min(parts.values(), key=len).append(work)
    return c.ConnectGroupInstallAssignmentRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        group_epoch=prepared.group_epoch,
        members=tuple(
            c.ConnectGroupInstallAssignmentRequestMember(
                member_id=one, connectors_and_tasks=as_message(part), version=2
            )
            for one, part in parts.items()
        ),
    )


class MixedWorld(hosted.World):
    """A group, its workers of both kinds, the configurations, the clock and the checks."""

    def __init__(self, seed: int) -> None:
        self.logs = MemoryLog(), MemoryLog(codec=c.CONNECT_GROUPS)
        self.counts: Counter[str] = Counter()
        self.largest_epoch: int | None = None
        self._was_connect = False
        super().__init__(seed)
        # As in Kafka, a classic group that was read from the log has forgotten all protocols but the chosen one.
        self.has_zombies = self.random.random() < 0.25
        self.restarts = self.random.choice(("restart", "compatible"))

    def start_room(self) -> None:
        self._rooms += 1
        before = state_of(self.room.connect.shard.groups) if self._rooms > 1 else None
        lost = list(dict.fromkeys(worker for worker, _ in self._waiting.values()))
        self._waiting = {}
        self.room = Room(self.logs, self._rooms, self.now_ms)
        assert before is None or before == state_of(self.room.connect.shard.groups), (
            "a restart finds another state"
        )
        self.largest_epoch = self.room.epoch()
        if GROUP not in self.room.connect.shard.groups:  # a classic group has logged only what is complete
            for one in self.of_kind(ClassicWorker):
                one.least_generation = 0
        for worker in lost:
            if worker.alive:
                worker.lost()

    def add(self, max_delay_ms: int = 0, protocols: tuple[str, ...] = ("sessioned", "compatible")) -> Any:
        worker = ClassicWorker(self, f"w{len(self.workers) + 1}", max_delay_ms, protocols)
        self.workers.append(worker)
        return worker

    def add_new(self) -> NewWorker:
        worker = NewWorker(self, f"w{len(self.workers) + 1}")
        self.workers.append(worker)  # type: ignore[arg-type]
        return worker

    def of_kind(self, kind: type) -> list[Any]:
        return [one for one in self.alive if isinstance(one, kind)]

    def send(self, worker: Any, message: Message, on_answer: Callable[[Any], None]) -> None:
        allowed = CONTRACT.get(type(message))

        def judged(response: Any) -> None:
            code = ErrorCode(response.error_code)
            self.counts[f"{type(message).__name__} {code.name if code < 1_000 else int(code)}"] += 1
            assert allowed is None or not code or code in allowed, f"{type(message).__name__}: {code.name}"
            on_answer(response)

        super().send(worker, message, judged)

    def _deliver(self, answers: list[HostedAnswer]) -> None:
        epoch = self.room.epoch()
        is_connect = GROUP in self.room.connect.shard.groups
        if is_connect != self._was_connect:
            self.counts["upgrade" if is_connect else "downgrade"] += 1
            self._was_connect = is_connect
        if epoch is not None:
            is_back = self.largest_epoch is not None and epoch < self.largest_epoch
            assert not is_back, f"from epoch {self.largest_epoch} to {epoch}"
        self.largest_epoch = epoch
        for answer in answers:
            worker, on_answer = self._waiting.pop(answer.call.key, (None, None))
            if worker is None or on_answer is None or not worker.alive:
                continue
            if worker.lost_answers > 0:
                worker.lost()
            else:
                on_answer(answer.message)

    def check(self, when: str) -> None:
        if self.has_zombies:  # a classic worker runs on what is a member no longer; in the end that is mended
            return
        owners: dict[Work, list[str]] = {}
        for one in self.workers:
            died = one.dead_since_ms
            if one.alive or (died is not None and self.now_ms < died + SESSION_MS):
                for work in one.runs:
                    owners.setdefault(work, []).append(one.name)
        twice = {str(work): names for work, names in owners.items() if len(names) > 1}
        assert not twice, f"at {self.now_ms} ms, as {when}: {twice}"

    def settled(self) -> None:
        """Wait until the group has come to rest; it has to in some minutes."""
        wrong: str | None = "it was not tried"
        for _ in range(18):
            before = sum(one.joins for one in self.alive)
            self.run(10_000)
            wrong = self._unrest()
            if wrong is None and sum(one.joins for one in self.alive) == before:
                return
        raise AssertionError(wrong or "workers go on joining")

    def _unrest(self) -> str | None:
        configured = self.configured_at(self.latest)
        running = sorted(work for one in self.alive for work in one.runs if work in configured)
        if running != sorted(configured):
            return str({one.name: list(map(str, one.runs)) for one in self.alive})
        leaders = {one.assigned.leader for one in self.of_kind(ClassicWorker) if one.assigned is not None}
        if len(leaders) > 1:
            return f"{leaders} lead"
        group = self.room.connect.shard.groups.get(GROUP)
        if (group is not None) != bool(self.of_kind(NewWorker)):
            return "the group has not the type of its workers"
        if group is not None:
            epochs = {one.member_epoch for one in group.members.values()}
            if epochs | {group.assignment_epoch} != {group.group_epoch}:
                return f"epochs {epochs}, group epoch {group.group_epoch}"
        return None


def history(seed: int) -> tuple[str | None, Counter[str]]:
    """Run one; return what is wrong, if anything, and what happened."""
    world = MixedWorld(seed)
    try:
        _run(world)
    except AssertionError as violation:
        return str(violation) or repr(violation), world.counts
    return None, world.counts


def _run(world: MixedWorld) -> None:
    random = world.random
    delay_ms = random.choice((0, 5_000, 20_000))
    for _ in range(random.randint(1, 4)):
        world.add(delay_ms)
    for name in ("orders", "refunds", "returns")[: random.randint(0, 3)]:
        world.configure(**{name: random.randint(0, 5)})
    for step in range(random.randint(3, 14)):
        world.run(random.choice((5, 300, 2_000, 4_000, 12_000, 40_000)))
        _something_happens(world, delay_ms, step)
    for one in world.alive:
        one.lost_answers = 0
    if not world.alive:
        world.add(delay_ms)
    world.settled()
    # All the way to the new protocol, and all the way back.
    for kind, add in ((ClassicWorker, world.add_new), (NewWorker, lambda: world.add(delay_ms))):
        for one in world.of_kind(kind):
            one.leave()
            world.run(random.choice((0, 3_000)))
            add()
            world.run(random.choice((5, 4_000, 30_000)))
        if not world.alive:
            add()
        world.settled()


def _something_happens(world: MixedWorld, delay_ms: int, step: int) -> None:
    random = world.random
    possible = ["add", "new", "new", "leave", "die", "write", "write", "roll", "roll", "lose", world.restarts]
    what = random.choice(possible + ["freeze"] * 3 * world.has_zombies)
    one = random.choice(world.alive) if world.alive else None
    world.counts[what] += 1
    if one is None or what == "add":
        world.add(delay_ms)
    elif what == "compatible":
        world.add(delay_ms, protocols=("compatible",))
    elif what == "new":
        world.add_new()
    elif what == "leave":
        one.leave()
    elif what == "die":
        one.die()
    elif what == "roll":
        one.leave()
        world.run(random.choice((0, 3_000)))
        if isinstance(one, NewWorker):
            world.add(delay_ms)
        else:
            world.add_new()
    elif what == "lose":
        one.lost_answers = random.choice((1, 1, 2))
    elif what == "freeze":
        one.freeze(random.choice((11_000, 25_000, 60_000)))
    elif what == "restart":
        world.start_room()
    else:
        name = random.choice(("orders", "refunds", "returns", f"c{step}"))
        world.configure(**{name: random.choice((-1, 0, 2, 5))})
