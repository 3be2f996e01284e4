"""Two replicas with a member log on a real Kafka, clients at work, and what becomes of both under an attack."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy

from benchmarks.attacks.foreign_records import TopicWriter
from benchmarks.attacks.secured_log import PARTITIONS, fleet_of_log, journal_of_log, topic_of_log
from benchmarks.lib.test_bed import resident_bytes
from benchmarks.lib.wire import ClassicMember, Line
from protocol_codecs import ErrorCode
from tools.kafka.cluster import Cluster

REPLICAS = 2
SETTLES_S = 60.0
HEALS_S = 45.0
LOOKS_EVERY_S = 0.25
PAUSE_S = 0.1
"""Between two calls of the member that is timed."""
UNANSWERED_S = 20.0
POLICY = """\
default: observe
rules:
  - {pattern: "translate-.*", mode: translate}
  - {pattern: "stepped-.*", mode: translate, steps: [1, "100%"], hold_s: 0, MORE}
"""
_JOIN_AGAIN = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


class TimedMember:
    """A classic member at one replica that calls ten times a second, and counts what it is answered."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.group = group
        self._address, self._topic = address, topic
        self._member = self._new()
        self._member.settle()
        self.answers: Counter[str] = Counter()
        self.longest_s = 0.0
        self.refused_for_s = 0.0
        """The longest time in which no Heartbeat was answered without an error."""
        self.rejoins = self.unanswered = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def member_id(self) -> str:
        """Under which it is served."""
        return self._member.member_id

    def start(self) -> None:
        """Begin to count."""
        self._thread.start()

    def end(self) -> None:
        """Stop."""
        self._over.set()
        self._thread.join(2 * UNANSWERED_S)

    def _new(self) -> ClassicMember:
        line = Line(self._address)
        line.socket.settimeout(UNANSWERED_S)
        return ClassicMember(line, self.group, self._topic, session_ms=10_000)

    def _run(self) -> None:
        last_good = time.monotonic()
        while not self._over.wait(PAUSE_S):
            began = time.monotonic()
            try:
                code = self._call()
            except TimeoutError:
                self.unanswered += 1
                code = "not answered"
                self._reconnect()
            except (OSError, RuntimeError) as error:
                code = type(error).__name__ if isinstance(error, OSError) else str(error)
                self._reconnect()
            else:
                self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.answers[code] += 1
            now = time.monotonic()
            self.refused_for_s = max(self.refused_for_s, now - last_good)
            if code == "NONE":
                last_good = now

    def _call(self) -> str:
        answer = self._member.line.exchange(self._member.heartbeat_frame())
        code = ErrorCode(int.from_bytes(answer[12:14]))  # size, correlation id, throttle time
        if code in _JOIN_AGAIN:
            self.rejoins += 1
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member.member_id = ""
            self._member.join()
        return code.name

    def _reconnect(self) -> None:
        with contextlib.suppress(OSError):
            self._member.line.close()
            self._member.line = self._new().line


