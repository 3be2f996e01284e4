"""Measures how long the partitions of a killed client have no owner, on a broker with Kafka's defaults for groups.

`make bench-failover` runs it and prints the table of docs/how-to/operations.md. Two consumers share a topic, and one of
them is killed (kill -9). Directly at Kafka a classic client's own session timeout decides when the other one gets its
partitions; behind several processes the broker's does, because none of them knows whether the client came back at
another one (docs/how-to/operations.md). All rows are measured at the same time, each with its own group.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support import ROOT, find_broker
from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy, running_proxy
from support.ownership import Partition, gaps

from tools.kafka.settings import GROUP_DEFAULTS

PARTITIONS = 6
CLIENT_SESSION_S = 10.0
"""The clients' session timeout; librdkafka's own default is 45 s."""

BROKER_SESSION_S = int(GROUP_DEFAULTS["group.consumer.session.timeout.ms"]) / 1000
HEARTBEAT_MS = 3_000
"""Kafka's default for classic clients."""

TIMEOUT_S = 150.0

DIRECT = "classic client, straight at Kafka"
ONE_PROCESS = "classic client, through Epochgate: one process"
TWO_WORKERS = "classic client, through Epochgate: two workers"
TWO_REPLICAS = "classic client, through Epochgate: two replicas"
FLEET = "classic client, through Epochgate: three replicas that are one fleet"
NATIVE = "native client, straight at Kafka"
NATIVE_THROUGH = "native client, through Epochgate: one process"


@dataclass(frozen=True)
class Row:
    """The longest time in which a partition had no owner after its client was killed."""

    entry: str
    free_s: float


@dataclass(frozen=True)
class _Group:
    """Two consumers of one group, which may connect to different proxies."""

    entry: str
    topic: str
    survivor: ConsumerProcess
    victim: ConsumerProcess

    def shared(self) -> bool:
        """Whether each owns its half."""
        return all(len(one.owned()) == PARTITIONS // 2 for one in (self.survivor, self.victim))

    def taken_over(self) -> bool:
        """Whether the surviving consumer owns everything."""
        return self.survivor.owned() == {Partition(self.topic, number) for number in range(PARTITIONS)}

    def row(self) -> Row:
        """Return the measurement, after the partitions were taken over."""
        killed = self.victim.seen("killed")[0].mono
        found = gaps([self.survivor.events, self.victim.events])
        return Row(self.entry, max(gap.seconds for gap in found if gap.end > killed))


def measure(kafka: Kafka, folder: Path) -> list[Row]:
    """Measure a row for each entry, on a `kafka` with GROUP_DEFAULTS.

    Raises AssertionError if a group does not settle.
    """
    consumers = Consumers(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(consumers.end)
        straight = kafka.bootstrap, kafka.bootstrap
        one = stack.enter_context(_proxies(kafka, folder / "one"))
        workers = stack.enter_context(_proxies(kafka, folder / "workers", workers=2))
        replicas = stack.enter_context(_proxies(kafka, folder / "replicas", replicas=2))
        fleet = stack.enter_context(_proxies(kafka, folder / "fleet", replicas=3, fleet=_fleet(kafka)))
        groups = [
            _start(kafka, consumers, DIRECT, straight, "classic"),
            _start(kafka, consumers, ONE_PROCESS, one, "classic"),
            _start(kafka, consumers, TWO_WORKERS, workers, "classic"),
            _start(kafka, consumers, TWO_REPLICAS, replicas, "classic"),
            _start(kafka, consumers, FLEET, fleet, "classic"),
            _start(kafka, consumers, NATIVE, straight, "consumer"),
            _start(kafka, consumers, NATIVE_THROUGH, one, "consumer"),
        ]
        consumers.wait_until(
            lambda: all(group.shared() for group in groups), "all groups have settled", timeout_s=TIMEOUT_S
        )
        for group in groups:
            group.victim.kill()
        consumers.wait_until(
            lambda: all(group.taken_over() for group in groups), "the others have it", timeout_s=TIMEOUT_S
        )
        return [group.row() for group in groups]


def table(rows: list[Row]) -> str:
    """Format the table of docs/how-to/operations.md."""
    lines = ["| client and path | partitions without an owner after `kill -9` |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {row.entry} | {row.free_s:.1f} s |" for row in rows)])


@contextlib.contextmanager
def _proxies(
    kafka: Kafka,
    folder: Path,
    *,
    replicas: int = 1,
    workers: int = 1,
    fleet: Mapping[str, object] | None = None,
) -> Iterator[tuple[str, str]]:
    """Start this many proxies; yield the bootstrap addresses of the first and of the second client."""
    with contextlib.ExitStack() as stack:
        proxies: list[Proxy] = [
            stack.enter_context(
                running_proxy(
                    kafka.bootstrap,
                    folder / str(number),
                    sole_process=replicas == 1,
                    workers=workers,
                    fleet=fleet,
                )
            )
            for number in range(replicas)
        ]
        yield proxies[0].bootstrap, proxies[-1].bootstrap


def _fleet(kafka: Kafka) -> dict[str, object]:
    return {"kafka": {"bootstrap.servers": kafka.bootstrap}, "replication": 1, "expires": True}


def _start(kafka: Kafka, consumers: Consumers, entry: str, at: tuple[str, str], protocol: str) -> _Group:
    number = len(consumers.all)
    topic = kafka.new_topic(partitions=PARTITIONS)
    first, second = (
        consumers.start(
            CONFLUENT,
            bootstrap,
            f"translate-failover-{number}-{topic}",
            topic,
            *(("range",) if protocol == "classic" else ()),
            group_protocol=protocol,
            session_timeout_ms=int(CLIENT_SESSION_S * 1000),
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        for bootstrap in at
    )
    return _Group(entry, topic, first, second)


def main() -> int:
    """Start a broker, measure, and print."""
    argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__).parse_args()
    with find_broker.own_cluster("bench-failover", overrides=GROUP_DEFAULTS) as cluster:
        kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
        folder = ROOT / "build" / "bench-failover"
        folder.mkdir(parents=True, exist_ok=True)
        print(table(measure(kafka, folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
