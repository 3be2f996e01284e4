"""Measures how long `epochgate preflight` takes at a broker with many groups: `make bench-preflight`.

Each group has classic members that have joined once and then say nothing; their session timeout outlasts the
measurement. Half of the groups come through a proxy, which is asked too. The command is a process of its own, so its
start is in the figures.
"""

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

from support import find_broker
from support.broker import Kafka
from support.entry import running_proxy
from support.preflight import Groups, preflight

from tools.kafka.cluster import RUN
from tools.kafka.settings import GROUP_DEFAULTS

PARTITIONS = 6
SESSION_MS = 1_800_000
POLICY = "default: observe\n"


def measure(kafka: Kafka, folder: Path, groups: int, members: int, runs: int) -> list[float]:
    """Return the seconds that each run took, at this many groups."""
    topic = kafka.new_topic(partitions=PARTITIONS)
    (folder / "planned.yaml").write_text("default: translate\n")
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(
            running_proxy(kafka.bootstrap, folder / "proxy", policy=POLICY, limits={})
        )
        for number in range(groups):
            with contextlib.ExitStack() as connections:
                entry = proxy.bootstrap if number % 2 else kafka.bootstrap
                Groups(kafka, connections).add(
                    f"group-{number:05}",
                    topic,
                    members=members,
                    bootstrap=entry,
                    session_timeout_ms=SESSION_MS,
                )
        taken = []
        config = proxy.folder / "epochgate.yaml"
        options = ("--config", config, "--policy", folder / "planned.yaml", "--proxy", proxy.admin)
        for _ in range(runs):
            began = time.monotonic()
            _, report = preflight(*options, "--kafka-version", "4.4.0")
            taken.append(time.monotonic() - began)
            if report["to_move"] != groups or any(one["unknown"] for one in report["findings"]):
                raise AssertionError(f"it did not judge all {groups} groups: {report['findings']}")
        return taken


def main() -> None:
    """Start a broker, measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=1, help="of each group")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    folder = RUN / f"preflight-{os.getpid()}-files"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**GROUP_DEFAULTS, "group.initial.rebalance.delay.ms": "0"}
    with find_broker.own_cluster(f"preflight-{os.getpid()}", overrides=settings) as cluster:
        kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
        taken = measure(kafka, folder, options.groups, options.members, options.runs)
    load = os.getloadavg()[0]
    sys.stdout.write(
        "| groups | members | seconds, median | longest | load |\n| ---: | ---: | ---: | ---: | ---: |\n"
        f"| {options.groups:,} | {options.groups * options.members:,} | {sorted(taken)[len(taken) // 2]:.1f} | "
        f"{max(taken):.1f} | {load:.1f} |\n"
    )


if __name__ == "__main__":
    main()
