"""Workers of Kafka Connect as processes, and what their REST API and logs say of the group."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.waiting import eventually
from tools.connect_worker import worker
from tools.kafka.jars import KafkaUnavailableError
from tools.kafka.ports import LOOPBACK, free_ports

LOST_WORKER_DELAY_MS = 15_000
"""For how long what a lost worker ran waits for it (``scheduled.rebalance.max.delay.ms``)."""

_START_S = 60.0
_ASSIGNED = re.compile(
    r"Joined group at generation (\d+) .*leaderUrl='([^']*)'.* with rebalance delay: (\d+)"
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
    """A worker that enters at ``bootstrap``."""

    def __init__(self, version: str, bootstrap: str, group: str, folder: Path, name: str) -> None:
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}/"
        self._log = folder / f"{name}.log"
        settings = folder / f"{name}.properties"
        topics = {f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")}
        factors = {f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")}
        told = (
            topics
            | factors
            | {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "listeners": self.url.removesuffix("/"),
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "offset.storage.partitions": "1",
                "status.storage.partitions": "1",
                "scheduled.rebalance.max.delay.ms": str(LOST_WORKER_DELAY_MS),
            }
        )
        settings.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        try:
            worker.ensure_connector(version)
            command = worker.command(version, settings, self._log)
        except KafkaUnavailableError as error:
            pytest.skip(str(error))
        with (folder / f"{name}.out").open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        eventually(self._answers, what=f"{name} answers", timeout_s=_START_S, between_s=0.2)

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
        """Create a connector with so many tasks."""
        body = {
            "name": connector,
            "config": {"connector.class": worker.CONNECTOR.stem, "tasks.max": str(tasks)},
        }
        eventually(
            lambda: self.ask("connectors", "POST", body),
            what=f"{connector} is created",
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

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process.poll() is None, f"the worker has ended:\n{self._log.read_text()[-2000:]}"
        try:
            return self.ask("connectors") is not None
        except OSError:
            return False
