"""Measures the cost of a rebalance: classic directly at Kafka, the same through Epochgate, and native (KIP-848).

`make bench-rebalance` runs it, prints a table and writes build/bench-rebalance.json; docs/evidence/rebalance-cost.md
explains it. The three take turns in one run, on one broker with Kafka's defaults for groups. The consumers are the same
program (rebalance_consumers.py) with librdkafka's defaults; they differ only in `bootstrap.servers` and, for the native
ones, in `group.protocol`. Records are produced all the time.
"""

import argparse
import contextlib
import json
import platform
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from support import find_broker
from support.broker import Kafka
from support.entry import running_proxy

from benchmarks.lib.rebalance_measures import NS, Change, Cost, cost, owners
from tools.kafka.settings import GROUP_DEFAULTS

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "build" / "bench-rebalance.json"
LOGS = ROOT / "build" / "bench-rebalance"

CONSUMERS = 20
PARTITIONS = 200
GROWING_CONSUMERS = 10
GROWING_FROM, GROWING_TO = 100, 1000
RATE = 400
"""Records a second, over all partitions."""

QUIET_S = 7.0
"""A change is over when every partition has one owner, the shares are even, and nothing has happened for so long:
longer than any heartbeat interval here."""

TIMEOUT_S = 420.0
"""Longer than the five minutes after which clients look for new partitions by default."""

HOSTS = 2
"""Processes that the consumers are spread over."""

CLASSIC, EPOCHGATE, NATIVE = "classic", "epochgate", "native"
MODES = (CLASSIC, EPOCHGATE, NATIVE)

STEADY = ("join", "leave", "rolling restart")
GROWING: dict[str, dict[str, int]] = {
    "900 partitions added": {},
    "900 partitions added, clients look every 5 s": {
        "topic.metadata.refresh.interval.ms": 5_000,
        "metadata.max.age.ms": 15_000,
    },
}
"""What differs from the clients' defaults: by these they look for new partitions every five minutes, and in a classic
group nobody else does."""

TARGET_RATIO = 10.0


@dataclass(frozen=True)
class Row:
    """The cost of one kind of change in one mode; averages if it was done several times."""

    mode: str
    change: str
    times: int
    cost: Cost


class Host:
    """A process with consumers; their events are appended to `changes` of their group."""

    def __init__(self, number: int, heard: Callable[[dict[str, Any]], None]) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        with (LOGS / f"consumers-{number}.stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.lib.rebalance_consumers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=ROOT,
            )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process was started without pipes")
        self._commands, self._lines = self._process.stdin, self._process.stdout
        self._heard = heard
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, **command: object) -> None:
        self._commands.write(json.dumps(command) + "\n")
        self._commands.flush()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._commands.close()
        self._lines.close()

    def _read(self) -> None:
        for line in self._lines:
            with contextlib.suppress(json.JSONDecodeError):  # cut off by its end
                self._heard(json.loads(line))


@dataclass
class Group:
    """The consumers of one mode and their events."""

    topic: str
    settings: dict[str, Any]
    partitions: int
    hosts: list[Host] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    members: dict[str, Host] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    news: threading.Condition = field(default_factory=threading.Condition)
    failed: str | None = None

    def heard(self, line: dict[str, Any]) -> None:
        with self.news:
            name, event = line["name"], line["event"]
            if event in {"assigned", "revoking"}:
                partitions = frozenset(line["partitions"])
                self.changes.append(Change(name, line["mono"], event == "assigned", partitions))
            elif event == "closed":
                self.closed.add(name)
            elif event == "failed":
                self.failed = f"{name}: {line['error']}"
            self.news.notify_all()

    def start(self, names: Iterable[str]) -> None:
        for name in names:
            host = self.hosts[len(self.members) % len(self.hosts)]
            self.members[name] = host
            self.closed.discard(name)
            host.tell(command="start", name=name, topic=self.topic, settings=self.settings)

    def close(self, name: str) -> None:
        self.members.pop(name).tell(command="close", name=name)

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        with self.news:
            while not is_so():
                if self.failed or time.monotonic() > deadline:
                    raise SystemExit(
                        f"{self.failed or 'timeout'} while waiting until {what}: {self._shares()}"
                    )
                self.news.wait(0.2)

    def wait_quiet(self) -> int:
        """Wait until the change is over; return when the observation ended."""

        def quiet() -> bool:
            last = self.changes[-1].mono if self.changes else 0
            return self.is_even() and time.monotonic_ns() - last > QUIET_S * NS

        self.wait(quiet, "the group is even and quiet")
        return time.monotonic_ns()

    def is_even(self) -> bool:
        shares = self._shares()
        sizes = [len(shares.get(name, frozenset())) for name in self.members]
        owned = [number for name in self.members for number in shares.get(name, ())]
        everything = sorted(owned) == list(range(self.partitions))
        return everything and max(sizes) - min(sizes) <= 1

    def has_left(self, name: str) -> bool:
        return name in self.closed

    def owns(self, name: str) -> bool:
        return bool(self._shares().get(name))

    def _shares(self) -> dict[str, frozenset[int]]:
        return owners(self.changes, time.monotonic_ns())

    def cost(self, began: int, ended: int, bystanders: Iterable[str]) -> Cost:
        with self.news:
            return cost(
                self.changes,
                began=began,
                ended=ended,
                bystanders=bystanders,
                partitions=range(self.partitions),
            )


