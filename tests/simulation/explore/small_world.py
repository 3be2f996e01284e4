"""A world whose next event somebody else chooses: which message arrives, whether time passes, what goes wrong."""

from typing import Any

from protocol_codecs import ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.offset_commit import OffsetCommitResponse
from tests.simulation.clients.classic import ClassicClient
from tests.simulation.fingerprint import fingerprint
from tests.simulation.network import Link, Network, Pipe
from tests.simulation.plan import ClientPlan, Plan
from tests.simulation.settling import why_not_settled
from tests.simulation.violation import Violation
from tests.simulation.wire import Reply
from tests.simulation.world import World
from translation.member_log.member_log import MemberLog
from translation.settings import TranslatorSettings
from translation.translator import Translator

TICK_MS = 1_000
SETTLES_WITHIN_MS = 90_000


Choice = str


class ManualNetwork(Network):
    """A network whose messages wait until the explorer delivers them; with ``free`` they arrive at once, in order."""

    def __init__(self, world: World) -> None:
        super().__init__(world.kernel, lambda: 0)
        self.links: list[Link] = []
        self.free = True

    def connect(self, name: str, near: Any, far: Any, *about: Any) -> Link:
        link = super().connect(name, near, far, *about)
        self.links.append(link)
        return link

    def carry(self, pipe: Pipe) -> None:
        if self.free:
            super().carry(pipe)

    def is_due(self, pipe: Pipe) -> bool:
        return self.free and super().is_due(pipe)  # what waits to be chosen has not arrived

    def waiting(self) -> list[tuple[str, Pipe]]:
        return [
            (f"{link.name} {way}", pipe)
            for link in self.links
            for way, pipe in (("->", link.to_far), ("<-", link.to_near))
            if pipe.in_flight and not pipe.broken
        ]


def small_plan(*clients: ClientPlan, processes: int = 1, fleet: bool = False) -> Plan:
    """Return the plan of a scope: its clients, one topic with two partitions, and nothing that happens by chance."""
    return Plan(
        seed=0,
        topics={"orders": 2},
        broker_session_ms=12_000,
        broker_heartbeat_ms=5_000,
        assignment_interval_ms=0,
        processes=processes,
        slow_network=False,
        fleet=fleet,
        clients=clients,
        faults=(),
        calm_from_ms=0,
    )


