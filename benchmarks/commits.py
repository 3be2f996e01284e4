"""Measures what becomes of one consumer's many asynchronous commits, on a broker with Kafka's defaults for groups.

`make bench-commits` runs it, prints a table and writes build/bench-commits.json; with `--record` the run takes the
place of that of the same Kafka in docs/evidence/commits.json, from which `python -m tools.recorded_tables` makes the
table of docs/evidence/performance.md. A librdkafka consumer sends as many
OffsetCommits as it can without waiting for the answers, straight at Kafka and through Epochgate. Its Heartbeats wait
behind them on the same connection. A classic coordinator takes a commit as a sign of life; in the new protocol only a
heartbeat is one, so the proxy's own heartbeats have to keep the member in its group.
"""

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.lib.test_bed import BUILD, gateway, kafka, kafka_version
from tools import commits_table, recorded
from tools.kafka.settings import GROUP_DEFAULTS

REPORT = BUILD / "bench-commits.json"
COMMITS = 60_000
STRAIGHT, TRANSLATED = "straight at Kafka", "through Epochgate"
TOPIC = "commits"
TIMEOUT_S = 300.0
_SERVED_EVERY = 100
"""The application serves its callbacks after so many commits."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the commits of one consumer.

    ``seconds`` is the time from the first commit to the last answer, ``longest_s`` the longest that one waited for its
    answer, ``lost`` how often the consumer lost its partitions, ``cpu_s`` the proxy's processor time.
    """

    entry: str
    commits: int
    accepted: int
    errors: dict[str, int]
    lost: int
    committed: int
    """The offset that the group has at the end; that of the last commit is the number of commits."""
    seconds: float
    longest_s: float
    cpu_s: float = 0.0


class CommittingConsumer:
    """One librdkafka consumer that owns the topic's only partition and commits an offset after the other.

    At most ``window`` commits wait for their answers at once; 0 for any number.
    """

    def __init__(self, bootstrap: str, group: str, topic: str = TOPIC, *, window: int = 0) -> None:
        self._topic = topic
        self._window = window
        self._sent_at: list[float] = []
        self._longest_s = 0.0
        self._results: Counter[str] = Counter()
        self._lost = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "on_commit": self._on_commit,
                "log_level": 0,
            }
        )

    def join(self) -> None:
        """Join the group and wait for the partition."""
        self._consumer.subscribe([self._topic], on_lost=self._on_lost)
        self._serve_until(lambda: bool(self._consumer.assignment()), "the partition is assigned")

    def commit(self, entry: str, commits: int) -> Row:
        """Send so many commits, wait for their answers, and leave the group."""
        began = time.monotonic()
        for offset in range(1, commits + 1):
            if self._window:
                while len(self._sent_at) - self._results.total() >= self._window:
                    self._consumer.poll(0.01)
            self._sent_at.append(time.monotonic())
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=True)
            if offset % _SERVED_EVERY == 0:
                self._consumer.poll(0)
        self._serve_until(lambda: self._results.total() == commits, "all commits are answered")
        seconds = time.monotonic() - began
        (committed,) = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=30)
        self._consumer.close()
        return Row(
            entry=entry,
            commits=commits,
            accepted=self._results.pop("", 0),
            errors=dict(self._results),
            lost=self._lost,
            committed=committed.offset,
            seconds=seconds,
            longest_s=self._longest_s,
        )

    def _serve_until(self, is_done: Any, what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {TIMEOUT_S:g} s: {what}; {dict(self._results)}")
            self._consumer.poll(0.05)

    def _on_commit(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        waited_s = time.monotonic() - self._sent_at[self._results.total()]
        self._longest_s = max(self._longest_s, waited_s)
        self._results["" if error is None else error.name()] += 1

    def _on_lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._lost += 1


def create_topic(bootstrap: str, topic: str = TOPIC) -> None:
    """Create a topic of one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def measure(commits: int, rounds: int) -> list[Row]:
    """Measure a row for each entry and round, one after another, on a broker with GROUP_DEFAULTS."""
    rows = []
    with kafka(**GROUP_DEFAULTS) as cluster, gateway(cluster.bootstrap, "commits") as proxy:
        create_topic(cluster.bootstrap)
        for number in range(rounds):
            straight = CommittingConsumer(cluster.bootstrap, f"straight-{number}")
            straight.join()
            rows.append(straight.commit(STRAIGHT, commits))
            print(commits_table.row(msgspec.to_builtins(rows[-1])), end="", flush=True)
            translated = CommittingConsumer(proxy.bootstrap, f"translated-{number}")
            translated.join()
            before_s = proxy.cpu_s()
            row = translated.commit(TRANSLATED, commits)
            rows.append(msgspec.structs.replace(row, cpu_s=proxy.cpu_s() - before_s))
            print(commits_table.row(msgspec.to_builtins(rows[-1])), end="", flush=True)
    return rows


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="into docs/evidence/commits.json")
    arguments = parser.parse_args(argv)
    print(commits_table.HEAD, end="")
    rows = measure(arguments.commits, arguments.rounds)
    run = {
        "kafka": kafka_version(),
        "command": f"python -m benchmarks.commits {shlex.join(argv)}",
        **recorded.of_code(BUILD.parent),
        "load": round(os.getloadavg()[0], 1),
        "rows": [msgspec.to_builtins(row) for row in rows],
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(run, indent=2) + "\n")
    if arguments.record:
        commits_table.RUNS.keep(run)
    return 0 if all(row.accepted == row.commits and not row.lost for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