class Bench:
    """One broker, one proxy, one producer; measures the modes one after another."""

    def __init__(self, kafka: Kafka, through: str, repeats: int, say: Callable[[str], None]) -> None:
        self._kafka = kafka
        self._through = through
        self._repeats = repeats
        self._say = say
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})

    def rows(self, modes: Iterable[str], changes: Iterable[str]) -> Iterator[Row]:
        wanted = set(changes)
        for mode in modes:
            if wanted & set(STEADY):
                yield from self._steady(mode, wanted)
            for change in GROWING:
                if change in wanted:
                    yield self._growing(mode, change)

    @contextlib.contextmanager
    def _group(self, mode: str, consumers: int, partitions: int, **settings: object) -> Iterator[Group]:
        topic = self._kafka.new_topic("rebalance", partitions=partitions)
        group = Group(topic, {**self._settings(mode), **settings}, partitions)
        group.hosts = [Host(number, group.heard) for number in range(HOSTS)]
        try:
            with producing(self._kafka.bootstrap, topic, lambda: group.partitions):
                group.start(f"{mode}-{number:02}" for number in range(consumers))
                group.wait_quiet()
                self._say(f"{mode}: {consumers} consumers share {partitions} partitions")
                yield group
        finally:
            for host in group.hosts:
                host.end()

    def _settings(self, mode: str) -> dict[str, Any]:
        settings = {
            "bootstrap.servers": self._through if mode == EPOCHGATE else self._kafka.bootstrap,
            "group.id": f"translate-{mode}-{uuid.uuid4().hex[:6]}",
            "auto.offset.reset": "earliest",
        }
        if mode == NATIVE:
            return {**settings, "group.protocol": "consumer"}
        return {**settings, "partition.assignment.strategy": "roundrobin"}

    def _steady(self, mode: str, wanted: set[str]) -> Iterator[Row]:
        with self._group(mode, CONSUMERS, PARTITIONS) as group:
            joins, leaves = [], []
            for number in range(self._repeats):
                there = list(group.members)
                began = time.monotonic_ns()
                group.start([f"{mode}-new-{number}"])
                joins.append(group.cost(began, group.wait_quiet(), there))
                began = time.monotonic_ns()
                group.close(f"{mode}-new-{number}")
                leaves.append(group.cost(began, group.wait_quiet(), there))
            yield self._row(mode, "join", joins)
            yield self._row(mode, "leave", leaves)
            if "rolling restart" in wanted:
                yield self._row(mode, "rolling restart", [self._rolling(group)])

    def _rolling(self, group: Group) -> Cost:
        """Replace each consumer in turn, waiting until its successor has partitions."""
        names = list(group.members)
        began = time.monotonic_ns()
        for name in names:
            group.close(name)
            group.wait(partial(group.has_left, name), f"{name} has left")
            successor = f"{name}-b"
            group.start([successor])
            group.wait(partial(group.owns, successor), f"{successor} owns partitions")
        # Nobody is there from the beginning to the end, so nobody is a bystander.
        return group.cost(began, group.wait_quiet(), [])

    def _growing(self, mode: str, change: str) -> Row:
        with self._group(mode, GROWING_CONSUMERS, GROWING_FROM, **GROWING[change]) as group:
            there = list(group.members)
            began = time.monotonic_ns()
            self._admin.create_partitions([NewPartitions(group.topic, GROWING_TO)])[group.topic].result(60)
            group.partitions = GROWING_TO
            return self._row(mode, change, [group.cost(began, group.wait_quiet(), there)])

    def _row(self, mode: str, change: str, costs: list[Cost]) -> Row:
        fields = [asdict(one) for one in costs]
        mean = {name: sum(one[name] for one in fields) / len(fields) for name in fields[0]}
        row = Row(mode, change, len(costs), Cost(**{name: round(value, 3) for name, value in mean.items()}))
        each = ", ".join(f"{one.partition_s:.1f}" for one in costs)
        self._say(f"{mode}: {change}: {each} partition-seconds, complete after {row.cost.complete_s:.1f} s")
        return row


