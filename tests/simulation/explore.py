"""Every interleaving of a small group, instead of many random ones of larger groups.

Two classic members, one member of the new protocol, one topic with two partitions, one process of the proxy. The
first member has both partitions when the other two arrive, all at the same moment and with the same pace, so that
their calls and answers cross in every way. From there on, at every state, any of these may come next:

* the first message in flight on any direction of any connection arrives (deliveries take no time);
* once nothing is in flight: time passes until the next timer or the next call of a client;
* at most once in a history, a *fault*: a connection is cut on either side of the proxy, a client crashes, the proxy
  crashes and is back at once, or time passes although messages are in flight.

States are the same if their fingerprints are (:mod:`tests.simulation.fingerprint`); each is looked at once.
Procedures are generators, which cannot be copied, so a state is reached again by taking the same choices from the
beginning.
The invariants are checked at every step, and from each state at the horizon the run must settle.

What is left out, and why nothing is lost by it:

* A state with one choice only is passed through without being remembered: whoever comes there again comes to the same
  next state, which is remembered if it has a choice.
* When the one fault has happened, an answer on its way to a client that changes nothing which an invariant looks at
  (Heartbeat, a commit, JoinGroup; neither what the client holds nor its contract) arrives first, and alone. Such a
  delivery changes only its client, which hears nothing else meanwhile (it has one connection), and appends to pipes
  that are read in order. So it commutes with every delivery to anybody else, and time does not pass before it has
  arrived. This is a persistent set of one (Godefroid, "Partial-Order Methods for the Verification of Concurrent
  Systems", 1996). Before the fault it would not be: a cut may lose the answer.
"""

import argparse
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import msgspec

from protocol_codecs import ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.offset_commit import OffsetCommitResponse
from tests.simulation.clients.classic import ClassicClient, Pace
from tests.simulation.clients.habits import JAVA_COOPERATIVE, JAVA_EAGER, Habits
from tests.simulation.fingerprint import fingerprint
from tests.simulation.network import Link, Network, Pipe
from tests.simulation.plan import ClientPlan, Plan
from tests.simulation.settling import why_not_settled
from tests.simulation.violation import Violation
from tests.simulation.wire import Reply
from tests.simulation.world import World
from translation.fleet.member_log import MemberLog
from translation.settings import TranslatorSettings
from translation.translator import Translator

_TICK_MS = 1_000
_SETTLES_WITHIN_MS = 90_000

_SETTINGS = TranslatorSettings(
    join_poll_s=1.0, join_wait_s=2.0, assignment_interval_s=1.0, addition_debounce_s=1.0
)
"""The translation's own times, in step with the clients', so that they meet."""

Choice = str


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The small group to explore. ``until_ms`` is the horizon, ``faults`` how many there may be in a history."""

    name: str
    first: Habits = JAVA_EAGER
    second: Habits = JAVA_COOPERATIVE
    arrives_ms: int = 2_000
    until_ms: int = 5_000
    faults: int = 1


SCOPES = (
    Scope(name="eager then cooperative"),
    Scope(name="cooperative then eager", first=JAVA_COOPERATIVE, second=JAVA_EAGER),
    Scope(name="both cooperative", first=JAVA_COOPERATIVE, second=JAVA_COOPERATIVE),
)


class _ManualNetwork(Network):
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


class _SmallWorld(World):
    """The world of a scope, and its possible next events."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.faults_left = scope.faults
        pace = Pace(heartbeat_ms=_TICK_MS, poll_ms=_TICK_MS, commit_ms=2 * _TICK_MS, revoke_ms=0)

        def client(name: str, habits: Habits | None, starts_ms: int) -> ClientPlan:
            return ClientPlan(
                name=name,
                starts_ms=starts_ms,
                habits=habits,
                pace=pace,
                topics=frozenset({"orders"}),
                instance_id=None,
            )

        super().__init__(
            Plan(
                seed=0,
                topics={"orders": 2},
                broker_session_ms=12_000,
                broker_heartbeat_ms=5_000,
                assignment_interval_ms=0,
                processes=1,
                slow_network=False,
                clients=(
                    client("a", scope.first, 0),
                    client("b", scope.second, scope.arrives_ms),
                    client("n", None, scope.arrives_ms),
                ),
                faults=(),
                calm_from_ms=0,
            )
        )
        hands = _ManualNetwork(self)
        self.network = self.processes[0]._network = hands
        self.hands = hands
        self.kernel.run_until(scope.arrives_ms - 1)
        hands.free = False

    def _translator(self, member_log: MemberLog | None) -> Translator:
        return Translator(self.policy, settings=_SETTINGS, new_uuid=self._new_uuid, member_log=member_log)

    def state(self) -> bytes:
        pipes = [(link.name, link.to_far.in_flight, link.to_near.in_flight) for link in self.hands.links]
        return fingerprint(
            self.faults_left,
            self.kernel,
            self.clients,
            self.processes,
            self.broker,
            pipes,
            self.watch.standings,
        )

    # -- choices -------------------------------------------------------------------------------------------------

    def choices(self) -> list[Choice]:
        """Return the possible next events."""
        self._due()
        if not self.faults_left:
            for name, pipe in self.hands.waiting():
                if self._commutes(pipe):
                    return [f"deliver {name}"]
        waiting = [f"deliver {name}" for name, _ in self.hands.waiting()]
        choices = list(waiting)
        over = (self.kernel.next_at() or 0) > self.scope.until_ms
        if not waiting and not over:
            choices.append("time")
        if self.faults_left and not (over and not waiting):
            if waiting and not over:
                choices.append("fault: time passes")
            choices += [f"fault: cut {link.name}" for link in self.hands.links if self._is_whole(link)]
            choices += [f"fault: crash {client}" for client in self.alive()]
            choices.append("fault: crash proxy")
        return choices

    def _due(self) -> None:
        """Run everything that is due now."""
        self.kernel.run_until(self.kernel.now_ms)

    @staticmethod
    def _commutes(pipe: Pipe) -> bool:
        """Whether the next delivery of a pipe commutes with all others (see the module)."""
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
        if kind == "fault:":
            self.faults_left -= 1
            self.watch.fault(what)
            for standing in self.watch.standings.values():
                standing.broken_ms = self.kernel.now_ms
            self._fault(what)
        self._due()

    def _fault(self, what: str) -> None:
        kind, _, whom = what.partition(" ")
        if kind == "cut":
            link = next(link for link in self.hands.links if link.name == whom)
            link.cut(near_hears_ms=0, far_hears_ms=0)
        elif what == "crash proxy":
            self.processes[0].crash()
            self.processes[0].start()
        elif kind == "crash":
            next(client for client in self.alive() if client.name == whom).stop("crashed")

    def settle(self) -> None:
        """Deliver everything in order from here on; the group must settle."""
        self.hands.free = True
        for _, pipe in self.hands.waiting():
            for _ in pipe.in_flight:
                self.hands.carry(pipe)
        end_ms = self.kernel.now_ms + _SETTLES_WITHIN_MS
        while why_not_settled(self) is not None:
            if self.kernel.now_ms >= end_ms:
                raise Violation(4, f"not settled: {why_not_settled(self)}")
            self.kernel.run_until(self.kernel.now_ms + _TICK_MS)


