"""What every driver says and understands: JSON, one object a line.

A driver is a small application around one unmodified client library. Its only argument is a JSON object,
`Spec`. On stdout it writes events, on stdin it reads commands; when stdin ends, whoever started it has
died, and it ends too. The Java driver (tools/java_client) speaks the same; it alone has `commit_in`, a list of
`revoked` and `lost`: there the application commits and catches nothing, so that a refused commit ends it.

Every event has

    event   its kind, below
    mono    CLOCK_MONOTONIC in ns: one clock for all processes of a machine, never set back, so it is what
            events of different clients are ordered by (Java's System.nanoTime() is the same clock on Linux)
    time    wall clock in ns, to find the moment in a log
    seq     0, 1, 2, ... of this driver, in the order in which things happened

and its own fields:

    started      client, version, pid
    assigned     partitions {topic: [partition]}, incremental: written before anything else in the callback
    revoked      the same: written as the last thing in the callback, when the application has let go
    lost         the same, where the client has such a callback
    records      topic, partition, first, last (offsets), values: one line a partition and poll
    committed    offsets {topic: {partition: offset}}
    commit_failed  error, and offsets where `commit_every_ms` tried it
    position_moved  text: what kafka-python says when it moves a position by itself, as after a truncation
    error        error, fatal: what the client reports beside its calls
    closing      written before close() is called: what the client still owned ends here at the latest
    closed       the last event of an orderly end
    failed       error: the client raised into the application, which ends here as a crash would

Commands: {"command": "commit", "offsets": {topic: {partition: offset}} or absent for the positions},
`subscribe` with topics, `unsubscribe`, `stall` with ms (the application does not poll for so long), `close`. The driver
on franz-go alone has `produce` with topic and value, answered `produced`, and `describe`, answered `described`.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Partitions = dict[str, list[int]]


class Spec(NamedTuple):
    """How the client is to be configured; names are the Java client's with underscores.

    `own_settings` are settings in the words of the client itself, which differ in all that is about security.
    """

    bootstrap: str
    group: str
    topics: list[str]
    assignors: list[str]
    client_id: str
    instance_id: str | None = None
    group_protocol: str = "classic"
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 500
    max_poll_interval_ms: int = 60_000
    auto_commit: bool = True
    auto_commit_interval_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    rack: str | None = None
    commit_every_ms: int = 0
    """Above 0: the application itself commits what it has read, so often and in its revoke callback, and says so."""
    own_settings: Mapping[str, Any] = {}

    @classmethod
    def from_arguments(cls) -> "Spec":
        """From the command line."""
        return cls(**json.loads(sys.argv[1]))


class Events:
    """Writes events; callbacks may come from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def write(self, event: str, **fields: object) -> None:
        """Stamp and write one event."""
        with self._lock:
            line = {
                "event": event,
                "mono": time.monotonic_ns(),
                "time": time.time_ns(),
                "seq": self._next,
                **fields,
            }
            self._next += 1
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def started(self, client: str, version: str) -> None:
        """The first event."""
        self.write("started", client=client, version=version, pid=os.getpid())

    def records(self, batch: Iterable[tuple[str, int, int, str]]) -> None:
        """(topic, partition, offset, value) of one poll, in the order in which they were read."""
        by_partition: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for topic, partition, offset, value in batch:
            by_partition.setdefault((topic, partition), []).append((offset, value))
        for (topic, partition), read in by_partition.items():
            self.write(
                "records",
                topic=topic,
                partition=partition,
                first=read[0][0],
                last=read[-1][0],
                offsets=[offset for offset, _ in read],
                values=[value for _, value in read],
            )

    def committed(self, offsets: Iterable[tuple[str, int, int]]) -> None:
        """(topic, partition, offset) that the broker has accepted."""
        self.write("committed", offsets=by_topic(offsets))


class Progress:
    """What the application has read and not yet committed, as `commit_every_ms` has it commit."""

    def __init__(self, every_ms: int) -> None:
        self._every_s = every_ms / 1000
        self._next: dict[tuple[str, int], int] = {}
        self._due = time.monotonic() + self._every_s

    @property
    def is_due(self) -> bool:
        """Whether it is time to commit again."""
        return self._every_s > 0 and bool(self._next) and time.monotonic() >= self._due

    def read(self, topic: str, partition: int, offset: int) -> None:
        """A record was reported."""
        if self._every_s > 0:
            self._next[topic, partition] = offset + 1

    def open(self, partitions: Iterable[Any] | None = None) -> list[tuple[str, int, int]]:
        """(topic, partition, offset to commit), of all partitions or of these."""
        self._due = time.monotonic() + self._every_s
        chosen = self._next if partitions is None else {(at.topic, at.partition) for at in partitions}
        return [(*at, self._next[at]) for at in chosen if at in self._next]

    def done(self, offsets: Iterable[tuple[str, int, int]]) -> None:
        """These are committed."""
        for topic, partition, offset in offsets:
            if self._next.get((topic, partition)) == offset:
                del self._next[topic, partition]

    def forget(self, partitions: Iterable[Any]) -> None:
        """These belong to somebody else now."""
        for at in partitions:
            self._next.pop((at.topic, at.partition), None)


def by_topic(offsets: Iterable[tuple[str, int, int]]) -> dict[str, dict[int, int]]:
    """{topic: {partition: offset}}."""
    found: dict[str, dict[int, int]] = {}
    for topic, partition, offset in offsets:
        found.setdefault(topic, {})[partition] = offset
    return found


def grouped(partitions: Iterable[Any]) -> Partitions:
    """Objects with `topic` and `partition` as {topic: [partition]}."""
    found: Partitions = {}
    for at in partitions:
        found.setdefault(at.topic, []).append(at.partition)
    return {topic: sorted(numbers) for topic, numbers in found.items()}


def asked_offsets(command: Mapping[str, Any]) -> list[tuple[str, int, int]] | None:
    """The explicit offsets of a commit command, or None for the positions."""
    if command.get("offsets") is None:
        return None
    return [
        (topic, int(partition), offset)
        for topic, partitions in command["offsets"].items()
        for partition, offset in partitions.items()
    ]


def read_commands(take: Callable[[dict[str, Any]], object]) -> None:
    """Give every command to `take`, from a thread of its own; end the process when stdin ends."""

    def read() -> None:
        for line in sys.stdin:
            take(json.loads(line))
        os._exit(2)  # whoever started this process is gone, and nobody reads our events

    threading.Thread(target=read, name="commands", daemon=True).start()


def command_queue() -> "queue.SimpleQueue[dict[str, Any]]":
    """Commands for a driver that polls."""
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    read_commands(commands.put)
    return commands


def next_command(commands: "queue.SimpleQueue[dict[str, Any]]") -> dict[str, Any] | None:
    """The next command, if one is there."""
    try:
        return commands.get_nowait()
    except queue.Empty:
        return None
