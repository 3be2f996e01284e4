"""`make bench`: measures the costs of Epochgate beside the same work without it; writes a table and build/bench.json.

python -m benchmarks [--only throughput,tls,share,latency,fleet,members,growth] [--runs N]
"""

import argparse
import contextlib
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import growth, latency, members, share_throughput, throughput
from benchmarks.lib import trio_relay
from benchmarks.lib.test_bed import BUILD, REPLICAS, gateway, kafka, kafka_version, of_fleet
from tools.kafka.cluster import ExtraListener
from tools.kafka.ports import LOOPBACK, free_ports
from tools.kafka.tls_files import TlsFiles

REPORT = BUILD / "bench.json"
_LATENCIES = {
    "request": "100-byte request",
    "heartbeat": "translated Heartbeat",
    "heartbeat_of_several": "the same, one of several processes",
    "passing_heartbeat": "Heartbeat that passes through",
    "first_join": "first JoinGroup of a connection",
    "next_join": "next JoinGroup of it",
}
_HOW = {latency.PROXIED: "", latency.BY_TRIO: "; a bare relay on trio "}
LESS_ON_TLS = 2
"""By so much fewer records on TLS: the client and the broker are slower there as well."""


def latencies(rounds: int) -> Any:
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(kafka())
        sole = stack.enter_context(gateway(cluster.bootstrap, "latency"))
        several = stack.enter_context(
            gateway(cluster.bootstrap, "latency-several", more="sole_process: false\n")
        )
        (port,) = free_ports(1)
        stack.enter_context(trio_relay.relay(port, cluster.bootstrap))
        relays = {latency.BY_TRIO: f"{LOOPBACK}:{port}"}
        return latency.measure(cluster.bootstrap, sole, several, relays, rounds=rounds)


def fleet_heartbeats(rounds: int) -> Any:
    """Measure a Heartbeat in a fleet of three replicas beside one through the only process."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(kafka())
        sole = stack.enter_context(gateway(cluster.bootstrap, "latency"))
        replicas = [
            stack.enter_context(
                gateway(cluster.bootstrap, f"latency-fleet-{n}", more=of_fleet(cluster.bootstrap))
            )
            for n in range(REPLICAS)
        ]
        return latency.measure_fleet(sole, replicas, rounds=rounds)


def throughputs(runs: int, records: int) -> Any:
    """Measure throughput directly and through Epochgate."""
    with kafka() as cluster, gateway(cluster.bootstrap, "throughput") as proxy:
        ways = {
            "direct": throughput.Way(cluster.bootstrap),
            "proxied": throughput.Way(proxy.bootstrap, proxy.process.pid),
        }
        return throughput.measure(ways, runs=runs, records=records)


def throughputs_on_tls(runs: int, records: int) -> Any:
    """Measure throughput with TLS from client to proxy and from proxy to broker, and directly to the broker."""
    tls = TlsFiles(BUILD / "bench" / "tls-files")
    with kafka(ExtraListener("TLS", "SSL", tls.broker_settings())) as cluster:
        bootstrap = cluster.bootstrap_of("TLS")
        with gateway(bootstrap, "tls", tls=tls) as proxy:
            ways = {
                "direct": throughput.Way(bootstrap),
                "proxied": throughput.Way(proxy.bootstrap, proxy.process.pid),
            }
            return throughput.measure(
                ways, runs=runs, records=records, security=throughput.on_tls(str(tls.ca))
            )


def share_throughputs() -> Any:
    """Measure how fast a share consumer reads, directly and through Epochgate."""
    with kafka() as cluster, gateway(cluster.bootstrap, "share-throughput") as proxy:
        return share_throughput.measure(cluster.bootstrap, proxy.bootstrap, proxy.process.pid)


def environment() -> dict[str, Any]:
    return {
        "kafka": kafka_version(),
        "librdkafka client": version("confluent-kafka"),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg(),
    }


def rows(report: dict[str, Any]) -> list[tuple[str, str, str, str, str, str]]:
    """Return rows of: the measure, without us, with us, the cost, the target, whether it is met."""
    table = []
    both = [("", one) for one in report.get("throughput", {}).items()]
    both += [(" on TLS", one) for one in report.get("tls", {}).items()]
    if (share := report.get("share")) is not None:
        both.append(("", ("share consumer", share)))
    for on, (what, one) in both:
        table.append(
            (f"{what}{on}, 1 KiB records, MB/s", str(one["direct_mb_s"]), str(one["proxied_mb_s"]),
             f"ratio {_ratio(one)}", f">= {one['target']}", _said(one["met"]))
        )  # fmt: skip
    for what, name in _LATENCIES.items():
        if (one := report.get("latency", {}).get(what)) is not None:
            for q in ("p50", "p99"):
                has_target = q == "p50" and one["target_us"] is not None
                target = (f"< +{one['target_us']:g}", _said(one["met"])) if has_target else ("", "")
                ways = (str(one["direct"][q]), str(one["proxied"][q]))
                cost = "".join(f"{_HOW[way]}{added[q]:+}" for way, added in one["added"].items())
                table.append((f"{name}, {q}, us", *ways, cost, *target))
    if (one := report.get("fleet")) is not None:
        ways = (str(one[latency.ONLY_PROCESS]["p50"]), str(one[latency.PROXIED]["p50"]))
        table.append(
            ("translated Heartbeat, p50, us: without = the only process, with = a fleet", *ways,
             f"ratio {one['ratio']}", f"<= {one['target']}", _said(one["met"]))
        )  # fmt: skip
    for one in report.get("members", []):
        memory = one["bytes_per_member"] / 1024
        share = one["shares"]["proxy"]
        cost = (
            f"p99 {one['p99_ms']} ms, {memory:.1f} KiB a member, CPU {share['cpu']}, "
            f"waited for a core {share['waiting_for_a_core']}"
        )
        table.append(
            (f"{one['members']} members", "", "", cost, "p99 < 100 ms, <= 60 KiB", _said(one["met"]))
        )
    for what, exponent in report.get("growth", {}).get("exponents", {}).items():
        table.append(
            (f"growth: {what}", "", "", f"exponent {exponent}", "<= linear", _said(exponent <= growth.LINEAR))
        )
    return table


def _ratio(one: dict[str, Any]) -> str:
    """Return the median and the quartiles."""
    low, high = one["proxied_quartiles"]
    return f"{one['proxied_ratio']} ({low} to {high})"


def _said(met: bool) -> str:
    return "met" if met else "MISSED"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="throughput,tls,share,latency,fleet,members,growth")
    parser.add_argument("--runs", type=int, default=throughput.RUNS)
    parser.add_argument("--records", type=int, default=throughput.RECORDS)
    parser.add_argument("--rounds", type=int, default=latency.ROUNDS)
    options = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {
        "throughput": lambda: throughputs(options.runs, options.records),
        "tls": lambda: throughputs_on_tls(options.runs, options.records // LESS_ON_TLS),
        "share": share_throughputs,
        "latency": lambda: latencies(options.rounds),
        "fleet": lambda: fleet_heartbeats(options.rounds),
        "members": members.measure,
        "growth": growth.measure,
    }
    report: dict[str, Any] = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    for part in options.only.split(","):
        print(f"== {part}", flush=True)
        report[part] = parts[part]()
        report.setdefault("environment", {})[part] = environment()
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(json.dumps(report, indent=2) + "\n")
    table = Table("what", "without", "with", "cost", "target", "", title="What Epochgate costs")
    for row in rows(report):
        table.add_row(*row)
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
