"""Measures how long the partitions of killed clients have no owner behind three replicas that are one fleet.

`make bench-fleet ROUNDS=5` runs it, prints the table of docs/evidence/fleet.md, and writes every figure to
build/bench-fleet.json. The broker has Kafka's defaults for groups. Half of the groups go straight to it, half through
the replicas; all other things are equal. A group has two classic consumers, who share a topic. Behind the fleet they
enter at different replicas, so who is killed is never served by the replica of the one that takes over.

In each round one client of every group is killed (kill -9) and its partitions are waited for. A new client takes its
place, at the next replica, and the next round kills the one that has been there for longer. The groups are killed in
parallel, each with a client of its own, so that 20 figures do not take 20 sessions one after another: five rounds with
four groups on each path are 20 figures for each, in about three minutes. That is no easier for the fleet than one kill
after another: all of them fall on the same three replicas and the same log.

A classic client's session begins anew with each of its heartbeats, and the one that takes over hears of it at its own
next heartbeat. So a figure may lie on either side of the session timeout by one heartbeat interval, with or without a
proxy. That is why both paths are measured in the same run, killed at the same moments.
"""

import argparse
import contextlib
import itertools
import json
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from support import ROOT, find_broker
from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy, running_proxy
from support.ownership import Partition, gaps, overlaps

from tools.kafka.settings import GROUP_DEFAULTS

REPORT = ROOT / "build" / "bench-fleet.json"
DIRECT = "straight at Kafka"
FLEET = "behind three replicas that are one fleet"

REPLICAS = 3
GROUPS_PER_PATH = 4
PARTITIONS = 6
SESSION_S = 10.0
"""The clients' session timeout."""
HEARTBEAT_MS = 3_000
"""Kafka's default for classic clients."""
SLACK_S = 1.5
"""By how much a figure may exceed the session timeout to count as within it."""
TIMEOUT_S = 150.0


@dataclass(frozen=True)
class Figure:
    """For how long the partitions of one killed client had no owner: the longest of them, from the kill on."""

    path: str
    round: int
    seconds: float