class SmallWorld(World):
    """The world of a scope, and its possible next events. It begins at ``from_ms`` and ends at ``until_ms``."""

    def __init__(self, plan: Plan, *, from_ms: int, until_ms: int, faults: int) -> None:
        self.until_ms = until_ms
        self.faults_left = faults
        super().__init__(plan)
        self.hands = ManualNetwork(self)
        self.network = self.hands
        for process in self.processes:
            process._network = self.hands
        self.prepare()
        self.kernel.run_until(from_ms - 1)
        self.hold_everything()

    def _translator(self, member_log: MemberLog | None) -> Translator:
        settings = TranslatorSettings(
            sole_process=self.plan.processes == 1,
            # Its own times, in step with the clients', so that they meet.
            join_poll_s=1.0,
            join_wait_s=2.0,
            assignment_interval_s=1.0,
            addition_debounce_s=1.0,
        )
        return Translator(self.policy, settings=settings, new_uuid=self._new_uuid, member_log=member_log)

    # -- what a scope may add ------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Arrange something before time begins."""

    def hold_everything(self) -> None:
        """From now on nothing arrives unless it is chosen."""
        self.hands.free = False

    def let_everything_go(self) -> None:
        """From now on everything arrives at once, in order."""
        self.hands.free = True
        for _, pipe in self.hands.waiting():
            for _ in pipe.in_flight:
                self.hands.carry(pipe)

    def in_flight(self) -> list[Choice]:
        """Return what is on its way: any of it may arrive next."""
        return [f"deliver {name}" for name, _ in self.hands.waiting()]

    def turns(self) -> list[Choice]:
        """Return what else may happen, that is no fault."""
        return []

    def faults(self) -> list[str]:
        """Return what may go wrong now."""
        cuts = [f"cut {link.name}" for link in self.hands.links if self._is_whole(link)]
        return cuts + [f"crash {client}" for client in self.alive()] + self.crashes()

    def crashes(self) -> list[str]:
        """Return which processes of the proxy may crash."""
        return [f"crash {process}" for process in self.processes]

    def happen(self, kind: str, whom: str) -> None:
        """Let something go wrong."""
        if kind == "cut":
            link = next(link for link in self.hands.links if link.name == whom)
            link.cut(near_hears_ms=0, far_hears_ms=0)
        elif kind == "crash":
            self._crash(whom)

    def _crash(self, whom: str) -> None:
        for process in self.processes:
            if process.name == whom:
                process.crash()
                process.start()
                return
        next(client for client in self.alive() if client.name == whom).stop("crashed")

    def more_state(self) -> list[Any]:
        """Return what else makes two states different."""
        return []

    # -- choices -------------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        """Return a fingerprint, equal for states that go on alike."""
        pipes = [(link.name, link.to_far.in_flight, link.to_near.in_flight) for link in self.hands.links]
        return fingerprint(
            self.faults_left,
            self.kernel,
            self.clients,
            self.processes,
            self.broker,
            pipes,
            self.watch.standings,
            *self.more_state(),
        )

    def choices(self) -> list[Choice]:
        """Return the possible next events."""
        self._due()
        if not self.faults_left:
            for name, pipe in self.hands.waiting():
                if self._commutes(pipe):
                    return [f"deliver {name}"]
        waiting = self.in_flight()
        over = (self.kernel.next_at() or 0) > self.until_ms
        choices = waiting + self.turns()
        if not waiting and not over:
            choices.append("time")
        if self.faults_left and not (over and not waiting):
            if waiting and not over:
                choices.append("fault: time passes")
            choices += [f"fault: {fault}" for fault in self.faults()]
        return choices

    def _due(self) -> None:
        """Run everything that is due now."""
        self.kernel.run_until(self.kernel.now_ms)

    @staticmethod
    def _commutes(pipe: Pipe) -> bool:
        """Whether the next delivery of a pipe commutes with all others (see the package)."""
        client, reply = pipe.party, pipe.in_flight[0]
        if not isinstance(client, ClassicClient) or not isinstance(reply, Reply):
            return False
        if list(client.lines.values()) != [pipe.link] or list(client._outstanding) != [pipe.link]:
            return False
        match reply.message:
            case HeartbeatResponse(error_code=code):
                return code in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}
            case JoinGroupResponse(error_code=code):
                return code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}
            case OffsetCommitResponse(topics=topics):
                return all(part.error_code == ErrorCode.NONE for topic in topics for part in topic.partitions)
        return False

    @staticmethod
    def _is_whole(link: Link) -> bool:
        return link.open_for(link.near) and link.open_for(link.far) and not link.to_far.broken

    def take(self, choice: Choice) -> None:
        """Perform a choice."""
        kind, _, what = choice.partition(" ")
        if kind == "deliver":
            next(pipe for name, pipe in self.hands.waiting() if name == what).deliver()
        elif choice in {"time", "fault: time passes"}:
            self.kernel.run_until(self.kernel.next_at() or 0)
        elif kind != "fault:":
            self.take_turn(kind, what)
        if kind == "fault:":
            self.faults_left -= 1
            self.note_fault(what)
            fault, _, whom = what.partition(" ")
            self.happen(fault, whom)
        self._due()

    def take_turn(self, kind: str, what: str) -> None:
        """Perform one of :meth:`turns`, or of what a scope adds to :meth:`in_flight`."""
        raise ValueError(f"{kind} {what}")

    def note_fault(self, what: str) -> None:
        """Tell the watch that somebody's way to the broker is broken."""
        self.watch.fault(what)
        for standing in self.watch.standings.values():
            standing.broken_ms = self.kernel.now_ms

    def settle(self) -> None:
        """Deliver everything in order from here on; the group must settle."""
        self.let_everything_go()
        end_ms = self.kernel.now_ms + SETTLES_WITHIN_MS
        while why_not_settled(self) is not None:
            if self.kernel.now_ms >= end_ms:
                raise Violation(4, f"not settled: {why_not_settled(self)}")
            self.kernel.run_until(self.kernel.now_ms + TICK_MS)
