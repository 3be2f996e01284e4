"""Measures what clients in pods go through while the proxies of a real Kubernetes are replaced.

`make bench-kubernetes` runs it, prints the tables of docs/evidence/kubernetes.md, and writes every figure to
build/bench-kubernetes.json. It wants a cluster with three brokers in pods (`make cluster-up image cluster-kafka`), and
installs the chart with three replicas, a member log, TLS and SCRAM. One group is eager (`range`), one is cooperative
(`cooperative-sticky`), each with a producer; all settings of groups are those of Kafka and of the library. Each of
these happens so many times; the next one begins when both groups have settled and were quiet for some seconds:

upgrade     `helm upgrade` to an image of another name
restart     `kubectl rollout restart`
delete      every pod of the proxy, one after another, with `kubectl delete pod --force --grace-period 0`
drain       `kubectl drain` of a node with proxies, and `uncordon`; only with several nodes
scale       three replicas to one and back
memory      the process of a pod is killed by the kernel, because its container is at its memory limit
"""

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from support import ROOT
from support.consumers import REBALANCE
from support.ownership import Partition, overlaps
from support.waiting import eventually

from benchmarks.kubernetes_pods import Kubectl, PodClient, drivers, names, own_settings, pod
from benchmarks.lib.rolling_restart_costs import Cost, Phase, costs, table
from tools.chart.binaries import binary as chart_binary
from tools.kubernetes.binaries import binary
from tools.kubernetes.kafka.install import NAMESPACE, PROXY_VALUES, tls_secret
from tools.kubernetes.paths import KUBECONFIG

REPORT = ROOT / "build" / "bench-kubernetes.json"
PROTOCOLS = {"eager": "range", "cooperative": "cooperative-sticky"}
OPERATIONS = ("upgrade", "restart", "delete", "drain", "scale", "memory")
PARTITIONS = 20
RELEASE = "epochgate"
BOOTSTRAP = f"epochgate-kafka.{NAMESPACE}.svc.cluster.local:9092"
PROXIES = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=proxy"
QUIET_S = 10.0
"""No callback for so long: some heartbeats of every client."""
SETTLE_S = 240.0
FILLS_MEMORY = """
import os, time
open("/proc/1/oom_score_adj", "w").write("1000")  # the kernel takes the proxy, not one of these
for _ in range(256):
    if not os.fork():
        held = b"x" * (16 << 20)
        time.sleep(60)
        os._exit(0)
os.wait()
"""
"""Run beside a proxy, it takes 4 GiB in pieces that are smaller than the proxy."""


@dataclasses.dataclass(frozen=True)
class Totals:
    """The records of one group over the whole run."""

    protocol: str
    written: int
    lost: int
    """Records between the first and the last of a partition that nobody read, and what is missing at the end."""
    read_twice: int
    two_owners: int


@dataclasses.dataclass
class Group:
    """One group's members, its producer, and its topic, which has the same name."""

    protocol: str
    members: list[PodClient]
    producer: PodClient

    @property
    def topic(self) -> str:
        """Of the group, and its own name."""
        return f"epochgate-test-{self.protocol}"

    def is_shared(self) -> bool:
        """Whether every partition has one owner."""
        owned = [partition for member in self.members for partition in member.owned()]
        return sorted(owned) == [Partition(self.topic, number) for number in range(PARTITIONS)]

    def read(self) -> list[tuple[Partition, int]]:
        """Every record that was read, as often as it was."""
        return [record for member in self.members for record in member.read]

    def last_change(self) -> int:
        """When a callback was called last, in nanoseconds of CLOCK_MONOTONIC."""
        return max(
            (event.mono for member in self.members for event in member.events if event.kind in REBALANCE),
            default=0,
        )

    def totals(self) -> Totals:
        """What became of all records; the producer has closed."""
        read = self.read()
        offsets: dict[Partition, set[int]] = defaultdict(set)
        for partition, offset in read:
            offsets[partition].add(offset)
        skipped = sum(max(one) - min(one) + 1 - len(one) for one in offsets.values())
        written = self.producer.acknowledged()
        return Totals(
            self.protocol,
            written=written,
            lost=skipped + max(0, written - len(set(read))),  # an earlier run may have left some to read
            read_twice=len(read) - len(set(read)),
            two_owners=len(overlaps([member.events for member in self.members])),
        )