@contextlib.contextmanager
def producing(bootstrap: str, topic: str, partitions: Callable[[], int]) -> Iterator[None]:
    """Produce records while the body runs."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    stop = threading.Event()

    def produce() -> None:
        sent = 0
        began = time.monotonic()
        while not stop.wait(0.05):
            while sent < (time.monotonic() - began) * RATE:
                with contextlib.suppress(BufferError):
                    producer.produce(topic, b"x" * 100, partition=sent % known(partitions()))
                sent += 1
            producer.poll(0)

    def known(count: int) -> int:
        """Return the partitions that the producer knows; it learns of added ones with a delay."""
        return count if count == PARTITIONS else min(count, GROWING_FROM)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(10)


def table(rows: list[Row]) -> str:
    """Format the table of docs/evidence/rebalance-cost.md."""
    columns = (
        "change",
        "mode",
        "consumers stopped",
        "consumer-seconds",
        "partitions interrupted",
        "partition-seconds without an owner",
        "longest (s)",
        "complete after (s)",
    )
    head = f"| {' | '.join(columns)} |"
    lines = [head, "| --- " * 8 + "|"]
    for change in dict.fromkeys(row.change for row in rows):
        for row in (row for row in rows if row.change == change):
            c = row.cost
            stopped = f"{c.stopped:g} of {c.bystanders:g}" if c.bystanders else "each restarts"
            seconds = f"{c.stopped_s:.1f}" if c.bystanders else ""
            lines.append(
                f"| {change} | {row.mode} | {stopped} | {seconds} | {c.interrupted:g} | {c.partition_s:.1f} "
                f"| {c.longest_s:.2f} | {c.complete_s:.1f} |"
            )
    return "\n".join(lines)


def verdict(rows: list[Row]) -> list[str]:
    """Return each target, met or missed, with the number."""
    found = {(row.mode, row.change): row.cost for row in rows}
    lines = []
    for change in dict.fromkeys(row.change for row in rows):
        ours = found.get((EPOCHGATE, change))
        classic, native = found.get((CLASSIC, change)), found.get((NATIVE, change))
        if ours is None:
            continue
        if classic is not None:
            ratio = classic.partition_s / ours.partition_s if ours.partition_s else float("inf")
            met = "met" if ratio >= TARGET_RATIO else "MISSED"
            less = f"{ratio:.1f} times fewer partition-seconds than classic eager (target {TARGET_RATIO:g})"
            lines.append(f"{change}: {less}: {met}")
        if native is not None:
            met = "met" if ours.complete_s <= native.complete_s else "MISSED"
            slower = (
                f"complete after {ours.complete_s:.1f} s, native after {native.complete_s:.1f} s (no slower)"
            )
            lines.append(f"{change}: {slower}: {met}")
    return lines


def main() -> None:
    """Run, print, and write the results."""
    every = (*STEADY, *GROWING)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebalance", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="how often a consumer joins and leaves")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--changes", nargs="+", choices=every, default=list(every))
    options = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    with (
        find_broker.own_cluster(f"bench-{uuid.uuid4().hex[:6]}", overrides=GROUP_DEFAULTS) as cluster,
        running_proxy(cluster.bootstrap, LOGS / "proxy") as proxy,
    ):
        kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
        rows = list(Bench(kafka, proxy.bootstrap, options.repeats, say).rows(options.modes, options.changes))
        version = cluster.version
    print(table(rows))
    print("\n".join(verdict(rows)))
    REPORT.parent.mkdir(exist_ok=True)
    about = {
        "kafka": version,
        "client": f"confluent-kafka {confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})",
        "machine": f"{platform.machine()}, {platform.python_implementation()} {platform.python_version()}",
        "rows": [asdict(row) for row in rows],
        "verdict": verdict(rows),
    }
    REPORT.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
