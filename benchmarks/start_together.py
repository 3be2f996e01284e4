"""Measures members that start together: rebalance callbacks, time to the first partition, and until the group settles.

`python -m benchmarks.start_together` prints a table and writes build/start-together.json; with `--record` the run takes
the place of that of the same Kafka in docs/evidence/start-together.json, from which `python -m tools.recorded_tables`
makes the table of docs/evidence/rebalance-cost.md. The members are ordinary
librdkafka consumers (rebalance_consumers.py) with its defaults, spread over a few processes. They come straight to a
stock broker, through one proxy, and through two replicas by turns. A group of as many members as clients needs one
callback each.
"""

import argparse
import contextlib
import json
import os
import shlex
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.lib.rebalance_measures import NS, Change, owners
from benchmarks.lib.test_bed import BUILD, Gateway, kafka, kafka_version, of_fleet
from benchmarks.rebalance import Host
from tools import recorded, start_together_table
from tools.kafka.settings import GROUP_DEFAULTS

REPORT = BUILD / "start-together.json"
SIZES = (6, 30, 100)
PARTITIONS_EACH = 2
HOSTS = 4
QUIET_S = 7.0
"""A group has settled when each partition has one owner and no callback has come for so long: longer than any heartbeat
interval here, and than the delay in which a classic group waits for more members."""
TIMEOUT_S = 120.0
DELAY_MS = 3_000
"""Kafka's default of ``group.initial.rebalance.delay.ms``."""

STRAIGHT = "straight"
SOLE = "one proxy"
REPLICAS = "two replicas"
FLEET = "two replicas with a member log"
WITHOUT = "one proxy that does not wait"
REPLICAS_WITHOUT = "two replicas that do not wait"
MODES = (STRAIGHT, SOLE, REPLICAS, FLEET, WITHOUT, REPLICAS_WITHOUT)


@dataclass(frozen=True)
class Start:
    """One start of a group. Times are seconds since the first client was started."""

    mode: str
    members: int
    assigned: int
    """Assign callbacks of all members."""
    revoked: int
    """Revoke callbacks."""
    with_nothing: int
    """Assign callbacks without partitions, which are among ``assigned``."""
    first_s: float
    """Until the first partition reached a client."""
    settled_s: float
    """Until the last callback."""