class Bench:
    """Both groups, the release, and the phases that they went through."""

    def __init__(self, members: int, rounds: int) -> None:
        environment = {**os.environ, "KUBECONFIG": str(KUBECONFIG)}
        self.kubectl = Kubectl(binary("kubectl"), environment, NAMESPACE)
        self.phases: list[Phase] = []
        self._environment = environment
        self._members = members
        self._rounds = rounds
        self._image = "0.1.0"
        self._groups: list[Group] = []
        nodes = self.kubectl("get", "nodes", "--output", "jsonpath={.items[*].metadata.name}").split()
        self.nodes = sorted(nodes)

    def helm(self, *arguments: str) -> None:
        """Run helm in the namespace. Raises RuntimeError with its own words if it fails."""
        command = [str(chart_binary("helm")), "--namespace", NAMESPACE, *arguments]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode:
            raise RuntimeError(f"helm {arguments[0]}: {done.stderr.strip()}")

    def install(self) -> None:
        """Install or upgrade the release, and wait until all pods are ready."""
        self.helm(
            "upgrade", "--install", RELEASE, str(ROOT / "charts" / "epochgate"), "--wait", "--timeout", "5m",
            "--values", str(PROXY_VALUES), "--set", f"image.tag={self._image}",
            "--set-json", 'policy={"default": "translate"}',
        )  # fmt: skip

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Both groups work meanwhile; their pods are gone at the end."""
        self.kubectl(
            "delete", "pod", "--selector", "app=bench-client", "--grace-period", "1", "--ignore-not-found"
        )
        self.kubectl.apply(drivers())
        specs = {}
        for protocol, assignor in PROTOCOLS.items():
            topic = f"epochgate-test-{protocol}"
            for name in names(protocol, self._members):
                spec = {
                    "bootstrap": BOOTSTRAP, "group": topic, "topics": [topic], "assignors": [assignor],
                    "client_id": name, "session_timeout_ms": 45_000, "heartbeat_interval_ms": 3_000,
                    "max_poll_interval_ms": 300_000, "auto_commit_interval_ms": 5_000,
                    "own_settings": own_settings(),
                }  # fmt: skip
                specs[name] = pod(name, "confluent_driver.py", spec, self.nodes[0])
            producer = {
                "bootstrap": BOOTSTRAP, "topic": topic, "partitions": PARTITIONS, "own_settings": own_settings(),
            }  # fmt: skip
            name = f"bench-producer-{protocol}"
            specs[name] = pod(name, "producer_driver.py", producer, self.nodes[0])
        self.kubectl.apply(*specs.values())
        self.kubectl(
            "wait", "--for", "condition=Ready", "pod", "--selector", "app=bench-client", "--timeout", "300s"
        )
        clients = {name: PodClient(self.kubectl, name) for name in specs}
        self._groups = [
            Group(
                protocol,
                [clients[name] for name in names(protocol, self._members)],
                clients[f"bench-producer-{protocol}"],
            )
            for protocol in PROTOCOLS
        ]
        try:
            self._settle()
            yield
        finally:
            for client in clients.values():
                client.stop_following()
            self.kubectl("delete", "pod", "--selector", "app=bench-client", "--grace-period", "1")

    def run(self, operations: Sequence[str]) -> None:
        """Do all of them, each so many times."""
        does: dict[str, Callable[[], None]] = {
            "upgrade": self.upgrade, "restart": self.restart, "delete": self.delete, "drain": self.drain,
            "scale": self.scale, "memory": self.memory,
        }  # fmt: skip
        for name in operations:
            began = time.monotonic_ns()
            for number in range(self._rounds):
                print(f"{time.strftime('%H:%M:%S')} {name}, {number + 1} of {self._rounds}", flush=True)
                does[name]()
                self._settle()
            phase = Phase(f"{name}, {self._rounds} times", began, time.monotonic_ns(), joined=None)
            self.phases.append(phase)
            print(table(self._costs([phase])), flush=True)

    def finish(self) -> list[Totals]:
        """Stop the producers, wait until all is read, and count."""
        for group in self._groups:
            group.producer.close()
        eventually(
            lambda: all(group.producer.ended for group in self._groups), what="the producers have closed"
        )
        self._settle()
        return [group.totals() for group in self._groups]

    def costs(self) -> list[Cost]:
        """What the groups went through in every phase."""
        return self._costs(self.phases)

    def upgrade(self) -> None:
        """Go to the other name of the image."""
        self._image = {"0.1.0": "0.1.0-next", "0.1.0-next": "0.1.0"}[self._image]
        self.install()

    def restart(self) -> None:
        """Roll all pods."""
        self.kubectl("rollout", "restart", f"deployment/{RELEASE}")
        self._rolled_out()

    def delete(self) -> None:
        """Delete each pod that is there now, as its node's end would."""
        there = "{{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}"
        pods = self.kubectl("get", "pods", "--selector", PROXIES, "--output", f"go-template={there}")
        for name in pods.split():
            self.kubectl("delete", "pod", name, "--force", "--grace-period", "0")
            self._rolled_out()

    def drain(self) -> None:
        """Drain each node that has no brokers and no clients, and take it back."""
        brokers = self.kubectl(
            "get", "pods", "--selector", "app=kafka", "--output", "jsonpath={.items[*].spec.nodeName}"
        )
        free = [node for node in self.nodes[1:] if node not in brokers.split()]
        if not free:
            raise RuntimeError("every node has a broker or clients, whose loss is not what is measured")
        for node in free:
            self.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", "300s")
            self._rolled_out()
            self.kubectl("uncordon", node)

    def scale(self) -> None:
        """Go down to one replica, and back to three."""
        for replicas in ("1", "3"):
            self.kubectl("scale", f"deployment/{RELEASE}", "--replicas", replicas)
            self._rolled_out()

    def memory(self) -> None:
        """Fill the memory of the pod that was restarted least, until the kernel kills the proxy in it."""
        restarts = {name: state["restartCount"] for name, state in self._states().items()}
        name = min(restarts, key=lambda one: restarts[one])
        with contextlib.suppress(RuntimeError):  # it ends with the container
            self.kubectl("exec", name, "--", "python", "-c", FILLS_MEMORY)
        eventually(
            lambda: self._states()[name],
            lambda state: state["restartCount"] > restarts[name] and state["ready"],
            what=f"{name} is killed and ready again",
            timeout_s=SETTLE_S,
            between_s=1.0,
        )
        reason = self._states()[name]["lastState"]["terminated"]["reason"]
        if reason != "OOMKilled":
            raise AssertionError(f"{name} ended for another reason: {reason}")

    def _states(self) -> dict[str, dict[str, Any]]:
        """Of every proxy's container, by pod."""
        pods = json.loads(self.kubectl("get", "pods", "--selector", PROXIES, "--output", "json"))["items"]
        return {one["metadata"]["name"]: one["status"]["containerStatuses"][0] for one in pods}

    def _rolled_out(self) -> None:
        self.kubectl("rollout", "status", f"deployment/{RELEASE}", "--timeout", "300s", timeout_s=320)

    def _costs(self, phases: Sequence[Phase]) -> list[Cost]:
        return [
            cost
            for group in self._groups
            for cost in costs(phases, group.protocol, {"confluent-kafka": group.members})
        ]

    def _settle(self) -> None:
        """Wait until every partition has one owner, nobody was called back for a while, and all is read."""
        began = time.monotonic_ns()
        counts = [group.producer.acknowledged() for group in self._groups]

        def settled() -> bool:
            quiet_since = time.monotonic_ns() - QUIET_S * 1e9
            if ended := [one.name for group in self._groups for one in group.members if one.ended]:
                raise AssertionError(f"ended by themselves: {', '.join(ended)}")
            return all(
                max(began, group.last_change()) < quiet_since
                and group.is_shared()
                and sum(len(member.read) for member in group.members) >= count
                for group, count in zip(self._groups, counts, strict=True)
            )

        eventually(settled, what="the groups have settled", timeout_s=SETTLE_S, between_s=1.0)


