"""A migration to look at: a real Kafka, two proxies that are one fleet, an exporter, and a Prometheus of all of them.

Eight groups of librdkafka's consumers; six of them move in three waves, one of which waits for an approval. Consumers
join one group before its move and after it, one at a time.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tools.kafka.cluster import RUN, Cluster
from tools.kafka.ports import LOOPBACK, free_ports

RULES = Path(__file__).parents[2] / "charts" / "epochgate" / "files" / "rules.yaml"
APART_S = 33.0
"""Changes that are less than half a minute apart are one rebalance (pipeline/rules/gains.py)."""
JOINS = 3
MEMBERS = {
    "payments": 3, "orders": 2, "invoices": 2, "shipping": 2, "audit": 2, "search": 2, "analytics": 3, "web": 2,
}  # fmt: skip
PARTITIONS = 12
"""More than members at the end: a member without a partition would count as paused all the time."""
WATCHED = "payments"
SCRAPE_S = 2

_CONFIG = """\
upstream: {{bootstrap: ["{kafka}"]}}
listeners:
  - {{bind: {host}, port: {port}, advertised_host: {host}, nodes: {{"1-3": 0}}}}
admin: {{bind: {host}, port: {admin}}}
policy: {{file: policy.yaml}}
metrics: {{ask_brokers_every_s: 2}}
sole_process: false
fleet: {{kafka: {{"bootstrap.servers": "{kafka}"}}, partitions: 4, replication: 1}}
journal: {{topic: epochgate-journal}}
verify: {{live: true}}
control: {{socket: control-{port}}}
exporter: {{bind: {host}, port: {exporter}, every_s: 5}}
"""
_BEFORE = "default: observe\n"
_AFTER = """\
default: observe
waves: {share: 50%}
rules:
  - {groups: [payments], mode: translate, wave: 1, steps: [1, "100%"], hold_s: 5}
  - {groups: [orders], mode: translate, wave: 1, steps: [1, "100%"], hold_s: 60, abort_if: {}}
  - {groups: [invoices], mode: translate, wave: 2, steps: [1, "100%"], hold_s: 5}
  - {groups: [shipping], mode: translate, wave: 2, steps: [1, "100%"], hold_s: 5, approval: required}
  - {groups: [audit, search], mode: translate, wave: 3, steps: [1, "100%"], hold_s: 5, approval: required}
