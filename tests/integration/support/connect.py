"""Workers of Kafka Connect as processes, and what their REST API and logs say of the group."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from support.broker import QUIET, Kafka
from support.ownership import Event, read_log
from support.waiting import eventually
from tests.skips import Need, without
from tools.connect_worker import worker
from tools.kafka.jars import KafkaUnavailableError
from tools.kafka.ports import LOOPBACK, free_ports

LOST_WORKER_DELAY_MS = 15_000
"""For how long what a lost worker ran waits for it (``scheduled.rebalance.max.delay.ms``)."""

_START_S = 180.0
_STOP_S = 60.0
_ASSIGNED = re.compile(
    r"Joined group at generation (\d+) .*leaderUrl='([^']*)'.* with rebalance delay: (\d+)"
)
_HEARD = re.compile(
    r"Joined group at generation .*leaderUrl='([^']*)'.*connectorIds=\[(.*?)\], taskIds=\[(.*?)\], revoked"
)

Running = dict[str, set[str]]
"""The connectors (``a``) and tasks (``a-0``) that each worker runs, by the URL of its REST API."""


@dataclass(frozen=True)
class Assignment:
    """What a worker has logged of its last assignment."""

    generation: int
    leader_url: str
    delay_ms: int


class Worker:
    """A worker that enters at ``bootstrap``, and keeps its name and address when it is started again.

    ``more`` are settings, with underscores for dots.
    """

    def __init__(
        self, version: str, bootstrap: str, group: str, folder: Path, name: str, **more: object
    ) -> None:
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}/"
        self.name = name
        self.group = group
        self._version = version
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._settings = folder / f"{name}.properties"
        self._tasks: list[Path] = []
        told = (
            worker.settings(bootstrap, group, name, self.url)
            | {"scheduled.rebalance.max.delay.ms": LOST_WORKER_DELAY_MS}
            | {key.replace("_", "."): value for key, value in more.items()}
        )
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._tasks.append(self._folder / f"{self.name}.{len(self._tasks) + 1}.jsonl")
        self._tasks[-1].touch()
        try:
            worker.ensure_connectors(self._version)
            command = worker.command(self._version, self._settings, self._log, self._tasks[-1])
        except KafkaUnavailableError as error:
            without(Need.KAFKA, error)
        with (self._folder / f"{self.name}.out").open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        eventually(self._answers, what=f"{self.name} answers", timeout_s=_START_S, between_s=0.2)

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Ask the REST API; None while a rebalance makes it refuse."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - our own URL
            self.url + path, data, {"content-type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code in {404, 409, 500}:
                return None
            raise

    def create(self, connector: str, tasks: int) -> None:
        """Create a connector that does nothing, with so many tasks."""
        self.configure(connector, {"connector.class": worker.IDLE.stem, "tasks.max": str(tasks)})

    def configure(self, connector: str, config: Mapping[str, str]) -> None:
        """Create a connector, or give it another configuration: as soon as no rebalance is in the way."""
        eventually(
            lambda: self.ask(f"connectors/{connector}/config", "PUT", config),
            what=f"{connector} has its configuration",
            between_s=0.5,
        )

    def running(self) -> Running | None:
        """What runs where, as the group's status topic says; None during a rebalance."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for connector in self.ask("connectors") or ():
            status = self.ask(f"connectors/{connector}/status")
            if status is None:
                return None
            parts = [(connector, status["connector"])]
            parts += [(f"{connector}-{task['id']}", task) for task in status["tasks"]]
            for name, part in parts:
                if part["state"] == "RUNNING":
                    found[f"http://{part['worker_id']}/"].add(name)
        return dict(found)

    def assignment(self) -> Assignment | None:
        """Its last assignment, as it has logged it."""
        found = _ASSIGNED.findall(self._log.read_text(errors="replace"))
        if not found:
            return None
        generation, leader_url, delay_ms = found[-1]
        return Assignment(int(generation), leader_url, int(delay_ms))

    def heard(self) -> list[tuple[str, frozenset[str]]]:
        """Who led and what it ran after each JoinGroup that was answered, as it has logged it."""
        found = _HEARD.findall(self._log.read_text(errors="replace"))
        return [
            (leader_url, frozenset(name for name in f"{connectors}, {tasks}".split(", ") if name))
            for leader_url, connectors, tasks in found
        ]

    def task_logs(self) -> list[list[Event]]:
        """When its counting tasks ran, as they said themselves; a log for each time that it was started."""
        return [read_log(path) for path in self._tasks]

    def stop(self) -> None:
        """SIGTERM, as an orderly restart begins."""
        self._process.terminate()
        self._process.wait(_STOP_S)

    def kill(self) -> None:
        """kill -9."""
        if self._process.poll() is None:
            self._say("killed")
            self._process.kill()
        self._process.wait()

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def _say(self, event: str) -> None:
        with self._tasks[-1].open("a") as log:
            log.write(
                json.dumps({"event": event, "mono": time.monotonic_ns(), "time": time.time_ns()}) + "\n"
            )

    def _answers(self) -> bool:
        assert self._process.poll() is None, f"the worker has ended:\n{self._log.read_text()[-2000:]}"
        try:
            return self.ask("connectors") is not None
        except OSError:
            return False


class Workers:
    """The workers of one group that enter at ``bootstrap``, all of which may write exactly once (KIP-618).

    ``delay_ms`` is for how long what a lost one ran waits for it.
    """

    def __init__(self, kafka: Kafka, bootstrap: str, group: str, folder: Path, delay_ms: int) -> None:
        self.kafka, self.group = kafka, group
        self.workers: list[Worker] = []
        self._bootstrap, self._folder, self._delay_ms = bootstrap, folder, delay_ms

    @property
    def alive(self) -> list[Worker]:
        return [one for one in self.workers if one.alive]

    def grow(self) -> Worker:
        """Start one more worker."""
        started = Worker(
            self.kafka.version,
            self._bootstrap,
            self.group,
            self._folder,
            f"w{len(self.workers) + 1}",
            exactly_once_source_support="enabled",
            scheduled_rebalance_max_delay_ms=self._delay_ms,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
        )
        self.workers.append(started)
        return started

    def leader(self) -> Worker:
        """Who leads, by the last assignment that a worker has logged."""
        said = self.alive[0].assignment()
        return next(one for one in self.alive if said is not None and one.url == said.leader_url)

    def follower(self) -> Worker:
        """One that does not lead."""
        leader = self.leader()
        return next(one for one in self.alive if one is not leader)


def committed_values(kafka: Kafka, topic: str, partitions: int) -> Iterator[str]:
    """The values of a topic's committed records; those of a partition in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        ends = 0
        while ends < partitions:
            for message in consumer.consume(1000, timeout=1):
                error, value = message.error(), message.value()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ends += 1
                elif value is not None:
                    yield value.decode()
    finally:
        consumer.close()