class Exploration(msgspec.Struct, kw_only=True):
    """The result of an exploration. ``complete`` is False if it ended at its limit of states."""

    scope: str
    states: int = 0
    steps: int = 0
    settled: int = 0
    complete: bool = True
    failure: str | None = None
    story: str = ""


def explore(
    scope: Scope, *, limit: int | None = None, progress: Callable[[Exploration], None] = lambda _: None
) -> Exploration:
    """Visit every state of a scope once, depth first; stop at the first violation."""
    found = Exploration(scope=scope.name)
    seen: set[bytes] = set()
    prefixes: list[tuple[Choice, ...]] = [()]
    while prefixes:
        prefix = prefixes.pop()
        world = None
        try:
            world = _SmallWorld(scope)
            for choice in prefix:
                world.choices()
                world.take(choice)
            prefixes.extend(_to_the_end(world, prefix, seen, found))
        except (Violation, AssertionError) as violation:
            found.failure = str(violation)
        except Exception as error:  # noqa: BLE001  a bug in what is explored is a finding like any other
            found.failure = f"{type(error).__name__}: {error}"
        if found.failure is not None:
            if world is not None:
                world.watch.tell("** failure", found.failure)
                found.story = str(world.watch.story)
            break
        if limit is not None and found.states >= limit:
            found.complete = not prefixes
            break
        if found.states % 1_000 == 0:
            progress(found)
    return found


def _to_the_end(
    world: _SmallWorld, prefix: tuple[Choice, ...], seen: set[bytes], found: Exploration
) -> Iterator[tuple[Choice, ...]]:
    """Take first choices from a state until no new state comes; yield the prefixes of the other choices."""
    while True:
        choices = world.choices()
        if len(choices) != 1:
            state = world.state()
            if state in seen:
                return
            seen.add(state)
            found.states += 1
        if not choices or not any(not choice.startswith("fault") for choice in choices):
            found.settled += 1
            yield from ((*prefix, choice) for choice in choices)
            world.settle()
            return
        for choice in choices[1:]:
            yield (*prefix, choice)
        prefix = (*prefix, choices[0])
        found.steps += 1
        world.take(choices[0])


def _explore_one(scope: Scope) -> Exploration:
    def progress(so_far: Exploration) -> None:
        print(f"{so_far.scope}: {so_far.states:,} states so far", flush=True)

    return explore(scope, progress=progress)


def main() -> int:
    """Explore all scopes completely: ``python -m tests.simulation.explore``."""
    parser = argparse.ArgumentParser(prog="tests.simulation.explore", description=__doc__)
    parser.add_argument("--faults", type=int, default=1, help="how many faults there may be in a history")
    parser.add_argument("--until-ms", type=int, default=5_000, help="the horizon, in virtual milliseconds")
    parser.add_argument("--scope", choices=[scope.name for scope in SCOPES], help="one of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    scopes = [
        msgspec.structs.replace(scope, faults=options.faults, until_ms=options.until_ms)
        for scope in SCOPES
        if options.scope in {None, scope.name}
    ]
    failed = False
    with get_context("fork").Pool(options.jobs) as pool:
        for result in pool.imap(_explore_one, scopes):
            ending = result.failure or ("complete" if result.complete else "not complete")
            print(
                f"{result.scope}, {options.faults} faults, to {options.until_ms} ms: {result.states:,} states with a "
                f"choice, {result.steps:,} steps, {result.settled:,} at the horizon: {ending}",
                flush=True,
            )
            if result.failure is not None:
                print(result.story)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
