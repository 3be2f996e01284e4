"""Runs the test: starts everything, injects the scheduled faults, heals them, and waits until the group is whole.

The folder gets a record of what happened, in files that tests/jepsen/check.py judges:

    <consumer>.<number>.jsonl   events of each consumer process (tests/integration/drivers/line_protocol.py)
    produced.jsonl              every record that was acknowledged; produced.log is what the producer said
    faults.jsonl                each fault, its target, and when it had healed
    run.json                    seed, duration, topic, session timeout, consumers
    journal/<proxy>/            each proxy's journal (docs/reference/journal.md), for tests/pipeline/real_journal.py

and besides, for people: the proxies' logs, the clients' own logs, balancer.log.
"""

import contextlib
import functools
import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from support import find_broker
from support.broker import Kafka
from support.consumers import ConsumerProcess, Consumers
from support.ownership import Event, Partition

from tests.jepsen.fault_log import FaultLog
from tests.jepsen.log_relay import LogRelay
from tests.jepsen.producing import Producing
from tests.jepsen.proxies import FRONT, BalancerProcess, ProxyProcess, ports_for, set_policy
from tests.jepsen.roster import SEATS, SEATS_OF_ONE_ASSIGNOR, Seat
from tests.jepsen.schedule import ALL, FLEET_WEIGHTS, PROXIES, REPLICAS, WEIGHTS, Fault, Step, schedule
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.ports import free_ports

PARTITIONS = 24
SESSION_TIMEOUT_MS = 10_000
"""Of the clients, and of the broker's own sessions: a client may take so long to come back after a fault, and the
broker must wait for it as long."""

SPEC = {
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "heartbeat_interval_ms": 1_000,
    "max_poll_interval_ms": 60_000,
    "auto_commit": False,
    "commit_every_ms": 1_000,
}

FLEET_BROKER_SESSION_MS = 45_000
"""Of a stock broker: with a member log the proxies keep the clients' own session timeouts."""

LATER_S = 4.0
RESTART_S = 3.0
"""After how long the supervisor of a consumer or a proxy that ended by itself starts it again."""

START_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 300.0

Say = Callable[[str], None]