class Callbacks:
    """The callbacks of one group, as they come from the processes."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.closed = 0
        self._news = threading.Condition()

    def add(self, event: dict[str, Any]) -> None:
        """Take a line of a process."""
        if event["event"] in {"failed", "commit_failed"}:
            print(event, file=sys.stderr)
        with self._news:
            if event["event"] == "closed":
                self.closed += 1
            else:
                self.events.append(event)
            self._news.notify_all()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition holds; it is tried after each callback, and each quarter of a second."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while not condition():
                if time.monotonic() > deadline:
                    return False
                self._news.wait(0.25)
        return True

    def changes(self) -> list[Change]:
        """What the clients gained and lost."""
        return [
            Change(one["name"], one["mono"], one["event"] == "assigned", frozenset(one["partitions"]))
            for one in self.events
            if one["event"] in {"assigned", "revoking"}
        ]

    def is_settled(self, members: int, partitions: int) -> bool:
        """Whether each member was called back, each partition has one owner, and all has been quiet since."""
        now = time.monotonic_ns()
        if not self.events or now - self.events[-1]["mono"] < QUIET_S * NS:
            return False
        held = owners(self.changes(), now)
        return len(held) == members and sorted(n for one in held.values() for n in one) == [
            *range(partitions)
        ]


def start(mode: str, bootstraps: list[str], straight: str, members: int) -> Start:
    """Start a group of so many members, by turns through each of ``bootstraps``, and close it when it has settled."""
    topic, partitions = f"start-{uuid.uuid4().hex[:8]}", members * PARTITIONS_EACH
    admin = AdminClient({"bootstrap.servers": straight})
    admin.create_topics([NewTopic(topic, num_partitions=partitions)])[topic].result(timeout=60)
    group = f"translated-{uuid.uuid4().hex[:8]}"
    callbacks = Callbacks()
    hosts = [Host(number, callbacks.add) for number in range(min(HOSTS, members))]
    try:
        began = time.monotonic_ns()
        for number in range(members):
            settings = {"bootstrap.servers": bootstraps[number % len(bootstraps)], "group.id": group}
            # By turns through each replica from each process.
            host = hosts[number // len(bootstraps) % len(hosts)]
            host.tell(command="start", name=f"c{number}", topic=topic, settings=settings)
        if not callbacks.wait_for(lambda: callbacks.is_settled(members, partitions), TIMEOUT_S):
            held = {
                name: sorted(one) for name, one in owners(callbacks.changes(), time.monotonic_ns()).items()
            }
            raise RuntimeError(f"{mode}, {members} members: not settled after {TIMEOUT_S:g} s: {held}")
        measured = _measured(mode, members, callbacks, began)
        for number in range(members):
            host = hosts[number // len(bootstraps) % len(hosts)]
            host.tell(command="close", name=f"c{number}")
        callbacks.wait_for(lambda: callbacks.closed == members, 30.0)
        return measured
    finally:
        for host in hosts:
            host.end()


def _measured(mode: str, members: int, callbacks: Callbacks, began: int) -> Start:
    assigned = [one for one in callbacks.events if one["event"] == "assigned"]
    return Start(
        mode=mode,
        members=members,
        assigned=len(assigned),
        revoked=sum(one["event"] == "revoking" for one in callbacks.events),
        with_nothing=sum(not one["partitions"] for one in assigned),
        first_s=(min(one["mono"] for one in assigned if one["partitions"]) - began) / NS,
        settled_s=(callbacks.events[-1]["mono"] - began) / NS,
    )


@contextlib.contextmanager
def ways(straight: str, modes: list[str]) -> Iterator[dict[str, list[str]]]:
    """Start the proxies of these modes; yield the bootstrap addresses of each."""
    several = "sole_process: false\n"
    proxies = {
        SOLE: (1, "", DELAY_MS),
        REPLICAS: (2, several, DELAY_MS),
        FLEET: (2, of_fleet(straight), DELAY_MS),
        WITHOUT: (1, "", 0),
        REPLICAS_WITHOUT: (2, several, 0),
    }
    with contextlib.ExitStack() as stack:
        found = {STRAIGHT: [straight]}
        for mode, (count, more, delay_ms) in proxies.items():
            if mode not in modes:
                continue
            found[mode] = []
            for number in range(count):
                folder = BUILD / "bench" / f"start-{mode.replace(' ', '-')}-{number}"
                proxy = Gateway(straight, folder, more=more, initial_rebalance_delay_ms=delay_ms)
                proxy.start()
                stack.callback(proxy.stop)
                found[mode].append(proxy.bootstrap)
        yield found


def main() -> None:
    """Run the starts, by turns, and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.start_together", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--record", action="store_true", help="into docs/evidence/start-together.json")
    options = parser.parse_args()
    modes = options.modes.split(",")
    sizes = [int(one) for one in options.sizes.split(",")]
    starts: list[Start] = []
    with kafka(**GROUP_DEFAULTS) as cluster, ways(cluster.bootstrap, modes) as found:
        for members in sizes:
            for _ in range(options.rounds):
                for mode in modes:
                    starts.append(start(mode, found[mode], cluster.bootstrap, members))
                    print(starts[-1], file=sys.stderr, flush=True)
    run = {
        "kafka": kafka_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "delay_ms": DELAY_MS,
        "command": f"python -m benchmarks.start_together {shlex.join(sys.argv[1:])}",
        **recorded.of_code(BUILD.parent),
        "load": round(os.getloadavg()[0], 1),
        "starts": [asdict(one) for one in starts],
    }
    REPORT.write_text(json.dumps(run, indent=2) + "\n")
    if options.record:
        start_together_table.RUNS.keep(run)
    print(start_together_table.table(run))


if __name__ == "__main__":
    main()
