"""A small worker of the new protocol, which no Kafka Connect has: it holds leases instead of running tasks.

It writes down what it holds in the form that :mod:`support.ownership` judges, and reads the topic of configurations
for what there is to assign, as Connect's KafkaConfigBackingStore does.
"""

import json
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from coordinator.connect_groups.work import CONNECTOR, Work, as_message, from_message
from protocol_codecs import ErrorCode
from protocol_codecs import all_messages as m
from protocol_codecs import connect_groups as c
from protocol_codecs.codec import decode, decode_prefix, encode
from protocol_codecs.message import Message
from support.broker import QUIET
from support.ownership import Event, read_log
from tests.coordinator.connect_groups.mixed.world import installing, offers

_BEAT_S = 0.5
_FENCED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}


class NewWorker:
    """A worker in a thread, in a group of a broker with one node."""

    def __init__(self, bootstrap: str, group: str, folder: Path, name: str) -> None:
        self.name, self.group = name, group
        self._bootstrap = bootstrap
        self._leases = folder / f"{name}.jsonl"
        self._leases.touch()
        self._holds: set[Work] = set()
        self._configs: dict[str, int] = {}
        self._offset = 0
        self._ends = threading.Event()
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def stop(self) -> None:
        """Let go of everything, and leave."""
        self._ends.set()
        self._thread.join()

    kill = stop

    def task_logs(self) -> list[list[Event]]:
        """When it held the leases of tasks."""
        return [read_log(self._leases)]

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - the test reads it
            self.errors.append(repr(error))
            self._say("failed", ())

    def _work(self) -> None:
        host, _, port = self._bootstrap.partition(":")
        connection = socket.create_connection((host, int(port)), timeout=60)
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "nobody", **QUIET})
        consumer.assign([TopicPartition(f"{self.group}-config", 0, OFFSET_BEGINNING)])
        epoch, declared = 0, -1
        while not self._ends.is_set():
            self._read(consumer)
            news = epoch == 0 or self._offset != declared
            answer = _ask(
                connection,
                c.ConnectGroupHeartbeatRequest(
                    group_id=self.group,
                    member_id=self.name,
                    member_epoch=epoch,
                    rebalance_timeout_ms=60_000,
                    client_assignors=offers(f"http://{self.name}/", self._offset) if epoch == 0 else None,
                    connectors_and_tasks=as_message(self._holds),
                    config_offset=self._offset if news else -1,
                    configured=as_message(self._configured()) if news else None,
                ),
            )
            if answer.error_code in _FENCED:
                self._hold(set())
                epoch, declared = 0, -1
                continue
            assert answer.error_code == 0, answer
            epoch, declared = answer.member_epoch, self._offset
            if answer.assignment is not None:
                may_run = set(from_message(answer.assignment.connectors_and_tasks))
                stops = not may_run >= self._holds
                self._hold(may_run)
                if stops:
                    continue
            if answer.should_compute_assignment:
                self._compute(connection, epoch)
                continue
            self._ends.wait(_BEAT_S)
        self._hold(set())
        _ask(
            connection,
            c.ConnectGroupHeartbeatRequest(group_id=self.group, member_id=self.name, member_epoch=-1),
        )
        connection.close()
        consumer.close()

    def _compute(self, connection: socket.socket, epoch: int) -> None:
        prepared = _ask(
            connection,
            c.ConnectGroupPrepareAssignmentRequest(
                group_id=self.group, member_id=self.name, member_epoch=epoch
            ),
        )
        if prepared.error_code == 0:
            _ask(connection, installing(self.group, self.name, epoch, prepared))

    def _read(self, consumer: Consumer) -> None:
        for message in consumer.consume(500, timeout=0.05 if self._offset else 2):
            if message.error() is not None:
                continue
            self._offset = (message.offset() or 0) + 1
            kind, _, name = (message.key() or b"").decode().partition("-")
            value = json.loads(message.value() or b"null")
            if kind == "connector" and value is None:
                self._configs.pop(name, None)
            elif kind == "connector":
                self._configs.setdefault(name, 0)
            elif kind == "commit" and value is not None:
                self._configs[name] = value["payload"]["tasks"] if "payload" in value else value["tasks"]

    def _configured(self) -> frozenset[Work]:
        return frozenset(
            Work(name, number) for name, tasks in self._configs.items() for number in range(CONNECTOR, tasks)
        )

    def _hold(self, works: set[Work]) -> None:
        self._say("revoked", self._holds - works)
        self._say("assigned", works - self._holds)
        self._holds = works

    def _say(self, event: str, works: Iterable[Work]) -> None:
        tasks = [work for work in works if work.task != CONNECTOR]
        line = {"event": event, "mono": time.monotonic_ns(), "time": time.time_ns(), "incremental": True}
        named: dict[str, list[int]] = {}
        for work in tasks:
            named.setdefault(work.connector, []).append(work.task)
        with self._leases.open("a") as log:
            log.write(json.dumps({**line, "partitions": named}) + "\n")


def _ask(connection: socket.socket, request: Message) -> Any:
    """Send a request with a private key, and wait for its answer."""
    key = request.__schema__.api_key
    header = m.RequestHeader(request_api_key=key, request_api_version=0, client_id="new")
    sent = encode(header, c.REQUEST_HEADER_VERSION) + encode(request, c.VERSION)
    connection.sendall(len(sent).to_bytes(4, "big") + sent)
    with connection.makefile("rb") as answers:
        frame = answers.read(int.from_bytes(answers.read(4), "big"))
    _, start = decode_prefix(m.ResponseHeader, c.RESPONSE_HEADER_VERSION, frame)
    return decode(c.CONNECT_APIS[key].response, c.VERSION, frame, start)