class Watch:
    """Looks at the replicas all the time, and starts one again that has ended, as Kubernetes does."""

    def __init__(self, replicas: list[Proxy]) -> None:
        self._replicas = replicas
        self.ends: list[str] = []
        self.not_ready_s = 0.0
        """For how long one replica or more was not ready."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(LOOKS_EVERY_S):
            for number, one in enumerate(self._replicas):
                if not one.alive:
                    self.ends.append(f"replica {number} ended with {one.exit_code}")
                    with contextlib.suppress(AssertionError):
                        one.start()
            is_ready = all(one.alive and one.ready() for one in self._replicas)
            now = time.monotonic()
            self.not_ready_s += 0.0 if is_ready else now - last
            last = now

    def end(self) -> None:
        """Stop looking."""
        self._over.set()
        self._thread.join()


class Scene:
    """What one attack is made on. ``replicas``, ``topic`` (of the log), ``writer`` and ``timed`` are for it to use."""

    def __init__(self, cluster: Cluster, folder: Path, code: Path, options: Mapping[str, Any]) -> None:
        name = uuid4().hex[:6]
        self.cluster, self.folder = cluster, folder
        self.kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
        self.topic = topic_of_log(cluster, f"members-{name}")
        self.writer = TopicWriter(cluster.bootstrap, self.topic.name, PARTITIONS)
        self.stepped = f"stepped-{name}"
        self.group = f"translate-{name}"
        relay = options.get("log_bootstrap")
        fleet = fleet_of_log(
            relay or cluster.bootstrap_of("SASL"), self.topic.name, authenticates=relay is None
        )
        self.replicas = [
            Proxy(
                cluster.bootstrap,
                folder / f"replica-{number}",
                policy=POLICY.replace("MORE", options.get("more_policy", "")),
                sole_process=False,
                limits={},
                fleet={**fleet, **options.get("fleet", {})},
                journal=journal_of_log(cluster, f"journal-{name}"),
                more=options.get("more", {}),
                initial_rebalance_delay_ms=None,
                code=code,
            )
            for number in range(REPLICAS)
        ]
        self._consumers = Consumers(folder)
        self._has_stepped = options.get("stepped", False)
        self._through: list[ConsumerProcess] = []
        self._straight: list[ConsumerProcess] = []
        self.steps: list[ConsumerProcess] = []
        self.timed: TimedMember
        self.ended: list[str] = []
        """What ended before the attack, if that is in the options of the scene: a hook is called at once."""

    @contextlib.contextmanager
    def running(self) -> Iterator["Scene"]:
        """Have everything at work, and end it."""
        try:
            with contextlib.ExitStack() as started:
                for one in self.replicas:
                    one.start()
                    started.callback(one.stop)
                try:
                    self._start_clients()
                finally:
                    self.ended = [
                        f"replica {number} ended with {one.exit_code} as soon as clients joined"
                        for number, one in enumerate(self.replicas)
                        if not one.alive
                    ]
                yield self
        finally:
            self._consumers.end()

    def _start_clients(self) -> None:
        topic = self.kafka.new_topic(partitions=4)
        for one in self.replicas:
            self._through.append(self._start(one.bootstrap, self.group, topic))
            self._straight.append(self._start(self.kafka.bootstrap, f"straight-{self.group}", topic))
            if self._has_stepped:
                self.steps.append(self._start(one.bootstrap, self.stepped, topic))
        self._consumers.wait_until(self.is_shared, "all partitions have owners", timeout_s=SETTLES_S)
        self.timed = TimedMember(self.replicas[0].bootstrap, f"translate-timed-{self.group}", topic)
        self.kafka.produce(topic, 40)

    def _start(self, bootstrap: str, group: str, topic: str) -> ConsumerProcess:
        return self._consumers.start(
            CONFLUENT,
            bootstrap,
            group,
            topic,
            "range",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
        )

    def is_shared(self) -> bool:
        """Whether each consumer has partitions."""
        groups = filter(None, (self._through, self._straight, self.steps))
        return all(len(one.owned()) == 2 for group in groups for one in group)

    def rejoins(self) -> dict[str, int]:
        """The assignments that consumers have been given up to now."""
        return {
            "through": sum(len(one.seen("assigned")) for one in self._through),
            "straight": sum(len(one.seen("assigned")) for one in self._straight),
        }

    def memory_mib(self) -> list[float]:
        """Of each replica's serving process."""
        return [round(resident_bytes(one.pid) / 2**20, 1) for one in self.replicas if one.alive]

    def is_healed(self) -> bool:
        """Whether replicas, log and clients are as before."""
        with contextlib.suppress(OSError):
            return self.is_shared() and all(
                one.alive and one.ready() and "epochgate_fleet_log_away 0.0" in one.metrics()
                for one in self.replicas
            )
        return False
