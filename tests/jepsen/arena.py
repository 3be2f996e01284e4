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
import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from support import find_broker
from support.broker import Kafka
from support.consumers import ConsumerProcess, Consumers
from support.ownership import Partition

from tests.jepsen.proxies import FRONT, BalancerProcess, ProxyProcess, ports_for, set_policy
from tests.jepsen.roster import SEATS, SEATS_OF_ONE_ASSIGNOR, Seat
from tests.jepsen.schedule import PROXIES, Fault, Step, schedule
from tools.kafka.cluster import Cluster
from tools.kafka.ports import free_ports

PARTITIONS = 24
RATE = 120
"""Records a second."""

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

LATER_S = 4.0
RESTART_S = 3.0
"""After how long the supervisor of a consumer or a proxy that ended by itself starts it again."""

STALL_S = 2.0
"""If a short sleep ends this much too late, this process had no core, and neither had the clients."""

START_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 300.0
FLUSH_TIMEOUT_S = 60

Say = Callable[[str], None]


class Arena:
    """All processes of a run. `run` is the whole test."""

    def __init__(self, folder: Path, seed: int, seconds: float, say: Say, *, migrates: bool) -> None:
        self._folder = folder
        self._seed = seed
        self._seconds = seconds
        self._say = say
        self._modes = ("observe", "translate", "observe") if migrates else ("translate",)
        self._seats = SEATS_OF_ONE_ASSIGNOR if migrates else SEATS
        self._group = f"jepsen-{seed}"
        self._living: dict[str, ConsumerProcess] = {}
        self._starts: dict[str, int] = {}
        self._healing: list[tuple[float, str, Callable[[], None]]] = []
        self._replaced: set[str] = set()
        self._down: set[str] = set()
        self._restarting = threading.Thread()
        self._over = threading.Event()
        self._faults = (folder / "faults.jsonl").open("w")

    def run(self) -> None:
        """Run the schedule. Raises AssertionError if the group is not whole again some time after the last fault."""
        overrides = {"group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
        with contextlib.ExitStack() as stack:
            stack.callback(self._faults.close)
            watching = threading.Thread(target=self._watch_for_stalls, name="stalls")
            watching.start()
            stack.callback(watching.join)
            stack.callback(self._over.set)
            self._cluster = stack.enter_context(
                find_broker.own_cluster(f"jepsen-{self._seed}", overrides=overrides)
            )
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
            "consumers": [str(seat) for seat in self._seats],
        }
        (self._folder / "run.json").write_text(json.dumps(about, indent=1) + "\n")
        self._ports = ports_for([seat.name for seat in self._seats])
        admins = free_ports(len(PROXIES))
        set_policy(self._folder, self._modes[0])
        self._proxies = {
            name: ProxyProcess(name, self._folder, cluster.bootstrap, self._ports, admin)
            for name, admin in zip(PROXIES, admins, strict=True)
        }
        for proxy in self._proxies.values():
            proxy.start()
            stack.callback(proxy.stop)
        for proxy in self._proxies.values():
            proxy.wait_ready()
        self._balancer = BalancerProcess(self._folder, self._ports)
        stack.callback(self._balancer.stop)
        self._producing = Producing(cluster.bootstrap, self._topic, self._folder / "produced.jsonl")
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
        self._note("change policy", mode)
        set_policy(self._folder, mode)
        self._wait(lambda: moved() and self._whole(), f"the group has moved to {mode}", SETTLE_TIMEOUT_S)
        self._note("healed", mode)

    def _break(self, schedule_seed: int, seconds: float) -> None:
        began = time.monotonic()
        for step in schedule(schedule_seed, seconds, [seat.name for seat in self._seats]):
            self._heal_until(began + step.at_s)
            self._say(f"{time.monotonic() - began:6.1f} s  {step.fault} {step.victim}")
            self._inflict(step)
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
            if consumer.ended and consumer.events[-1].kind in {"failed", "died"}:
                self._replaced.add(consumer.name)
                why = consumer.events[-1].fields
                self._note("failed", seat.name, process=consumer.name, why=str(why))
                self._say(f"          {consumer.name} failed by itself: {why}")
                if not any(
                    victim == seat.name for _, victim, _ in self._healing
                ):  # else its fault will do it
                    self._heal_later(RESTART_S, seat.name, functools.partial(self._seat, seat))

    def _restart_ended_proxies(self) -> None:
        """Restart proxies that exited because the broker was away for long, as `epochgate run` documents."""
        for name, proxy in self._proxies.items():
            if proxy.alive or name in self._down:
                continue
            self._down.add(name)
            self._note("failed", name)
            self._say(f"          proxy {name} ended by itself: see proxy-{name}.log")
            self._heal_later(RESTART_S, name, functools.partial(self._start_proxy, name))

    def _start_proxy(self, name: str) -> None:
        self._proxies[name].start()
        self._down.discard(name)
        self._note("healed", name)

    def _inflict(self, step: Step) -> None:
        match step.fault:
            case Fault.KILL_CONSUMER | Fault.CLOSE_CONSUMER:
                self._end_consumer(step)
            case Fault.KILL_PROXY:
                self._kill_proxy(step)
            case Fault.MOVE_CLIENT:
                self._note(step.fault, step.victim)
                self._balancer.tell("move", step.victim)
            case Fault.KILL_BROKER | Fault.STOP_BROKER:
                self._restart_broker(step)

    def _end_consumer(self, step: Step) -> None:
        consumer = self._living[step.victim]
        if consumer.ended or consumer.seen("closing"):
            self._inflict_later(step)
            return
        self._note(step.fault, step.victim, process=consumer.name)
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

    def _kill_proxy(self, step: Step) -> None:
        if not all(proxy.alive for proxy in self._proxies.values()):
            self._inflict_later(step)  # one of them must be there for the clients
            return
        proxy = self._proxies[step.victim]
        self._note(step.fault, step.victim)
        self._down.add(step.victim)
        proxy.kill()
        self._heal_later(step.heal_s, step.victim, functools.partial(self._start_proxy, step.victim))

    def _restart_broker(self, step: Step) -> None:
        if self._restarting.is_alive():
            self._inflict_later(step)
            return
        self._note(step.fault, "broker")

        def restart() -> None:
            if step.fault is Fault.KILL_BROKER:
                self._cluster.kill_broker(1)
            else:
                self._cluster.stop_broker(1)
            self._cluster.start_broker(1)
            self._note("healed", "broker")

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

    def _watch_for_stalls(self) -> None:
        """Record when the machine stops scheduling us, because sessions then end as they do by a fault."""
        before = time.monotonic_ns()
        while not self._over.wait(0.1):
            now = time.monotonic_ns()
            if now - before > STALL_S * 1e9:
                self._note("stall", "machine", mono=before)
                self._note("healed", "machine")
            before = now

    def _note(self, fault: str, victim: str, **more: object) -> None:
        line = {
            "event": str(fault),
            "victim": victim,
            "mono": time.monotonic_ns(),
            "time": time.time_ns(),
            **more,
        }
        self._faults.write(json.dumps(line) + "\n")
        self._faults.flush()

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