def described(found: Sequence[Cost], totals: Sequence[Totals]) -> str:
    """All tables."""
    lines = [table(found), ""]
    lines += [
        f"{one.protocol}: {one.written} records, {one.lost} lost, {one.read_twice} read twice; "
        f"{one.two_owners} times two owners"
        for one in totals
    ]
    return "\n".join(lines)


def main() -> int:
    """Install, measure, print, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kubernetes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="each operation so many times")
    parser.add_argument("--members", type=int, default=10, help="of each group")
    parser.add_argument("--operations", default=",".join(OPERATIONS), help="some of these, in this order")
    options = parser.parse_args()
    operations = options.operations.split(",")
    if not set(operations) <= set(OPERATIONS):
        parser.error(f"--operations: some of {','.join(OPERATIONS)}")
    bench = Bench(options.members, options.rounds)
    if len(bench.nodes) == 1 and "drain" in operations:
        print("one node only: nothing is drained (make cluster-up NODES=3)", flush=True)
        operations.remove("drain")
    bench.kubectl.apply(tls_secret())
    bench.install()
    with bench.working():
        bench.run(operations)
        totals = bench.finish()
        found = bench.costs()
    print(described(found, totals))
    about = {
        "rounds": options.rounds,
        "nodes": len(bench.nodes),
        "costs": [dataclasses.asdict(cost) for cost in found],
        "totals": [dataclasses.asdict(one) for one in totals],
    }
    Path(REPORT).write_text(json.dumps(about, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
