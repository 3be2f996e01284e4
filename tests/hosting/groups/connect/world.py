"""Workers of Kafka Connect in virtual time, their topic of configurations, and the room that hosts their group.

A worker does what Kafka's ``WorkerCoordinator`` and ``DistributedHerder`` do: it keeps what it runs while it joins, and
when it has lost its membership; stops what is revoked, which takes time, and joins again; joins again when it has read
other configurations than its leader, when another is written, when a delay of its leader is over. Its assignor is
Kafka's (:mod:`.assignor`). ``World`` checks after every step that nothing runs on two workers, and that one leads.
"""

import random
from collections.abc import Callable

from coordinator.connect_groups import formats
from coordinator.connect_groups.formats import Difference, Said
from coordinator.connect_groups.work import CONNECTOR, Work
from coordinator.uuids import SeededUuids
from hosting.groups.connect.rules import ConnectRules
from hosting.groups.member import HostedCall
from hosting.groups.room import HostedAnswer, HostedGroups
from hosting.groups.settings import HostedSettings
from protocol_codecs import ErrorCode
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol_codecs.codec import encode
from protocol_codecs.messages.connect_protocol import decode_assignment, decode_metadata
from tests.hosting.groups.connect.assignor import IncrementalAssignor, Works, ordered

GROUP = "connect-cluster"
SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 10_000, 3_000, 60_000
JOIN_VERSION = 5
NEVER = 1 << 62
_MISMATCH = 1


class Worker:
    """One worker. It does one thing each time it is called; ``due_ms`` is when it wants to be called."""

    def __init__(self, world: "World", name: str, max_delay_ms: int, protocols: tuple[str, ...]) -> None:
        self.world, self.name, self.protocols = world, name, protocols
        self.url = f"http://{name}/"
        self.member_id, self.generation, self.last_completed = "", -1, -1
        self.runs: Works = {}
        """What it has started, or has not stopped yet."""
        self.read = world.latest
        """How many entries of the topic of configurations it has read."""
        self.assigned: Difference | None = None
        self.protocol: str | None = None
        self.assignor = IncrementalAssignor(max_delay_ms)
        self.alive = True
        self.dead_since_ms: int | None = None
        self.frozen = False
        self.waits = False
        self.joins = 0
        self.lost_answers = 0
        """How many answers it is still to lose."""
        self.due_ms = world.now_ms
        self._does: Callable[[], None] = self._join
        self._rejoins_ms = NEVER
        self._heard_ms = world.now_ms

    @property
    def leads(self) -> bool:
        """Whether it believes to lead."""
        return bool(self.member_id) and self.assigned is not None and self.assigned.leader == self.member_id

    def act(self) -> None:
        """Do what is due."""
        self._does()

    def _next(self, does: Callable[[], None], in_ms: int = 0) -> None:
        self._does, self.due_ms = does, self.world.now_ms + in_ms

    # -- the group

    def rejoin(self, in_ms: int = 0) -> None:
        """Join again as soon as nothing else is under way (``requestRejoin``)."""
        if self._does == self._idle:
            self._next(self._join, in_ms)
        else:
            self._rejoins_ms = self.world.now_ms + in_ms

    def _join(self) -> None:
        self.joins += 1
        self.waits, self._rejoins_ms = True, NEVER
        said = Said(self.url, self.read, frozenset(self.runs))
        self.world.send(
            self,
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type="connect",
                protocols=tuple(
                    JoinGroupRequestProtocol(name=name, metadata=formats.for_leader(said, name))
                    for name in self.protocols
                ),
            ),
            self._joined,
        )

    def _joined(self, response) -> None:
        self.waits = False
        self._heard_ms = self.world.now_ms
        if response.error_code:
            self._failed(response.error_code)
            return
        self.member_id, self.generation = response.member_id, response.generation_id
        self.protocol = response.protocol_name
        computed: dict[str, bytes] = {}
        if response.leader == self.member_id:
            computed = self._compute(response.members)
        self._next(lambda: self._sync(computed), self.world.random.choice((0, 0, 0, 50, 2_000)))

    def _compute(self, members) -> dict[str, bytes]:
        """``performAssignment``."""
        self.world.rounds += 1
        said = {one.member_id: decode_metadata(one.metadata)[1] for one in members}
        runs = {
            member_id: [
                Work(listed.connector, task)
                for listed in (
                    decode_assignment(one.allocation)[1].assignment or () if one.allocation else ()
                )
                for task in listed.tasks
            ]
            for member_id, one in said.items()
        }
        offset = max(one.config_offset for one in said.values())
        url = said[self.member_id].url
        if self.read < offset:
            if self.world.random.random() < 0.5:
                failed = Difference(_MISMATCH, self.member_id, url, offset, frozenset(), frozenset())
                return {member_id: formats.for_worker(failed, self.protocol) for member_id in said}
            self.read = self.world.latest  # as configFreshSnapshot may have it
        offset = max(offset, self.read)
        configured = self.world.configured_at(self.read)
        done = self.assignor.compute(
            configured, self.last_completed, self.generation, runs, self.world.now_ms
        )
        return {
            member_id: formats.for_worker(
                Difference(
                    0,
                    self.member_id,
                    url,
                    offset,
                    frozenset(done.assigned[member_id]),
                    frozenset(done.revoked[member_id]),
                    done.delay_ms,
                ),
                self.protocol,
            )
            for member_id in said
        }

    def _sync(self, computed: dict[str, bytes]) -> None:
        self.world.send(
            self,
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_name=self.protocol,
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=member_id, assignment=content)
                    for member_id, content in computed.items()
                ),
            ),
            self._synced,
        )

    def _synced(self, response) -> None:
        self._heard_ms = self.world.now_ms
        if response.error_code:
            self._failed(response.error_code)
            return
        difference = formats.read_differences({"": response.assignment})[""]
        self.world.check(f"{self.name} hears of its part")
        takes_ms = self.world.random.choice((0, 100, 2_500)) if difference.revoked else 0
        self._next(lambda: self._apply(difference), takes_ms)

    def _apply(self, difference: Difference) -> None:
        """``onJoinComplete`` and ``handleRebalanceCompleted``, after everything revoked has been stopped."""
        self.runs = ordered([work for work in self.runs if work not in difference.revoked])
        self.runs |= ordered(sorted(difference.assigned))
        self.assigned, self.last_completed = difference, self.generation
        self.world.check(f"{self.name} has its part")
        self._next(self._idle, 0)
        if difference.error or self.read < difference.config_offset:
            self.read = self.world.latest
        if difference.error or self.read != difference.config_offset or difference.revoked:
            self._next(self._join)
        elif difference.delay_ms:
            self._rejoins_ms = min(self._rejoins_ms, self.world.now_ms + difference.delay_ms)

    def _idle(self) -> None:
        if self._rejoins_ms <= self.world.now_ms:
            self._join()
            return
        self.world.send(
            self,
            HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id),
            self._beaten,
        )

    def _beaten(self, response) -> None:
        if response.error_code:
            self._failed(response.error_code)
            return
        self._heard_ms = self.world.now_ms
        self._next(self._idle, HEARTBEAT_MS)
        self.due_ms = max(self.world.now_ms, min(self.due_ms, self._rejoins_ms))

    def _failed(self, code: int) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._next(self._join, self.world.random.choice((0, 0, 100)))

    def lost(self) -> None:
        """An answer does not come: the connection has ended."""
        self.lost_answers -= 1
        self.waits = False
        self.world.disconnect(self)
        self._next(self._join, self.world.random.choice((0, 100, 5_000)))

    # -- what happens to it

    def reads(self) -> None:
        """Read all that is written."""
        if self.read < self.world.latest:
            self.read = self.world.latest
            self.rejoin()

    def leave(self) -> None:
        """Stop everything, and leave the group."""
        self.alive, self.runs = False, {}
        if self.member_id:
            one = MemberIdentity(member_id=self.member_id)
            self.world.send(self, LeaveGroupRequest(group_id=GROUP, members=(one,)), lambda _: None)
        self.world.disconnect(self)

    def die(self) -> None:
        """Be killed, or hang: what it ran counts until its session has ended."""
        self.alive = False
        self.dead_since_ms = self.world.now_ms if self.waits else self._heard_ms
        self.world.disconnect(self)

    def freeze(self, ms: int) -> None:
        """Stand still for longer than its session, with all that it runs, and go on."""
        if self.waits:
            return
        self.due_ms = self.world.now_ms + ms