class Producing:
    """Produces at a steady rate in its own thread, and writes down every acknowledged record.

    It talks to the broker directly, and librdkafka's producer now and then does not recover from the broker's
    restarts. So its records count from their acknowledgement on, and the one that has to get through at the end is a
    new producer.
    """

    def __init__(self, bootstrap: str, topic: str, log: Path) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._log = log.open("w")
        self._said = logging.FileHandler(log.with_suffix(".log"))
        self._logger = logging.getLogger(f"{__name__}.producer")
        self._logger.propagate = False
        self._logger.addHandler(self._said)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)
        self.acknowledged: set[tuple[Partition, int]] = set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and produce a last record to every partition; a second call does nothing.

        Raises AssertionError if the last records are not acknowledged.
        """
        if self._log.closed:
            return
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._produce_last()
        self._logger.removeHandler(self._said)
        self._said.close()
        self._log.close()

    def _produce(self) -> None:
        producer = self._producer()
        began, sent = time.monotonic(), 0
        while not self._stopping.wait(0.05):
            while sent < (time.monotonic() - began) * RATE:
                self._send(producer, str(sent), sent % PARTITIONS)
                sent += 1
            producer.poll(0)
        if left := producer.flush(FLUSH_TIMEOUT_S):
            self._logger.error("%d records not acknowledged %d s after the last fault", left, FLUSH_TIMEOUT_S)
            producer.purge()
            producer.flush(FLUSH_TIMEOUT_S)

    def _produce_last(self) -> None:
        producer = self._producer()
        for partition in range(PARTITIONS):
            self._send(producer, "last", partition)
        assert not producer.flush(FLUSH_TIMEOUT_S), f"records are not taken: see {self._said.baseFilename}"

    def _producer(self) -> Producer:
        return Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True}, logger=self._logger
        )

    def _send(self, producer: Producer, value: str, partition: int) -> None:
        producer.produce(self._topic, value.encode(), partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            return  # not acknowledged: nobody has to read it
        partition, offset = Partition(self._topic, message.partition()), message.offset()
        self.acknowledged.add((partition, offset))
        line: dict[str, Any] = {
            "partition": partition.number,
            "offset": offset,
            "value": message.value().decode(),
        }
        self._log.write(json.dumps(line) + "\n")


def run(folder: Path, *, seed: int, seconds: float, migrates: bool = False, say: Say = print) -> None:
    """Run once into an empty folder: translated all the time, or moved to the new protocol and back meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    Arena(folder, seed, seconds, say, migrates=migrates).run()
