"""Runs the test: brokers, two replicas with a member log, and a group that its step holds at half of its members.

The folder gets what happened, in files that tests/held/check.py judges:

    <consumer>.<number>.jsonl   events of each consumer process (tests/integration/drivers/line_protocol.py)
    produced.jsonl              every record that was acknowledged; produced.log is what the producer said
    faults.jsonl                each change of the group or the brokers, and when it had healed
    broker/looks.jsonl          who was in the group, as its coordinator described it each second
    run.json                    seed, duration, what the move was at the end, processor time
    journal/<replica>/          each replica's journal

and besides, for people: the replicas' logs and the clients' own.
"""

import contextlib
import functools
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from support import find_broker
from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy
from support.ownership import Partition

from benchmarks.lib.test_bed import cpu_s
from tests.held.looks import Looking
from tests.held.plan import FEWEST, MOST, Change, Step, plan
from tests.jepsen.arena import failure_of
from tests.jepsen.fault_log import FaultLog
from tests.jepsen.producing import Producing

BROKERS = 3
REPLICAS = ("a", "b")
PARTITIONS = 24
RATE = 12
"""Records a second."""

STATICS = ("static-1", "static-2", "static-3")
AT_THE_START = 5
"""Dynamic members."""

STEPS = "1, 50%"
POLICY = f"""\
default: observe
rules:
  - {{pattern: ".*", mode: translate, steps: [{STEPS}], hold_s: 5}}
"""

KEPT_TRANSLATED = 2
"""So many translated members are left in the group: without the last one the broker makes it a classic group, and its
move is held without any (tests/integration/test_steps.py)."""

SESSION_TIMEOUT_MS = 20_000
"""Longer than a coordinator is away that was killed (`broker.session.timeout.ms`, 9 s) and a static member."""

SPEC: Mapping[str, Any] = {
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "heartbeat_interval_ms": 2_000,
    "max_poll_interval_ms": 60_000,
    "auto_commit": False,
    "commit_every_ms": 2_000,
    "own_settings": {"fetch.wait.max.ms": 1_000},
}

BROKER_SETTINGS = {
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.heartbeat.interval.ms": "2000",
}

RESTART_S = 3.0
START_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 300.0

Say = Callable[[str], None]


@dataclass
class Member:
    """A place in the group, and the process that has it."""

    place: str
    is_static: bool
    process: ConsumerProcess
    is_leaving: bool = False