class World:
    """The group, its workers, the configurations, the clock and the checks."""

    def __init__(self, seed: int, settings: HostedSettings | None = None) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.now_ms = 0
        self.workers: list[Worker] = []
        self.rounds = 0
        self.checks_owners = True
        self._configs: list[dict[str, int]] = [{}]
        self._reading: list[tuple[int, Worker]] = []
        self._ids = 0
        self._waiting: dict[int, tuple[Worker, Callable]] = {}
        self._calls = 0
        self._settings = settings or HostedSettings()
        self._rooms = 0
        self._seed = seed
        self.start_room()

    def start_room(self) -> None:
        """Start the proxy, again: what it knew is gone, and what waits is never answered."""
        self._rooms += 1
        lost = list(dict.fromkeys(worker for worker, _ in self._waiting.values()))
        self._waiting = {}
        self.room = HostedGroups(
            self._settings,
            new_id=self._new_id,
            uuids=SeededUuids(f"{self._seed}/{self._rooms}"),
            now_ms=self.now_ms,
        )
        for worker in lost:
            if worker.alive:
                worker.lost()

    def _new_id(self) -> str:
        self._ids += 1
        return f"hosted-{self._ids:03}"

    @property
    def rules(self) -> ConnectRules:
        """The rules of the group."""
        return self.room.groups[GROUP].rules

    def add(self, max_delay_ms: int = 0, protocols: tuple[str, ...] = ("sessioned", "compatible")) -> Worker:
        """Start a worker."""
        worker = Worker(self, f"w{len(self.workers) + 1}", max_delay_ms, protocols)
        self.workers.append(worker)
        return worker

    @property
    def alive(self) -> list[Worker]:
        """The workers that live."""
        return [one for one in self.workers if one.alive]

    # -- configurations

    @property
    def latest(self) -> int:
        """How many entries the topic of configurations has."""
        return len(self._configs) - 1

    @property
    def connectors(self) -> dict[str, int]:
        """What is configured, with the tasks of each."""
        return self._configs[-1]

    def configured_at(self, offset: int) -> Works:
        """What is configured after so many entries."""
        return ordered(
            Work(name, task)
            for name, tasks in self._configs[offset].items()
            for task in range(CONNECTOR, tasks)
        )

    def configure(self, **connectors: int) -> None:
        """Write configurations: connectors with so many tasks; -1 deletes one. Workers read them a little later."""
        self._configs.append(
            {name: tasks for name, tasks in {**self.connectors, **connectors}.items() if tasks >= 0}
        )
        for worker in self.alive:
            self._reading.append((self.now_ms + self.random.choice((0, 20, 700)), worker))

    def write_at(self, worker: Worker, **connectors: int) -> bool:
        """Write at a worker's REST API: it sends the call to its leader, which refuses it if it does not lead."""
        url = "" if worker.assigned is None else worker.assigned.leader_url
        leader = next((one for one in self.alive if one.url == url), None)
        if leader is None or not leader.leads:
            return False
        self.configure(**connectors)
        return True

    # -- calls

    def send(self, worker: Worker, message, on_answer: Callable) -> None:
        """Hand a call to the room, and all answers to their workers."""
        self._calls += 1
        worker.due_ms = NEVER
        self._waiting[self._calls] = worker, on_answer
        call = HostedCall(key=self._calls, connection=worker.name, version=JOIN_VERSION)
        self._deliver(self.room.handle(call, message, self.now_ms))

    def disconnect(self, worker: Worker) -> None:
        """The worker's connection ends."""
        self._waiting = {key: one for key, one in self._waiting.items() if one[0] is not worker}
        self._deliver(self.room.client_gone(worker.name, self.now_ms))

    def _deliver(self, answers: list[HostedAnswer]) -> None:
        for answer in answers:
            version = answer.call.version if isinstance(answer.message, JoinGroupResponse) else 3
            encode(answer.message, version)
            worker, on_answer = self._waiting.pop(answer.call.key, (None, None))
            if worker is None or not worker.alive:
                continue
            if worker.lost_answers > 0:
                worker.lost()
            else:
                on_answer(answer.message)

    def run(self, ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + ms
        while True:
            due = [(one.due_ms, n) for n, one in enumerate(self.workers) if one.alive and not one.waits]
            due_of_others = [when for when, _ in self._reading]
            room_due = self.room.next_deadline_ms()
            if room_due is not None:
                due_of_others.append(room_due)
            next_ms = min([when for when, _ in due] + due_of_others, default=NEVER)
            if next_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, next_ms)
            if room_due is not None and room_due <= self.now_ms:
                self._deliver(self.room.advance(self.now_ms))
                continue
            reading = next((one for one in self._reading if one[0] <= self.now_ms), None)
            if reading is not None:
                self._reading.remove(reading)
                if reading[1].alive:
                    reading[1].reads()
                continue
            ready = [n for when, n in due if when <= self.now_ms]
            self.workers[self.random.choice(ready)].act()

    # -- what has to hold

    def check(self, when: str) -> None:
        """Nothing runs on two workers, and one leads. A dead one counts until its session has ended."""
        if not self.checks_owners:
            return
        owners: dict[Work, list[str]] = {}
        leaders = []
        for one in self.workers:
            died = one.dead_since_ms
            if not one.alive and (died is None or self.now_ms >= died + SESSION_MS):
                continue
            leaders += [one.name] if one.leads else []
            for work in one.runs:
                owners.setdefault(work, []).append(one.name)
        twice = {str(work): names for work, names in owners.items() if len(names) > 1}
        assert not twice, f"at {self.now_ms} ms, as {when}: {twice}"
        assert len(leaders) <= 1, f"at {self.now_ms} ms, as {when}: {leaders} lead"

    def settled(self) -> None:
        """All that is configured runs once, spread evenly; one leads, and all know it; nobody joins any more.

        What is configured no longer may run on: a leader that does not remember having assigned it never revokes it
        (Connect's ``deleted`` is what it remembers and is not configured).
        """
        before = sum(one.joins for one in self.alive)
        self.run(30_000)
        assert sum(one.joins for one in self.alive) == before, "workers go on joining"
        configured = self.configured_at(self.latest)
        running = sorted(work for one in self.alive for work in one.runs)
        assert [work for work in running if work in configured] == sorted(configured), {
            one.name: one.runs for one in self.alive
        }
        (leader,) = (one for one in self.alive if one.leads)
        assert {(one.assigned.leader, one.assigned.leader_url) for one in self.alive} == {
            (leader.member_id, leader.url)
        }
        if len(running) > len(configured):
            return
        for is_connector in (True, False):
            sizes = [sum((w.task == CONNECTOR) == is_connector for w in one.runs) for one in self.alive]
            assert max(sizes) - min(sizes) <= 1, sizes
