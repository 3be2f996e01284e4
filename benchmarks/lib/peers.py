"""Epochgate and other proxies, each ready to be started in front of the same broker, pinned to its cores."""

import contextlib
import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.lib import kafka_proxy, plain_relay
from benchmarks.lib.test_bed import BUILD, gateway
from tools import haproxy
from tools.chart.binaries import NoGoError
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.ports import LOOPBACK, free_port_block, free_ports
from tools.kroxylicious import gateway as kroxylicious
from tools.kroxylicious import jars
from tools.kroxylicious.jars import Kroxylicious, KroxyliciousUnavailableError

DIRECT, EPOCHGATE, TWO_WORKERS = "direct", "Epochgate", "Epochgate, 2 workers"
TUNED_BYTES = 65_536
"""The buffers of a tuned kafka-proxy, which by default have 4 KiB for each direction of a connection."""
_NODES = 3
_POLL_S = 0.002
_FOLDER = BUILD / "bench" / "peers"


@dataclass(frozen=True)
class Way:
    """An address of clients, and the process behind it; none if it is the broker's own."""

    bootstrap: str
    pid: int | None = None
    start_s: float = 0.0
    """From the start of the process until it accepted a connection."""
    translates: bool = False
    """Whether it makes members of groups `translated-...` members of the new protocol."""


@dataclass(frozen=True)
class Peer:
    """A proxy that can be started here. ``run`` yields its process id; it gets the port of its bootstrap address."""

    version: str
    run: Callable[[Cluster, int], contextlib.AbstractContextManager[int]]
    cores: int = 1
    translates: bool = False
    port: int | None = None
    """Where it has to listen, if that can't be chosen at each start."""

    @contextlib.contextmanager
    def started(self, cluster: Cluster) -> Iterator[Way]:
        """Start it on the machine's last cores; the broker and the clients may use all."""
        port = self.port or free_ports(1)[0]
        allowed = os.sched_getaffinity(0)
        accepted: list[float] = []
        first = threading.Thread(target=lambda: accepted.append(_first_accept(port)), daemon=True)
        first.start()
        with contextlib.ExitStack() as stack:
            began = time.monotonic()
            os.sched_setaffinity(
                0, sorted(allowed)[-self.cores :]
            )  # inherited by the processes that it starts
            try:
                pid = stack.enter_context(self.run(cluster, port))
            finally:
                os.sched_setaffinity(0, allowed)
            first.join()
            yield Way(f"{LOOPBACK}:{port}", pid, accepted[0] - began, self.translates)


def _first_accept(port: int) -> float:
    while True:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port)):
            return time.monotonic()
        time.sleep(_POLL_S)


@contextlib.contextmanager
def _epochgate(more: str, cluster: Cluster, port: int) -> Iterator[int]:
    with gateway(cluster.bootstrap, f"peers-{port}", more=more, port=port) as running:
        yield running.process.pid


@contextlib.contextmanager
def _kroxylicious(program: Kroxylicious, cluster: Cluster, port: int) -> Iterator[int]:
    ranges = [{"name": "brokers", "start": 0, "end": _NODES - 1}]
    by_port = {
        "bootstrapAddress": f"{LOOPBACK}:{port}",
        "nodeStartPort": free_port_block(_NODES),
        "nodeIdRanges": ranges,
    }
    virtual = {
        "name": "kafka",
        "targetCluster": {"bootstrapServers": cluster.bootstrap},
        "gateways": [{"name": "clients", "portIdentifiesNode": by_port}],
    }
    configuration = json.dumps({"virtualClusters": [virtual]})
    with kroxylicious.running(program, configuration, port, _FOLDER / "kroxylicious", ()) as pid:
        yield pid


@contextlib.contextmanager
def _kafka_proxy(path: Path, buffers: int | None, cluster: Cluster, port: int) -> Iterator[int]:
    command = kafka_proxy.command(path, cluster.bootstrap, LOOPBACK, port, free_port_block(_NODES), buffers)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "kafka-proxy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    with plain_relay.serving(process, port):
        yield process.pid


@contextlib.contextmanager
def _haproxy(cluster: Cluster, port: int) -> Iterator[int]:
    with plain_relay.relay(port, cluster.bootstrap_of(plain_relay.LISTENER)) as pid:
        yield pid


def available() -> tuple[dict[str, Peer], dict[str, str], list[ExtraListener]]:
    """Return what can run here, why others can't, and the listeners that the broker needs for them."""
    peers = {
        EPOCHGATE: Peer(version("epochgate"), partial(_epochgate, ""), translates=True),
        TWO_WORKERS: Peer(
            version("epochgate"), partial(_epochgate, "workers: 2\n"), cores=2, translates=True
        ),
    }
    skipped: dict[str, str] = {}
    listeners: list[ExtraListener] = []
    try:
        program = jars.ensure()
        peers["Kroxylicious"] = Peer(str(program), partial(_kroxylicious, program))
    except KroxyliciousUnavailableError as reason:
        skipped["Kroxylicious"] = str(reason)
    try:
        path = kafka_proxy.program()
        for name, size in (("kafka-proxy", None), ("kafka-proxy, tuned", TUNED_BYTES)):
            peers[name] = Peer(kafka_proxy.version(path), partial(_kafka_proxy, path, size))
    except NoGoError as reason:
        skipped["kafka-proxy"] = str(reason)
    if found := haproxy.program():
        (port,) = free_ports(1)
        listeners.append(ExtraListener(plain_relay.LISTENER, "PLAINTEXT", advertised_ports=[port]))
        shown = subprocess.run([found, "-v"], check=True, capture_output=True, text=True).stdout
        (number,) = re.findall(r"^HA-?Proxy version ([\d.]+)", shown)
        peers["HAProxy"] = Peer(number, _haproxy, port=port)
    else:
        skipped["HAProxy"] = "haproxy is not installed"
    return peers, skipped, listeners