@dataclass
class _Group:
    """Two consumers of one group. ``bootstraps``: where the next ones enter, in turns."""

    path: str
    name: str
    topic: str
    bootstraps: Iterator[str]
    members: list[ConsumerProcess] = field(default_factory=list)
    """Who lives, the longest there first."""
    everybody: list[ConsumerProcess] = field(default_factory=list)

    def is_shared(self) -> bool:
        """Whether each of the two owns its half."""
        return all(len(one.owned()) == PARTITIONS // 2 for one in self.members) and len(self.members) == 2

    def is_taken_over(self) -> bool:
        """Whether the one that is left owns everything."""
        (survivor,) = self.members
        return survivor.owned() == {Partition(self.topic, number) for number in range(PARTITIONS)}

    def start(self, consumers: Consumers, heartbeat_ms: int) -> None:
        """Start the consumers that it lacks."""
        while len(self.members) < 2:
            consumer = consumers.start(
                CONFLUENT,
                next(self.bootstraps),
                self.name,
                self.topic,
                "range",
                session_timeout_ms=int(SESSION_S * 1000),
                heartbeat_interval_ms=heartbeat_ms,
            )
            self.members.append(consumer)
            self.everybody.append(consumer)

    def kill(self) -> ConsumerProcess:
        """Kill the one that has been there for longer; return it."""
        victim = self.members.pop(0)
        victim.kill()
        return victim

    def seconds_without_owner(self, victim: ConsumerProcess) -> float:
        """The longest time in which a partition of the killed one had no owner, once all have one again."""
        killed = victim.seen("killed")[0].mono
        found = gaps([one.events for one in self.everybody])
        return max(gap.seconds for gap in found if gap.begin == killed)


def measure(kafka: Kafka, folder: Path, rounds: int, heartbeat_ms: int = HEARTBEAT_MS) -> list[Figure]:
    """Measure ``rounds`` times GROUPS_PER_PATH figures for each path, on a `kafka` with GROUP_DEFAULTS.

    Raises AssertionError if a group does not settle, or a partition has two owners at any moment.
    """
    folder.mkdir(parents=True, exist_ok=True)
    consumers = Consumers(folder)
    figures: list[Figure] = []
    with contextlib.ExitStack() as stack:
        stack.callback(consumers.end)
        replicas = [_start_replica(stack, kafka, folder / f"replica-{n}") for n in range(REPLICAS)]
        ways = {DIRECT: [kafka.bootstrap], FLEET: [replica.bootstrap for replica in replicas]}
        groups = [
            _group(kafka, path, ways[path], number) for number in range(GROUPS_PER_PATH) for path in ways
        ]
        for number in range(1, rounds + 1):
            for group in groups:
                group.start(consumers, heartbeat_ms)
            _wait(consumers, [group.is_shared for group in groups], "all groups have settled")
            victims = [(group, group.kill()) for group in groups]
            _wait(consumers, [group.is_taken_over for group in groups], "all partitions have owners again")
            figures += [
                Figure(group.path, number, round(group.seconds_without_owner(victim), 2))
                for group, victim in victims
            ]
        found = overlaps(consumers.logs)
        if found:
            raise AssertionError("partitions had two owners:\n" + "\n".join(map(str, found)))
    return figures


def table(figures: Sequence[Figure]) -> str:
    """Format the figures: a row for each path."""
    limit_s = SESSION_S + SLACK_S
    columns = (
        f"clients, with a session timeout of {SESSION_S:g} s",
        "killed",
        "without an owner: median",
        "longest",
        f"within {limit_s:g} s",
        "every figure, in seconds",
    )
    lines = [f"| {' | '.join(columns)} |", "| " + " | ".join(["---"] * len(columns)) + " |"]
    for path in (DIRECT, FLEET):
        found = sorted(figure.seconds for figure in figures if figure.path == path)
        within = sum(seconds <= limit_s for seconds in found)
        every = " ".join(f"{seconds:.1f}" for seconds in found)
        lines.append(
            f"| {path} | {len(found)} | {statistics.median(found):.1f} s | {found[-1]:.1f} s "
            f"| {within} of {len(found)} | {every} |"
        )
    return "\n".join(lines)


def _wait(consumers: Consumers, conditions: Sequence[Callable[[], bool]], what: str) -> None:
    consumers.wait_until(lambda: all(is_so() for is_so in conditions), what, timeout_s=TIMEOUT_S)


def _start_replica(stack: contextlib.ExitStack, kafka: Kafka, folder: Path) -> Proxy:
    fleet: Mapping[str, object] = {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "replication": 1,
        "expires": True,
    }
    return stack.enter_context(running_proxy(kafka.bootstrap, folder, sole_process=False, fleet=fleet))


def _group(kafka: Kafka, path: str, bootstraps: Sequence[str], number: int) -> _Group:
    topic = kafka.new_topic(partitions=PARTITIONS)
    turns = itertools.islice(itertools.cycle(bootstraps), number % len(bootstraps), None)
    return _Group(path, f"translate-fleet-{topic}", topic, turns)


def main() -> int:
    """Start a broker, measure, print, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help=f"{GROUPS_PER_PATH} figures each, on each path")
    parser.add_argument("--heartbeat-ms", type=int, default=HEARTBEAT_MS, help="the clients' interval")
    options = parser.parse_args()
    with find_broker.own_cluster("bench-fleet", overrides=GROUP_DEFAULTS) as cluster:
        kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
        figures = measure(kafka, ROOT / "build" / "bench-fleet", options.rounds, options.heartbeat_ms)
    print(
        f"Kafka {kafka.version}, Kafka's own settings for groups, a heartbeat every {options.heartbeat_ms} ms"
    )
    print(table(figures))
    print("No partition had two owners at any moment.")
    report = {
        "kafka": kafka.version,
        "machine": platform.platform(),
        "session_s": SESSION_S,
        "heartbeat_ms": options.heartbeat_ms,
        "figures": [asdict(figure) for figure in figures],
    }
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