class Arena:
    """All processes of a run. `run` is the whole test."""

    def __init__(
        self, folder: Path, seed: int, seconds: float, say: Say, *, migrates: bool, fleet: bool
    ) -> None:
        self._folder = folder
        self._seed = seed
        self._seconds = seconds
        self._say = say
        self._modes = ("observe", "translate", "observe") if migrates else ("translate",)
        self._seats = SEATS_OF_ONE_ASSIGNOR if migrates else SEATS
        self._fleet = fleet
        self._names = REPLICAS if fleet else PROXIES
        self._relays: dict[str, LogRelay] = {}
        self._group = f"jepsen-{seed}"
        self._living: dict[str, ConsumerProcess] = {}
        self._starts: dict[str, int] = {}
        self._healing: list[tuple[float, str, Callable[[], None]]] = []
        self._replaced: set[str] = set()
        self._down: set[str] = set()
        self._restarting = threading.Thread()

    def run(self) -> None:
        """Run the schedule. Raises AssertionError if the group is not whole again some time after the last fault."""
        session_ms = FLEET_BROKER_SESSION_MS if self._fleet else SESSION_TIMEOUT_MS
        overrides = {"group.consumer.session.timeout.ms": str(session_ms)}
        relayed = dict(zip(self._names, free_ports(len(self._names)), strict=True)) if self._fleet else {}
        listeners = [
            ExtraListener(f"LOG{name.upper()}", "PLAINTEXT", advertised_ports=[port])
            for name, port in relayed.items()
        ]
        with contextlib.ExitStack() as stack:
            self._faults = FaultLog(self._folder / "faults.jsonl")
            stack.callback(self._faults.close)
            self._cluster = stack.enter_context(
                find_broker.own_cluster(f"jepsen-{self._seed}", overrides=overrides, listeners=listeners)
            )
            for name, port in relayed.items():
                broker = int(self._cluster.bootstrap_of(f"LOG{name.upper()}").rpartition(":")[2])
                self._relays[name] = stack.enter_context(LogRelay(port, broker))
            self._log_ports = relayed
            self._start(stack, self._cluster)
            self._wait(self._whole, "the partitions are shared", START_TIMEOUT_S)
            self._producing.start()
            for phase, mode in enumerate(self._modes):
                if phase:
                    self._change_policy(mode)
                self._break(schedule_seed=self._seed + 1000 * phase, seconds=self._seconds / len(self._modes))
            self._producing.stop()
            self._say("all faults have healed; waiting until the group is whole and has read everything")
            self._wait(self._finished, "everything is read and has an owner", SETTLE_TIMEOUT_S)
            for seat in self._seats:
                self._living[seat.name].close()

    # Start.

    def _start(self, stack: contextlib.ExitStack, cluster: Cluster) -> None:
        self._kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
        self._topic = self._kafka.new_topic("jepsen", partitions=PARTITIONS)
        about = {
            "seed": self._seed,
            "seconds": self._seconds,
            "kafka": cluster.version,
            "topic": self._topic,
            "partitions": PARTITIONS,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "fleet": self._fleet,
            "consumers": [str(seat) for seat in self._seats],
        }
        (self._folder / "run.json").write_text(json.dumps(about, indent=1) + "\n")
        self._ports = ports_for([seat.name for seat in self._seats])
        admins = free_ports(len(self._names))
        set_policy(self._folder, self._modes[0])
        self._proxies = {
            name: ProxyProcess(
                name,
                self._folder,
                cluster.bootstrap,
                self._ports,
                admin,
                f"{FRONT}:{self._log_ports[name]}" if self._fleet else None,
            )
            for name, admin in zip(self._names, admins, strict=True)
        }
        for proxy in self._proxies.values():
            proxy.start()
            stack.callback(proxy.stop)
        for proxy in self._proxies.values():
            proxy.wait_ready()
        self._balancer = BalancerProcess(self._folder, self._ports, self._names)
        stack.callback(self._balancer.stop)
        self._producing = Producing(
            cluster.bootstrap, self._topic, PARTITIONS, self._folder / "produced.jsonl"
        )
        stack.callback(self._producing.stop)
        self._consumers = Consumers(self._folder)
        stack.callback(self._consumers.end)
        for seat in self._seats:
            self._seat(seat)

    def _seat(self, seat: Seat) -> None:
        """Start a new consumer process in this place."""
        number = self._starts[seat.name] = self._starts.get(seat.name, 0) + 1
        self._balancer.tell("forget", seat.name)
        self._living[seat.name] = self._consumers.start(
            seat.kind,
            f"{FRONT}:{self._ports[seat.name][0]}",
            self._group,
            self._topic,
            seat.assignor,
            name=f"{seat.name}.{number}",
            instance_id=seat.instance_id,
            **SPEC,
        )

    # Faults.

    def _change_policy(self, mode: str) -> None:
        """Change the policy while the group works, and wait until all its members have moved and it is whole."""
        moved = self._translated if mode == "translate" else self._classic
        self._say(f"          policy: {mode}")
        self._faults.note("change policy", mode)
        set_policy(self._folder, mode)
        self._wait(lambda: moved() and self._whole(), f"the group has moved to {mode}", SETTLE_TIMEOUT_S)
        self._faults.note("healed", mode)

    def _break(self, schedule_seed: int, seconds: float) -> None:
        began = time.monotonic()
        weights = FLEET_WEIGHTS if self._fleet else WEIGHTS
        names = [seat.name for seat in self._seats]
        for step in schedule(schedule_seed, seconds, names, proxies=self._names, weights=weights):
            self._heal_until(began + step.at_s)
            self._say(f"{time.monotonic() - began:6.1f} s  {step.fault} {step.victim}")
            before = time.monotonic()
            self._inflict(step)
            if step.fault is Fault.KILL_ALONE:
                began += time.monotonic() - before  # the quiet comes on top of the run's duration
        self._heal_until(began + seconds)
        while self._healing or self._restarting.is_alive():
            self._heal_until(self._healing[0][0] if self._healing else time.monotonic() + 0.1)

    def _heal_until(self, when: float) -> None:
        """Wait, and meanwhile restart what is due, including consumers that failed by themselves."""
        while True:
            now = time.monotonic()
            for due in sorted(entry for entry in self._healing if entry[0] <= now):
                self._healing.remove(due)
                due[2]()
            self._replace_failed()
            self._restart_ended_proxies()
            if now >= when:
                return
            time.sleep(min(0.1, when - now))

    def _replace_failed(self) -> None:
        for seat in self._seats:
            consumer = self._living[seat.name]
            if consumer.name in self._replaced:
                continue
            failure = failure_of(consumer)
            if failure is not None:
                self._replaced.add(consumer.name)
                why = failure.fields
                self._faults.note("failed", seat.name, process=consumer.name, why=str(why))
                self._say(f"          {consumer.name} failed by itself: {why}")
                if not consumer.ended:
                    consumer.kill()
                if not self._comes_back(seat.name):  # else its fault will do it
                    self._heal_later(RESTART_S, seat.name, functools.partial(self._seat, seat))

    def _comes_back(self, name: str) -> bool:
        """Whether a fault has the seat of that name, and will fill it again."""
        return any(victim == name for _, victim, _ in self._healing)

    def _restart_ended_proxies(self) -> None:
        """Restart proxies that exited because the broker was away for long, as `epochgate run` documents."""
        for name, proxy in self._proxies.items():
            if proxy.alive or name in self._down:
                continue
            self._down.add(name)
            self._faults.note("failed", name)
            self._say(f"          proxy {name} ended by itself: see proxy-{name}.log")
            self._heal_later(RESTART_S, name, functools.partial(self._start_proxy, name))

    def _start_proxy(self, name: str) -> None:
        self._proxies[name].start()
        self._down.discard(name)
        self._faults.note("healed", name)

    def _inflict(self, step: Step) -> None:
        match step.fault:
            case Fault.KILL_CONSUMER | Fault.CLOSE_CONSUMER:
                self._end_consumer(step)
            case Fault.KILL_PROXY:
                self._kill_proxy(step)
            case Fault.MOVE_CLIENT:
                self._faults.note(step.fault, step.victim)
                self._balancer.tell("move", step.victim)
            case Fault.KILL_BROKER | Fault.STOP_BROKER:
                self._restart_broker(step)
            case Fault.STOP_PROXY | Fault.FREEZE_PROXY:
                self._halt_proxy(step)
            case Fault.FREEZE_CONSUMER:
                self._freeze_consumer(step)
            case Fault.KILL_ALONE:
                self._kill_alone(step)
            case Fault.CUT_LOG:
                self._cut_log(step)

    def _kill_alone(self, step: Step) -> None:
        """Wait until all has been well for a session timeout, kill, and wait until the others have all partitions."""
        session_s = SESSION_TIMEOUT_MS / 1000

        def all_is_well() -> bool:
            busy = self._healing or self._restarting.is_alive() or self._down
            return not busy and time.monotonic() - self._faults.last > session_s + 1 and self._whole()

        self._wait(all_is_well, "all is well, so that one can be killed alone", SETTLE_TIMEOUT_S)
        consumer = self._living[step.victim]
        self._faults.note(step.fault, step.victim, process=consumer.name)
        consumer.kill()
        deadline = time.monotonic() + 2 * session_s
        while time.monotonic() < deadline and not self._whole():
            self._heal_until(time.monotonic() + 0.1)
        self._heal_until(max(time.monotonic(), deadline - session_s + 2))
        self._seat(next(seat for seat in self._seats if seat.name == step.victim))

    def _freeze_consumer(self, step: Step) -> None:
        consumer = self._living[step.victim]
        if consumer.ended or consumer.seen("closing"):
            self._inflict_later(step)
            return

        def thaw() -> None:
            if not consumer.ended:
                consumer.thaw()
            self._faults.note("healed", step.victim)

        self._faults.note(step.fault, step.victim, process=consumer.name)
        consumer.freeze()
        self._heal_later(step.heal_s, "", thaw)  # under no name: one that ends by itself is still replaced

    def _cut_log(self, step: Step) -> None:
        if any(victim.startswith("log of ") for _, victim, _ in self._healing):
            self._inflict_later(step)
            return
        relays = self._relays.values() if step.victim == ALL else [self._relays[step.victim]]
        victim = f"log of {step.victim}"

        def restore() -> None:
            for relay in relays:
                relay.restore()
            self._faults.note("healed", victim)

        self._faults.note(step.fault, victim)
        for relay in relays:
            relay.cut()
        self._heal_later(step.heal_s, victim, restore)

    def _end_consumer(self, step: Step) -> None:
        consumer = self._living[step.victim]
        # One that is to close and has not said so yet, in a commit for example, must not be given two successors.
        if consumer.ended or consumer.seen("closing") or self._comes_back(step.victim):
            self._inflict_later(step)
            return
        self._faults.note(step.fault, step.victim, process=consumer.name)
        if step.fault is Fault.KILL_CONSUMER:
            consumer.kill()
        else:
            consumer.send("close")
        seat = next(seat for seat in self._seats if seat.name == step.victim)

        def come_back() -> None:
            if not consumer.ended:  # it still closes; its place is not free before
                self._heal_later(1.0, seat.name, come_back)
            else:
                self._seat(seat)

        self._heal_later(step.heal_s, seat.name, come_back)

    def _can_hit(self, proxy: str) -> bool:
        """Whether this proxy is at work and another one too, which must be there for the clients."""
        working = [name for name, one in self._proxies.items() if one.alive and name not in self._down]
        return proxy in working and len(working) > 1

    def _halt_proxy(self, step: Step) -> None:
        """SIGTERM or SIGSTOP."""
        if not self._can_hit(step.victim):
            self._inflict_later(step)
            return
        proxy = self._proxies[step.victim]
        self._faults.note(step.fault, step.victim)
        self._down.add(step.victim)
        if step.fault is Fault.STOP_PROXY:
            proxy.terminate()
        else:
            proxy.freeze()

        def come_back() -> None:
            if step.fault is Fault.FREEZE_PROXY:
                proxy.thaw()
                self._down.discard(step.victim)
                self._faults.note("healed", step.victim)
            elif proxy.alive:  # it still says goodbye to its clients
                self._heal_later(1.0, step.victim, come_back)
            else:
                self._start_proxy(step.victim)

        self._heal_later(step.heal_s, step.victim, come_back)

    def _kill_proxy(self, step: Step) -> None:
        if not self._can_hit(step.victim):
            self._inflict_later(step)
            return
        proxy = self._proxies[step.victim]
        self._faults.note(step.fault, step.victim)
        self._down.add(step.victim)
        proxy.kill()
        self._heal_later(step.heal_s, step.victim, functools.partial(self._start_proxy, step.victim))

    def _restart_broker(self, step: Step) -> None:
        if self._restarting.is_alive():
            self._inflict_later(step)
            return
        self._faults.note(step.fault, "broker")

        def restart() -> None:
            if step.fault is Fault.KILL_BROKER:
                self._cluster.kill_broker(1)
            else:
                self._cluster.stop_broker(1)
            self._cluster.start_broker(1)
            self._faults.note("healed", "broker")

        self._restarting = threading.Thread(target=restart, name="restart the broker")
        self._restarting.start()

    def _inflict_later(self, step: Step) -> None:
        """Try a fault again later, because its target is down already.

        This restarts nothing, so it is not recorded under the target's name: one that failed by itself is still
        restarted.
        """
        self._heal_later(LATER_S, "", lambda: self._inflict(step))

    def _heal_later(self, seconds: float, victim: str, act: Callable[[], None]) -> None:
        self._healing.append((time.monotonic() + seconds, victim, act))
        self._healing.sort(key=lambda entry: entry[:2])

    # End.

    def _wait(self, is_so: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                stories = "\n".join(consumer.story() for consumer in self._living.values())
                raise AssertionError(f"{timeout_s:.0f} s passed while waiting until {what}\n{stories}")
            self._heal_until(time.monotonic() + 0.5)

    def _whole(self) -> bool:
        owned = [partition for consumer in self._living.values() for partition in consumer.owned()]
        return sorted(owned) == [Partition(self._topic, number) for number in range(PARTITIONS)]

    def _translated(self) -> bool:
        group = self._kafka.describe(self._group)
        types = [member.member_type for member in group.members] if group else []
        return types == ["consumer"] * len(self._seats)

    def _classic(self) -> bool:
        if self._kafka.describe(self._group) is not None:
            return False
        group = self._kafka.describe_classic(self._group)
        return group.group_state == "Stable" and len(group.members) == len(self._seats)

    def _finished(self) -> bool:
        consumed: set[tuple[Partition, int]] = set().union(*(one.consumed() for one in self._consumers.all))
        return self._whole() and self._producing.acknowledged <= consumed


def failure_of(consumer: ConsumerProcess) -> Event | None:
    """Why a supervisor starts a consumer anew: it ended by itself, or its library will not work any more.

    librdkafka reports such an error and goes on running. One that closes ends all the same.
    """
    if consumer.ended:
        last = consumer.events[-1]
        return last if last.kind in {"failed", "died"} else None
    return None if consumer.fatal is None or consumer.seen("closing") else consumer.fatal


def run(
    folder: Path, *, seed: int, seconds: float, migrates: bool = False, fleet: bool = False, say: Say = print
) -> None:
    """Run once into an empty folder: translated all the time, or moved to the new protocol and back meanwhile.

    With `fleet`, three replicas share a member log, and more is broken.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    Arena(folder, seed, seconds, say, migrates=migrates, fleet=fleet).run()