class Scene:
    """All processes of a run. `run` is the whole test."""

    def __init__(self, folder: Path, seed: int, seconds: float, assignor: str, say: Say) -> None:
        self._folder = folder
        self._seed = seed
        self._seconds = seconds
        self._assignor = assignor
        self._say = say
        self._group = f"held-{seed}"
        self._members: list[Member] = []
        self._coming: list[tuple[float, int, Callable[[], None]]] = []
        """What is started again, and when."""
        self._order = count()
        self._numbers = count(1)
        self._starts = count(1)

    def run(self) -> None:
        """Run the plan. Raises AssertionError if the group is not whole, or not at its step, some time after it."""
        with contextlib.ExitStack() as stack:
            self._faults = FaultLog(self._folder / "faults.jsonl")
            stack.callback(self._faults.close)
            self._cluster = stack.enter_context(
                find_broker.own_cluster(f"held-{self._seed}", brokers=BROKERS, overrides=BROKER_SETTINGS)
            )
            self._start(stack)
            self._wait(self._is_settled, "the step is reached", START_TIMEOUT_S)
            began = time.monotonic()
            self._write_about()
            self._producing.start()
            for step in plan(self._seed, self._seconds):
                self._go_on_until(began + step.at_s)
                self._change(step)
            self._go_on_until(began + self._seconds)
            while self._coming:
                self._go_on_until(self._coming[0][0])
            self._say(
                "nothing changes any more; waiting until the group has read everything and is at its step"
            )
            self._producing.stop()
            self._wait(self._is_finished, "everything is read and has an owner", SETTLE_TIMEOUT_S)
            self._wait(self._is_settled, "the step is reached again", SETTLE_TIMEOUT_S)
            self._write_about(
                move=self._move(),
                proxy_cpu_s=[round(cpu_s(proxy.pid), 1) for proxy in self._proxies],
                lasted_s=round(time.monotonic() - began, 1),
            )
            self._looking.stop()
            for member in self._members:
                member.process.close()

    # Start.

    def _start(self, stack: contextlib.ExitStack) -> None:
        bootstrap = self._cluster.bootstrap
        self._kafka = Kafka(bootstrap, source="own", version=self._cluster.version)
        self._topic = self._kafka.new_topic("held", partitions=PARTITIONS)
        fleet = {
            "kafka": {"bootstrap.servers": bootstrap},
            "topic": "members",
            "partitions": 4,
            "replication": BROKERS,
            "expires": True,
        }
        self._proxies = [
            Proxy(
                bootstrap,
                self._folder / f"proxy-{name}",
                policy=POLICY,
                sole_process=False,
                fleet=fleet,
                journal={"path": str(self._folder / "journal" / name)},
            )
            for name in REPLICAS
        ]
        for proxy in self._proxies:
            proxy.start()
            stack.callback(proxy.stop)
        self._producing = Producing(
            bootstrap, self._topic, PARTITIONS, self._folder / "produced.jsonl", rate=RATE
        )
        stack.callback(self._producing.stop)
        self._consumers = Consumers(self._folder)
        stack.callback(self._consumers.end)
        for name in STATICS:
            self._members.append(Member(name, is_static=True, process=self._process(name, is_static=True)))
        for _ in range(AT_THE_START):
            self._add()
        self._looking = Looking(
            [broker.address for broker in self._cluster.brokers],
            self._group,
            self._folder / "broker" / "looks.jsonl",
        )
        stack.callback(self._looking.stop)

    def _write_about(self, **more: object) -> None:
        about = {
            "seed": self._seed,
            "seconds": self._seconds,
            "kafka": self._cluster.version,
            "topic": self._topic,
            "group": self._group,
            "partitions": PARTITIONS,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "fleet": True,
            "steps": STEPS,
            "assignor": self._assignor,
            "consumers": [f"{CONFLUENT} {CONFLUENT.version()}, {self._assignor}"],
            **more,
        }
        (self._folder / "run.json").write_text(json.dumps(about, indent=1) + "\n")

    def _process(self, place: str, *, is_static: bool) -> ConsumerProcess:
        """A new process; a Service would give it to either replica, and here they take turns."""
        number = next(self._starts)
        return self._consumers.start(
            CONFLUENT,
            self._proxies[number % len(self._proxies)].bootstrap,
            self._group,
            self._topic,
            self._assignor,
            name=f"{place}.{number}",
            instance_id=place if is_static else None,
            **SPEC,
        )

    # What happens to the group.

    def _change(self, step: Step) -> None:
        match step.change:
            case Change.ADD if len(self._dynamic()) < MOST:
                self._note(step, self._add().process)
            case Change.REMOVE | Change.LOSE if len(self._dynamic()) > FEWEST:
                self._remove(step)
            case Change.ADD | Change.REMOVE | Change.LOSE:
                pass  # there are as many, or as few, as may be
            case Change.RESTART_STATIC | Change.CRASH_STATIC:
                self._restart_static(step)
            case Change.KILL_COORDINATOR | Change.STOP_COORDINATOR:
                self._fail_over(step)

    def _add(self) -> Member:
        place = f"dynamic-{next(self._numbers)}"
        member = Member(place, is_static=False, process=self._process(place, is_static=False))
        self._members.append(member)
        return member

    def _remove(self, step: Step) -> None:
        translated = self._translated()
        those = [
            one
            for one in self._dynamic()
            if one.process.name not in translated or len(translated) > KEPT_TRANSLATED
        ]
        if not those:
            return
        member = those[int(step.pick * len(those))]
        self._note(step, member.process)
        if step.change is Change.LOSE:
            member.process.kill()
            self._members.remove(member)
        else:
            member.is_leaving = True
            member.process.send("close")

    def _restart_static(self, step: Step) -> None:
        those = [one for one in self._members if one.is_static and not one.is_leaving]
        if not those:
            return
        member = those[int(step.pick * len(those))]
        self._note(step, member.process)
        member.is_leaving = True
        if step.change is Change.CRASH_STATIC:
            member.process.kill()
        else:
            member.process.send("close")

        def come_back() -> None:
            if member.process.ended:
                member.process = self._process(member.place, is_static=True)
                member.is_leaving = False
                self._faults.note("healed", member.place)
            else:  # it still closes, and no two processes of one instance id run at once
                self._later(1.0, come_back)

        self._later(step.away_s, come_back)

    def _fail_over(self, step: Step) -> None:
        if any(broker.pid() is None for broker in self._cluster.brokers):
            return
        node = self._coordinator()
        if node is None:
            self._later(1.0, functools.partial(self._fail_over, step))
            return
        self._say(f"          {step.change} {node}")
        self._faults.note(step.change, "broker", node=node)
        if step.change is Change.KILL_COORDINATOR:
            self._cluster.kill_broker(node)
        else:
            self._cluster.stop_broker(node)

        def start() -> None:
            self._cluster.start_broker(node)
            self._faults.note("healed", "broker")

        self._later(step.away_s, start)

    def _coordinator(self) -> int | None:
        address = self._looking.last.coordinator
        return next((one.node_id for one in self._cluster.brokers if one.address == address), None)

    def _note(self, step: Step, process: ConsumerProcess) -> None:
        self._say(f"          {step.change} {process.name}")
        self._faults.note(step.change, process.name.rpartition(".")[0], process=process.name)

    # Time.

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._coming.append((time.monotonic() + seconds, next(self._order), act))
        self._coming.sort(key=lambda entry: entry[:2])

    def _go_on_until(self, when: float) -> None:
        """Wait, and meanwhile start what is due, also in place of processes that failed by themselves."""
        while True:
            now = time.monotonic()
            while self._coming and self._coming[0][0] <= now:
                self._coming.pop(0)[2]()
            self._look_after()
            if now >= when:
                return
            time.sleep(min(0.5, when - now))

    def _look_after(self) -> None:
        for member in list(self._members):
            process = member.process
            if member.is_leaving:
                if process.ended and not member.is_static:
                    self._members.remove(member)
                continue
            failure = failure_of(process)
            if failure is None:
                continue
            self._faults.note("failed", member.place, process=process.name, why=str(failure.fields))
            self._say(f"          {process.name} failed by itself: {failure.fields}")
            if not process.ended:
                process.kill()
            member.is_leaving = True

            def come_back(member: Member = member) -> None:
                member.process = self._process(member.place, is_static=member.is_static)
                member.is_leaving = False

            self._later(RESTART_S, come_back)
        for name, proxy in zip(REPLICAS, self._proxies, strict=True):
            assert proxy.alive, f"replica {name} ended by itself:\n{proxy.last_words()}"

    def _wait(self, is_so: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                stories = "\n".join(one.process.story() for one in self._members)
                seen = f"{self._looking.last}, {self._move()}"
                raise AssertionError(
                    f"{timeout_s:.0f} s passed while waiting until {what}: {seen}\n{stories}"
                )
            self._go_on_until(time.monotonic() + 1.0)

    # What is so.

    def _dynamic(self) -> list[Member]:
        return [one for one in self._members if not one.is_static and not one.is_leaving]

    def _translated(self) -> set[str]:
        """Instance ids and client ids, by the last look."""
        return {one.place for one in self._looking.last.members or () if one.is_translated}

    def _is_settled(self) -> bool:
        """Whether half of the members are translated, or more because some have left, and nobody has to go yet."""
        described = {one.place for one in self._looking.last.members or ()}
        places = {one.place if one.is_static else one.process.name for one in self._members}
        return described == places and 2 * len(self._translated()) >= len(places)

    def _is_whole(self) -> bool:
        owned = [partition for one in self._members for partition in one.process.owned()]
        return sorted(owned) == [Partition(self._topic, number) for number in range(PARTITIONS)]

    def _is_finished(self) -> bool:
        consumed: set[tuple[Partition, int]] = set().union(*(one.consumed() for one in self._consumers.all))
        return self._is_whole() and self._producing.acknowledged <= consumed

    def _move(self) -> str:
        """What the replicas say of it."""
        texts = {(proxy.group(self._group)["move"] or {}).get("text", "none") for proxy in self._proxies}
        return "; ".join(sorted(texts))


def run(folder: Path, *, seed: int, seconds: float, assignor: str, say: Say = print) -> None:
    """Run once into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    Scene(folder, seed, seconds, assignor, say).run()
