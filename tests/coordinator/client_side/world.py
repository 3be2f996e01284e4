"""Plays a history: one coordinator, its log, a network that loses messages, members, and a judge, in virtual time."""

import heapq
import random
from collections.abc import Callable

import msgspec

from coordinator.config import CoordinatorConfig
from coordinator.errors import CoordinatorError
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage, TopicImage
from coordinator.log import MemoryLog
from coordinator.shard import Call
from coordinator.snapshot import persistent
from coordinator.uuids import SeededUuids
from protocol_codecs.codec import decode, encode
from protocol_codecs.experimental import (
    CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS,
    ClientAssignorsHeartbeatRequest,
)
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid
from tests.coordinator.client_side.assignors import Kind
from tests.coordinator.client_side.judge import Judge, Violation
from tests.coordinator.client_side.members import GROUP, Member
from tests.coordinator.client_side.plan import HEARTBEAT_MS, Plan, make_plan

_START_MS = 1_000_000
_MOST_STEPS = 200_000
_MOST_PARTITIONS = 8


class Result(msgspec.Struct, frozen=True):
    """How a history ended: ``failure`` is empty if everything held."""

    seed: int
    failure: str
    steps: int
    counts: dict[str, int]
    story: tuple[str, ...]


class World:
    """One history."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed)  # noqa: S311
        self.now = _START_MS
        self.steps = 0
        self.story: list[str] = []
        self.gone: set[str] = set()
        """Members that are not there any more."""
        self.members: list[Member] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._requests = 0
        self._joined = 0
        self.image = MetadataImage(
            [TopicImage(Uuid(bytes([65 + n]) * 16), f"t{n}", self.rng.randint(1, 5)) for n in range(2)]
        )
        self.config = CoordinatorConfig(
            experimental_client_assignors=True,
            consumer_session_timeout_ms=plan.session_ms,
            consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            consumer_assignment_interval_ms=plan.assignment_interval_ms,
        )
        self.log = MemoryLog(codec=CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS)
        self.judge = Judge(self, plan)
        self.coordinator = self._started()

    def run(self) -> Result:
        failure = ""
        try:
            self._play()
        except (Violation, CoordinatorError) as found:
            failure = f"{type(found).__name__}: {found}"
        return Result(self.plan.seed, failure, self.steps, self.judge.counts, tuple(self.story))

    def _play(self) -> None:
        for number in range(self.plan.members):
            self.after(
                self.rng.randint(0, 3_000), lambda number=number: self._join(static=number < self.plan.static)
            )
        for at_ms, event in self.plan.events:
            self.after(at_ms, lambda event=event: self._happen(event))
        self.after(self.plan.faults_end_ms, self._end_faults)
        deadline = _START_MS + self.plan.deadline_ms
        while True:
            at_ms = self._queue[0][0]
            timer_ms = self.coordinator.next_deadline_ms()
            if timer_ms is not None and timer_ms <= at_ms:
                self.now = max(self.now, timer_ms)
                self.judge.before()
                self.coordinator.advance(self.now)
                self.judge.timers_fired()
            else:
                self.now, _, action = heapq.heappop(self._queue)
                self.judge.before()
                action()
            self.steps += 1
            self.judge.check_owners()
            if self._is_quiet() and self.judge.is_settled():
                return
            if self._is_quiet() and self.judge.has_failed and self._clients():
                self.judge.has_failed = False
                self._ask_again(self._clients()[0])
            if self.now > deadline:
                raise Violation("it does not settle after the faults have ended")
            if self.steps > _MOST_STEPS:
                raise Violation("it never ends")

    # For members

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._sequence, action))

    def note(self, what: str) -> None:
        self.story.append(f"{(self.now - _START_MS) / 1000:9.3f}  {what}")

    def send(self, member: Member, request: Message, answered: Callable[[Message], None]) -> None:
        """Send a request; the answer comes later, or never."""
        version = 1 if isinstance(request, ClientAssignorsHeartbeatRequest) else 0
        content = encode(request, version)
        if self._is_lost():
            return
        self.after(
            self.rng.randint(1, 40), lambda: self._serve(member, type(request), content, version, answered)
        )

    def kind_for(self, member: Member) -> Kind:
        """What the member's assignor does this time."""
        kind = Kind.RIGHT if self._is_quiet() else self.rng.choice(self.plan.kinds)
        self.judge.count(f"computes: {kind}")
        return kind

    def die(self, member: Member) -> None:
        self.note(f"{member.member_id} dies")
        self._remove(member)
        if self._is_quiet() and not self._clients():
            self._join()  # it began to compute before faults ended

    # The coordinator

    def _serve(
        self,
        member: Member,
        request_type: type[Message],
        content: bytes,
        version: int,
        answered: Callable[[Message], None],
    ) -> None:
        self._requests += 1
        request = decode(request_type, version, content)
        replies = self.coordinator.handle(request, Call(self._requests, version, "client", "/host"), self.now)
        (reply,) = replies
        self.judge.handled(member.member_id, request, reply.response)
        response = decode(type(reply.response), version, encode(reply.response, version))
        self._note_exchange(member, request, response)
        if not self._is_lost():
            self.after(self.rng.randint(1, 40), lambda: answered(response))

    def _note_exchange(self, member: Member, request: Message, response: Message) -> None:
        name = type(request).__name__.removesuffix("Request").removeprefix("ConsumerGroup")
        computes = " compute!" if getattr(response, "should_compute_assignment", False) else ""
        self.note(
            f"{member.member_id} {name} epoch {getattr(request, 'member_epoch', '')}: "
            f"{getattr(response, 'error_code', '')} {getattr(response, 'error_message', None) or ''}{computes} "
            f"group {self.judge.group_epoch} target {self.judge.target_epoch}"
        )

    def _started(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, uuids=SeededUuids(1), log=self.log, image=self.image)
        coordinator.load(self.now)
        return coordinator

    def _restart(self) -> None:
        before = persistent(self.coordinator)
        self.log = MemoryLog(self.log.batches, codec=CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS)
        self.coordinator = self._started()
        if persistent(self.coordinator) != before:
            raise Violation("another group after a restart")
        self.judge.restarted()

    # What happens

    def _is_quiet(self) -> bool:
        return self.now >= _START_MS + self.plan.faults_end_ms

    def _is_lost(self) -> bool:
        return not self._is_quiet() and self.rng.random() < self.plan.loss

    def _end_faults(self) -> None:
        self.note("faults end")
        if not self._clients():
            self._join()
        for member in self.members:
            if member.server_side:
                self._leave(member)
        if not self._clients():
            self._join()

    def _clients(self) -> list[Member]:
        return [member for member in self.members if member.is_alive and not member.server_side]

    def _join(
        self, *, static: bool = False, server_side: bool = False, topics: set[str] | None = None
    ) -> None:
        self._joined += 1
        member_id = f"m{self._joined}"
        instance_id = f"i{self._joined}" if static else None
        self._start(member_id, instance_id, topics or self._topics(), server_side=server_side)

    def _start(
        self, member_id: str, instance_id: str | None, topics: set[str], *, server_side: bool = False
    ) -> None:
        self.note(f"{member_id} starts {instance_id or ''}{' on the server side' if server_side else ''}")
        self.members.append(Member(self, member_id, topics, instance_id=instance_id, server_side=server_side))

    def _topics(self) -> set[str]:
        return self.rng.choice([{"t0"}, {"t0", "t1"}, {"t0", "t1"}, {"t1"}])

    def _remove(self, member: Member) -> None:
        member.is_alive = False
        member.owned = set()
        self.gone.add(member.member_id)
        self.members = [one for one in self.members if one is not member]

    def _leave(self, member: Member, *, epoch: int = -1) -> None:
        self.note(f"{member.member_id} leaves with {epoch}")
        self._remove(member)
        request = ClientAssignorsHeartbeatRequest(
            group_id=GROUP, member_id=member.member_id, member_epoch=epoch, instance_id=member.instance_id
        )
        self.send(member, request, lambda _: None)

    def _happen(self, event: str) -> None:
        if self._is_quiet():
            return
        self.note(event)
        clients = self._clients()
        member = self.rng.choice(clients) if clients else None
        match event:
            case "join":
                self._join()
            case "server side":
                self._join(server_side=True)
                joined = self.members[-1]
                self.after(self.rng.randint(3_000, 15_000), lambda: self._leave_if_there(joined))
            case "restart":
                self._restart()
            case "more partitions":
                self._add_partition()
            case _ if member is not None:
                self._happen_to(member, event)

    def _happen_to(self, member: Member, event: str) -> None:
        match event:
            case "leave":
                self._leave(member)
            case "die":
                self.die(member)
            case "bounce":
                self._bounce(member)
            case "subscribe":
                member.topics = self._topics()
                member.declared.add("topics")
            case "metadata":
                self._ask_again(member)
            case "intrude":
                member.intrude()

    def _add_partition(self) -> None:
        topic = self.rng.choice(list(self.image.topics.values()))
        if topic.partitions < _MOST_PARTITIONS:
            more = msgspec.structs.replace(topic, partitions=topic.partitions + 1)
            self.image = self.image.with_topic(more)
            self.coordinator.update_image(self.image, self.now)
            self.judge.timers_fired()

    def _ask_again(self, member: Member) -> None:
        """The member has other metadata, which asks for a new assignment."""
        member.metadata = f"{self.rng.randrange(1000)} of {member.member_id} at {self.now}".encode()
        member.reason = self.rng.randint(0, 2)
        member.declared.add("metadata")

    def _leave_if_there(self, member: Member) -> None:
        if member in self.members:
            self._leave(member)

    def _bounce(self, member: Member) -> None:
        """A static member comes back under another id; others, under the same."""
        if member.instance_id is None or member.epoch <= 0:
            return
        self._leave(member, epoch=-2)
        self._joined += 1
        again = f"m{self._joined}"
        self.after(self.rng.randint(50, 3_000), lambda: self._start(again, member.instance_id, member.topics))


def play(seed: int) -> Result:
    """Play the history of a seed."""
    return World(make_plan(seed)).run()
