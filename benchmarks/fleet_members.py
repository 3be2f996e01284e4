"""Measures 10,000 translated members of one process beside 10,000 of three replicas that are one fleet.

`make bench-fleet-members` runs it in some minutes, prints the tables of docs/evidence/fleet.md, and writes every figure
to build/bench-fleet-members.json. Each way has a real Kafka of its own, with Kafka's defaults for groups, and members
in groups of 20 that send a Heartbeat every 3 s (:mod:`benchmarks.lib.crowd`). Behind the fleet the members of a group
are spread over all replicas. Then one replica is taken out of the balance, ended with SIGTERM, and started again: its
members go on at the others, and it reads the log.

All of this, both brokers' load generators and whatever else the machine does share its processors. So the members' loop
also sends a native member's heartbeat straight to the broker every 20 ms: it says what the machine takes at that time,
and `busy with other things` how much of its processors went to processes that are none of ours.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.fleet_members_report import (
    Process,
    Records,
    Report,
    Restart,
    Way,
    Window,
    compared,
    restarted,
)
from benchmarks.lib.crowd import INTERVAL_S, Crowd, Probe
from benchmarks.lib.test_bed import (
    BUILD,
    REPLICAS,
    Gateway,
    family,
    gateway,
    kafka,
    kafka_version,
    of_fleet,
    own_cpu_s,
    resident_bytes,
)
from benchmarks.lib.wire import Line, NativeMember
from proxy.runtime.fd_limits import raise_file_limit
from tools.kafka.settings import GROUP_DEFAULTS

REPORT = BUILD / "bench-fleet-members.json"
ONE_PROCESS, FLEET = WAYS = ("one process", "three replicas")
TOPIC = "members"

Counted = tuple[Counter[str], int]

MEMBERS = 10_000
GROUP_SIZE = 20
WINDOW_S = 30.0
PROBE_EVERY_S = 0.02
RESTART_TIMEOUT_S = 120.0
_ERROR_OF_PROBE = 13
"""Where a ConsumerGroupHeartbeat response has its error code: behind size, correlation id, tags and throttle time."""


class Scene:
    """Members at one process or several."""

    def __init__(self, cluster_pid: int, bootstrap: str, gateways: Sequence[Gateway], crowd: Crowd) -> None:
        self.gateways = gateways
        self.crowd = crowd
        self._pids = {"Kafka": cluster_pid, "members": os.getpid()}
        self._bootstrap = bootstrap
        self.empty = [_memory(one) for one in gateways]

    def measure(self, window_s: float) -> Way:
        began, before = time.perf_counter(), self.records()
        self.crowd.join_all(say)
        joined_s = time.perf_counter() - began
        forming, after = self.crowd.rejoins, self.records()
        joining = _difference(before, after, joined_s)
        say(f"all have joined after {joined_s:.0f} s; measuring for {window_s:g} s")
        probe = self._probe()
        self.crowd.run(INTERVAL_S)  # what waited while metrics were read
        before, began = self.records(), time.perf_counter()
        self.crowd.run(INTERVAL_S)
        window = self._window(window_s, probe)
        settled = _difference(before, self.records(), time.perf_counter() - began)
        return Way(joined_s, forming, window, self._processes(), joining, settled)

    def cpu_s(self) -> float:
        """Processor time of all processes of the proxy that run."""
        return sum(one.cpu_s() for one in self.gateways if one.process.poll() is None)

    def records(self) -> Counted:
        """What all replicas have counted."""
        return counted(self.gateways)

    def _window(self, seconds: float, probe: Probe) -> Window:
        crowd = self.crowd
        rejoins = crowd.rejoins
        crowd.latencies.clear()
        probe.latencies.clear()
        used = {name: own_cpu_s(pid) for name, pid in self._pids.items()} | {"proxy": self.cpu_s()}
        busy, began = _busy_s(), time.perf_counter()
        crowd.run(seconds)
        took = time.perf_counter() - began
        cores = {name: (own_cpu_s(pid) - used[name]) / took for name, pid in self._pids.items()}
        cores["proxy"] = (self.cpu_s() - used["proxy"]) / took
        cuts = statistics.quantiles(crowd.latencies, n=100)
        direct = statistics.quantiles(probe.latencies, n=100)
        return Window(
            heartbeats_per_s=len(crowd.latencies) / took,
            p50_ms=cuts[49] * 1000,
            p99_ms=cuts[98] * 1000,
            direct_p50_ms=direct[49] * 1000,
            direct_p99_ms=direct[98] * 1000,
            rejoins=crowd.rejoins - rejoins,
            cpu_us_a_heartbeat=cores["proxy"] * took / len(crowd.latencies) * 1e6,
            cores=cores,
            other_cores=max(0.0, (_busy_s() - busy) / took - sum(cores.values())),
            load_average=os.getloadavg()[0],
        )

    def _processes(self) -> list[Process]:
        return [
            Process(self.crowd.at(one.address), empty / 2**20, _memory(one) / 2**20)
            for one, empty in zip(self.gateways, self.empty, strict=True)
        ]

    def _probe(self) -> Probe:
        member = NativeMember(Line(self._bootstrap), "direct", TOPIC)
        member.settle()
        member.line.close()
        host, _, port = self._bootstrap.rpartition(":")
        probe = Probe(self.crowd, (host, int(port)), member.heartbeat_frame(), _ERROR_OF_PROBE, PROBE_EVERY_S)
        probe.due()
        return probe


@contextlib.contextmanager
def scene(way: str, members: int, group_size: int) -> Iterator[Scene]:
    """Start a broker and one process in front, or three."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            kafka(**{key.replace(".", "_"): value for key, value in GROUP_DEFAULTS.items()})
        )
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, group_size, 1)])[TOPIC].result(30)
        more = of_fleet(cluster.bootstrap) if way == FLEET else ""
        gateways = [
            stack.enter_context(gateway(cluster.bootstrap, f"{way.replace(' ', '-')}-{n}", more=more))
            for n in range(REPLICAS if way == FLEET else 1)
        ]
        crowd = Crowd([one.address for one in gateways], TOPIC, members, group_size)
        stack.callback(crowd.close)
        pid = cluster.brokers[0].pid()
        if pid is None:
            raise RuntimeError("the broker has ended")
        yield Scene(pid, cluster.bootstrap, gateways, crowd)