"""
_PROMETHEUS = """\
global: {{scrape_interval: {every}s, evaluation_interval: {every}s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: epochgate
    static_configs: [{{targets: {targets}}}]
"""


class Scene:
    """The proxies of ``folder``, and the clients behind them."""

    def __init__(self, kafka: str, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._processes = contextlib.ExitStack()
        self._clients: list[str] = []
        self._admins: list[str] = []
        (exporter,) = free_ports(1)
        (folder / "policy.yaml").write_text(_BEFORE)
        for number in range(2):
            port, admin = free_ports(2)
            self._clients.append(f"{LOOPBACK}:{port}")
            self._admins.append(f"{LOOPBACK}:{admin}")
            config = folder / f"epochgate-{number}.yaml"
            config.write_text(
                _CONFIG.format(kafka=kafka, host=LOOPBACK, port=port, admin=admin, exporter=exporter)
            )
        self._exporter = f"{LOOPBACK}:{exporter}"

    def start(self) -> None:
        """Start proxies and exporter, and wait until they are ready."""
        for number, admin in enumerate(self._admins):
            self._run("run", f"epochgate-{number}.yaml")
            _until(partial(_answers, f"http://{admin}/readyz"), "a proxy is ready")
        self._run("exporter", "epochgate-0.yaml")
        _until(lambda: _answers(f"http://{self._exporter}/metrics"), "the exporter answers")

    def _run(self, command: str, config: str) -> None:
        log = self._processes.enter_context((self._folder / f"{command}-{config}.log").open("wb"))
        self.keep(
            subprocess.Popen(
                [sys.executable, "-m", "proxy", command, "--config", str(self._folder / config)],
                stdout=log,
                stderr=log,
            )
        )

    def keep(self, process: subprocess.Popen[bytes]) -> None:
        """End a process when the scene ends."""
        self._processes.callback(process.wait, 30)
        self._processes.callback(process.terminate)

    def watch(self) -> str:
        """Start a Prometheus, and return its URL."""
        binary = shutil.which("prometheus")
        if binary is None:
            raise FileNotFoundError("no prometheus here: install Debian's package `prometheus`")
        config, (port,) = self._folder / "prometheus.yml", free_ports(1)
        targets = json.dumps([*self._admins, self._exporter])
        config.write_text(_PROMETHEUS.format(every=SCRAPE_S, rules=RULES, targets=targets))
        log = self._processes.enter_context((self._folder / "prometheus.log").open("wb"))
        arguments = [
            f"--config.file={config}", f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{port}",
        ]  # fmt: skip
        self.keep(subprocess.Popen([binary, *arguments], stdout=log, stderr=log))
        url = f"http://{LOOPBACK}:{port}"
        _until(lambda: _answers(f"{url}/-/ready"), "Prometheus is ready")
        return url

    # -- clients -------------------------------------------------------------------------------------------------

    def consume(self) -> None:
        """Create the topics, and start a producer and the consumers of all groups."""
        topics = [NewTopic(group, PARTITIONS, 1) for group in MEMBERS]
        admin = AdminClient({"bootstrap.servers": self._kafka})
        for future in admin.create_topics(topics).values():
            future.result()
        self._thread(self._produce)
        for group, members in MEMBERS.items():
            for _ in range(members):
                self.join(group)
        _until(lambda: all(self._is_stable(group) for group in MEMBERS), "all groups are stable")

    def join(self, group: str) -> None:
        """Start one more consumer, through one proxy or the other."""
        number = len(self._threads)
        settings = {
            "bootstrap.servers": self._clients[number % len(self._clients)],
            "group.id": group,
            "client.id": f"{group}-{number}",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1_000,
            "auto.commit.interval.ms": 1_000,
        }

        def work() -> None:
            consumer = confluent_kafka.Consumer(settings)
            consumer.subscribe([group])
            while not self._stop.is_set():
                consumer.poll(0.2)
            consumer.close()

        self._thread(work)

    def _produce(self) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._kafka})
        while not self._stop.wait(0.2):
            for group in MEMBERS:
                producer.produce(group, b"record")
            producer.poll(0)
        producer.flush(10)

    def _thread(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    # -- what happens --------------------------------------------------------------------------------------------

    def joins(self) -> None:
        """Consumers join the group that is watched, one at a time."""
        for _ in range(JOINS):
            time.sleep(APART_S)
            self.join(WATCHED)
        time.sleep(APART_S)

    def move(self) -> None:
        """Change the policy, and wait until the second wave waits for its approval."""
        (self._folder / "policy.yaml").write_text(_AFTER)
        _until(lambda: self._progress(WATCHED) == 1, f"{WATCHED} has moved", 120)
        _until(lambda: self._progress("invoices") == 1, "the second wave has begun", 120)

    def _progress(self, group: str) -> float:
        progress = self._group(group).get("progress") or {"done": 0, "total": 1}
        return float(progress["done"] / (progress["total"] or 1))

    def is_compared(self) -> bool:
        """Whether the live proof has counted all joins after the move; only one replica has them."""
        for admin in self._admins:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://{admin}/api/groups/{WATCHED}", timeout=5) as answer:
                    proof = json.load(answer)["proof"] or {}
                if sum(one["after"]["count"] for one in proof.get("compared", ())) >= JOINS:
                    return True
        return False

    def _is_stable(self, group: str) -> bool:
        return bool(self._group(group).get("state") == "Stable")

    def _group(self, group: str) -> dict[str, Any]:
        for admin in self._admins:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://{admin}/api/groups", timeout=5) as answer:
                    found: list[dict[str, Any]] = json.load(answer)["groups"]
                for one in found:
                    if one["id"] == group:
                        return one
        return {}

    def end(self) -> None:
        """End clients and processes."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._processes.close()


@contextlib.contextmanager
def played(folder: Path, say: Callable[[str], None]) -> Iterator[str]:
    """Play the migration, and yield the URL of the Prometheus that has seen it."""
    cluster = Cluster(RUN / "dashboard", say=say)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.remove)
        stack.callback(cluster.stop, grace_s=3)
        cluster.start()
        scene = Scene(cluster.bootstrap, folder)
        stack.callback(scene.end)
        say("starting proxies, exporter and Prometheus")
        scene.start()
        url = scene.watch()
        say("starting consumers")
        scene.consume()
        say("consumers join before the move")
        scene.joins()
        say("moving")
        scene.move()
        say("consumers join after it")
        scene.joins()
        _until(scene.is_compared, "enough rebalances are counted", 240)
        time.sleep(3 * SCRAPE_S)  # until Prometheus has it too
        yield url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  loopback
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _until(reached: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it was not so within {timeout_s:g} s that {what}")
        time.sleep(0.5)
