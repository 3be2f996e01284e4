"""Measures what the applications of live groups notice while the policy moves them: observe -> translate -> observe.

`python -m benchmarks.live_move` prints a table and writes build/bench-live-move.json. Each group has three members of
one library, under load, behind one proxy and a Kafka of KAFKA_VERSION. An application that ends stays away, and is
counted. Records read twice include those of the way back, which is an ordinary rebalance.
"""

import argparse
import dataclasses
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import ROOT, find_broker
from support.broker import Kafka
from support.clients import AIOKAFKA, CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON, ClientKind
from support.consumers import Consumers
from support.live_group import LiveGroup, live_group
from support.other_clients import FRANZ_GO, KAFKA_GO, KAFKAJS, SARAMA
from support.ownership import account, gaps, overlaps

REPORT = ROOT / "build" / "bench-live-move.json"
FOLDER = ROOT / "build" / "bench-live-move"


@dataclass(frozen=True)
class Case:
    """Applications of one kind."""

    client: ClientKind
    assignor: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    more: str = ""


COMMITS_IN_CALLBACKS: Mapping[str, Any] = {"auto_commit": False, "commit_in": ["revoked", "lost"]}
"""As Java applications do that have onPartitionsRevoked only: it is called for lost partitions too."""

CASES = {
    "librdkafka-range": Case(CONFLUENT, "range"),
    "librdkafka-cooperative": Case(CONFLUENT, COOPERATIVE),
    "java-range": Case(JAVA, "range", COMMITS_IN_CALLBACKS, "commits in its callbacks"),
    "java-cooperative": Case(JAVA, COOPERATIVE, COMMITS_IN_CALLBACKS, "commits in its callbacks"),
    "kafka-python-range": Case(KAFKA_PYTHON, "range"),
    "aiokafka-roundrobin": Case(AIOKAFKA, "roundrobin"),
    "kafkajs": Case(KAFKAJS, "RoundRobinAssigner"),
    "franz-go-cooperative": Case(FRANZ_GO, COOPERATIVE),
    "sarama-sticky": Case(SARAMA, "sticky"),
    "kafka-go": Case(KAFKA_GO, "rack-affinity"),
}


@dataclass
class Cost:
    """What the three applications of one case went through in all moves."""

    case: str
    library: str
    moves: int = 0
    """Moves in and back that came to their end."""
    ended: int = 0
    """Applications that ended."""
    callbacks_in: int = 0
    callbacks_back: int = 0
    lost: int = 0
    """Callbacks that said that a membership was lost."""
    records: int = 0
    unread: int = 0
    read_twice: int = 0
    two_owners: int = 0
    longest_gap_in_s: float = 0.0
    longest_gap_back_s: float = 0.0
    failed: str = ""
    """Why it stopped before its last move."""


def measure(kafka: Kafka, name: str, rounds: int) -> Cost:
    """Move one group so often. What goes wrong ends its measurement, and is in the result."""
    case = CASES[name]
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    cost = Cost(name, f"{case.client} {case.client.version()} {case.assignor} {case.more}".strip())
    consumers = Consumers(folder)
    try:
        with live_group(kafka, consumers, folder, f"bench-{name}") as live:
            try:
                live.form(case.client, case.assignor, **case.spec)
                for _ in range(rounds):
                    _move(live, "translate", cost)
                    _move(live, "observe", cost)
            except AssertionError as failure:
                cost.failed = str(failure).splitlines()[0]
            for load in live.loads:
                load.stop()
            produced = live.produced()
            if not cost.failed:
                live.read_up_to_now()
            found = account(produced, consumers.logs)
            cost.records, cost.unread, cost.read_twice = (
                len(produced),
                len(found.lost),
                len(found.duplicates),
            )
            cost.ended = sum(bool(one.seen("failed", "died")) for one in live.members)
            cost.two_owners = len(overlaps(consumers.logs))
    except AssertionError as failure:
        cost.failed = cost.failed or str(failure).splitlines()[0]
    finally:
        consumers.end()
    return cost


def _move(live: LiveGroup, mode: str, cost: Cost) -> None:
    began = max((one.events[-1].mono for one in live.members), default=0)
    marks = [one.mark() for one in live.members]
    try:
        live.move(mode)
        cost.moves += 1
    finally:
        longest = max((gap.seconds for gap in gaps(live.consumers.logs) if gap.begin >= began), default=0.0)
        cost.lost += len(live.callbacks(marks, "lost"))
        if mode == "translate":
            cost.callbacks_in += len(live.callbacks(marks))
            cost.longest_gap_in_s = max(cost.longest_gap_in_s, longest)
        else:
            cost.callbacks_back += len(live.callbacks(marks))
            cost.longest_gap_back_s = max(cost.longest_gap_back_s, longest)


def table(costs: Sequence[Cost]) -> str:
    """All cases, for docs/evidence."""
    names = "applications, moves, ended, callbacks in, lost, callbacks back, no owner in and back (s), read twice, "
    names += "of records, unread, two owners"
    lines = [
        f"| {names.replace(', ', ' | ')} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one.library} | {one.moves} | {one.ended} | {one.callbacks_in} | {one.lost} | {one.callbacks_back} | "
        f"{one.longest_gap_in_s:.2f} and {one.longest_gap_back_s:.2f} | {one.read_twice} | "
        f"{one.records} | {one.unread} | {one.two_owners} |{f' {one.failed}' if one.failed else ''}"
        for one in costs
    ]
    return "\n".join(lines)


def main() -> int:
    """Find a broker, measure, print, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.live_move",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=10, help="there and back, so many times")
    parser.add_argument("--only", default=",".join(CASES), help=f"some of {','.join(CASES)}")
    options = parser.parse_args()
    names = options.only.split(",")
    if not set(names) <= CASES.keys():
        parser.error(f"--only: some of {','.join(CASES)}")
    costs = []
    with find_broker.any_broker() as kafka:
        for name in names:
            costs.append(measure(kafka, name, options.rounds))
            print(table(costs[-1:]).splitlines()[-1], flush=True)
        about = {
            "kafka": kafka.version,
            "machine": platform.platform(),
            "rounds": options.rounds,
            "costs": [dataclasses.asdict(one) for one in costs],
        }
    print(table(costs))
    Path(REPORT).write_text(json.dumps(about, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