def restart(found: Scene, steady: Window) -> Restart:
    """End the first replica with SIGTERM once it is out of the balance, and start it again."""
    crowd, (victim, *others) = found.crowd, found.gateways
    crowd.leave(victim.address)
    moved = crowd.at(victim.address)
    rejoins, errors = crowd.rejoins, crowd.errors.copy()
    crowd.latencies.clear()
    before, used = counted(others), sum(one.cpu_s() for one in others)
    say(f"SIGTERM to a replica with {moved} members, which is out of the balance")
    began = time.perf_counter()
    victim.process.terminate()
    drained_s = heard_s = 0.0
    while not heard_s or not drained_s:
        crowd.run(0.05)
        passed = time.perf_counter() - began
        if not drained_s and victim.process.poll() is not None:
            drained_s = passed
        if not heard_s and not crowd.away and not crowd.at(victim.address):
            heard_s = passed
        if passed > RESTART_TIMEOUT_S:
            raise TimeoutError(f"{len(crowd.away)} members were not heard; drained: {drained_s}")
    took = time.perf_counter() - began
    beyond = (
        sum(one.cpu_s() for one in others) - used - steady.cpu_us_a_heartbeat / 1e6 * len(crowd.latencies)
    )
    p99_ms = statistics.quantiles(crowd.latencies, n=100)[98] * 1000
    after = counted(others)
    say(f"all were heard {heard_s:.1f} s after it, {crowd.rejoins - rejoins} rejoined; starting it again")
    began = time.perf_counter()
    victim.launch()
    while not victim.is_ready():
        crowd.run(0.05)
    ready_s = time.perf_counter() - began
    metrics = victim.get("metrics")
    return Restart(
        moved=moved,
        rejoins=crowd.rejoins - rejoins,
        tries_again=dict(crowd.errors - errors),
        drained_s=drained_s,
        heard_s=heard_s,
        p99_ms=p99_ms,
        cpu_ms_a_takeover=beyond / moved * 1000,
        records=_difference(before, after, took),
        replay_s=_sample(metrics, "epochgate_fleet_replay_seconds"),
        replayed=counted([victim])[1],
        ready_s=ready_s,
        view_mib=(_memory(victim) - found.empty[0]) / 2**20,
    )


def _memory(gateway: Gateway) -> int:
    """Of a proxy with the processes of its Kafka client, in bytes."""
    return sum(map(resident_bytes, family(gateway.process.pid)))


def counted(replicas: Sequence[Gateway]) -> Counted:
    """Return the records of members that replicas have written, by kind, and that the last of them has read."""
    written: Counter[str] = Counter()
    read = 0
    for replica in replicas:
        read = 0
        for found in text_string_to_metric_families(replica.get("metrics")):
            for sample in found.samples:
                if sample.name == "epochgate_fleet_records_total" and sample.labels["kind"] != "probe":
                    if sample.labels["direction"] == "read":
                        read += int(sample.value)
                    else:
                        written[sample.labels["kind"]] += int(sample.value)
    return written, read


def _sample(metrics: str, name: str) -> float:
    return next(
        sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == name
    )


def _difference(before: tuple[Counter[str], int], after: tuple[Counter[str], int], seconds: float) -> Records:
    written = after[0].copy()
    written.subtract(before[0])
    return Records(seconds, {kind: n for kind, n in written.items() if n}, after[1] - before[1])


def _busy_s() -> float:
    """Return the seconds that all processors together were busy since the machine started."""
    ticks = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # without idle and iowait


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet_members",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--group-size", type=int, default=GROUP_SIZE)
    parser.add_argument("--window-s", type=float, default=WINDOW_S, help="for how long each way is measured")
    parser.add_argument("--only", choices=WAYS, action="append", help="only this way")
    options = parser.parse_args()
    raise_file_limit()
    report = Report(options.members, options.group_size)
    for way in options.only or WAYS:
        say(f"== {way}")
        with scene(way, options.members, options.group_size) as found:
            report.ways[way] = measured = found.measure(options.window_s)
            if way == FLEET:
                report.restart = restart(found, measured.window)
    print(
        f"{options.members} members in groups of {options.group_size}, a heartbeat every {INTERVAL_S:g} s; Kafka "
        f"{kafka_version()} with its own settings for groups; {os.cpu_count()} processors"
    )
    print(compared(report.ways))
    if report.restart is not None:
        print(f"\n{restarted(report.restart)}")
    about = {"kafka": kafka_version(), "machine": platform.platform(), "processors": os.cpu_count()}
    REPORT.write_text(json.dumps({**about, **asdict(report)}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
