"""A Deployment and its Service without a cluster: proxy processes behind HAProxy, replaced one after another.

Each pod has a loopback address of its own. HAProxy asks /readyz as the readiness probe does, and is told when a pod is
deleted, which takes it out of the Service before it gets SIGTERM. Each client has ports of its own, which stand for the
address that it would have on a machine of its own: whatever it connects to there, it reaches one pod as long as that is
in the Service (`sessionAffinity: ClientIP`).

What happens to a pod is one of these: it is deleted and created again as a Deployment does it, killed, or stopped for
a while (SIGSTOP). Connections that are there stay when HAProxy finds out that a pod is not ready, as with a Service;
`cut` does what some load balancers do then.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.waiting import eventually
from tools import haproxy
from tools.kafka.ports import free_ports

FRONT = "127.0.0.1"
NODE_ID = 1
PRE_STOP_S = 1.0
"""What drain.preStopSeconds is in a cluster, where every node has to hear that a pod is gone."""

_CONFIG = """\
upstream: {{bootstrap: ["{kafka}"]}}
preflight: {{enabled: false}}
initial_rebalance_delay_ms: 0
listeners:
{listeners}
admin: {{bind: {address}, port: {admin}}}
policy: {{file: {folder}/policy.yaml}}
journal: {{path: {folder}/journal}}
sole_process: false
fleet: {fleet}
"""
_LISTENER = (
    '  - {{bind: {address}, port: {bootstrap}, advertised_host: {front}, nodes: {{"{node_id}": {node}}}}}'
)
_HAPROXY = """\
global
  stats socket {socket} level admin
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout check 2s
  retries 3
  option redispatch
backend affinity
  stick-table type string len 16 size 1k expire 3h
backend pods
  option httpchk GET /readyz
  default-server check port {admin} inter 200ms fall 2 rise 1
{pods}
"""
_PORT = """\
frontend {name}
  bind {front}:{port}
  default_backend {name}
backend {name}
  balance random
  stick on str({client}) table affinity
{pods}
"""


@dataclass(frozen=True)
class Ports:
    """The ports of one client: the bootstrap port, and that of the only broker."""

    bootstrap: int
    node: int


class Pod:
    """One proxy process."""

    def __init__(self, name: str, address: str, admin: int, folder: Path) -> None:
        self.name = name
        self.address = address
        self.log = folder / f"proxy-{name}.log"
        self.drained_s = 0.0
        self._admin = admin
        self._config = folder / f"proxy-{name}.yaml"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; HAProxy finds out when it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "proxy", "run", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ready(self) -> bool:
        """What the readiness probe finds."""
        assert self._running.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://{self.address}:{self._admin}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def metrics(self) -> str:
        """What /metrics says."""
        with urllib.request.urlopen(f"http://{self.address}:{self._admin}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def metric(self, series: str) -> float:
        """The value of one series of its metrics."""
        (value,) = [line.split()[-1] for line in self.metrics().splitlines() if line.startswith(f"{series} ")]
        return float(value)

    def terminate(self) -> None:
        """SIGTERM."""
        self._running.send_signal(signal.SIGTERM)
        self._began = time.monotonic()

    def wait(self, timeout_s: float) -> None:
        """Until it has ended in order."""
        assert self._running.wait(timeout=timeout_s) == 0, self.log.read_text()
        self.drained_s = time.monotonic() - self._began

    def freeze(self) -> None:
        """Stop the process as a long pause of its machine would (SIGSTOP)."""
        os.kill(self._running.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._running.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Whatever state it is in, it is gone after this."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process


class Service:
    """HAProxy and the pods, of which only some are started."""

    def __init__(
        self,
        kafka: str,
        clients: Sequence[str],
        pods: Sequence[str],
        folder: Path,
        control: Path,
        fleet: Mapping[str, object] | None = None,
    ) -> None:
        free = iter(free_ports(2 * len(clients) + 1))
        admin = next(free)
        self._control = control
        self.ports = {client: Ports(next(free), next(free)) for client in clients}
        self.pods = {
            name: Pod(name, f"127.0.0.{number}", admin, folder) for number, name in enumerate(pods, start=2)
        }
        (folder / "policy.yaml").write_text("default: translate\n")
        for pod in self.pods.values():
            listeners = [
                _LISTENER.format(
                    address=pod.address, front=FRONT, node_id=NODE_ID, bootstrap=at.bootstrap, node=at.node
                )
                for at in self.ports.values()
            ]
            (folder / f"proxy-{pod.name}.yaml").write_text(
                _CONFIG.format(
                    kafka=kafka,
                    listeners="\n".join(listeners),
                    address=pod.address,
                    admin=admin,
                    folder=folder,
                    fleet=json.dumps(fleet),
                )
            )
        self._file = folder / "haproxy.cfg"
        self._file.write_text(self._haproxy(admin))
        with (folder / "haproxy.log").open("wb") as log:
            self._process = subprocess.Popen(
                [haproxy.program() or "haproxy", "-db", "-f", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def bootstrap(self, client: str) -> str:
        """bootstrap.servers of a client."""
        return f"{FRONT}:{self.ports[client].bootstrap}"

    def create(self, name: str) -> None:
        """Start a pod and wait until it is ready and in the Service."""
        self.pods[name].start()
        eventually(self.pods[name].ready, what=f"{name} is ready", timeout_s=60)
        self._tell(f"set server pods/{name} state ready")  # which it is not if it was deleted before
        eventually(lambda: self.has(name), what=f"{name} is in the Service", timeout_s=60)

    def delete(self, name: str) -> None:
        """Take a pod out of the Service, and then tell it to end."""
        self._tell(f"set server pods/{name} state maint")
        eventually(lambda: not self.has(name), what=f"{name} is out of the Service")
        subprocess.run(["sleep", str(PRE_STOP_S)], check=True)  # what preStop does
        self.pods[name].terminate()

    def cut(self, name: str) -> None:
        """Cut all connections to a pod, as load balancers may that find it not ready."""
        cuts = [
            f"shutdown sessions server {row['pxname']}/{name}"
            for row in self._stat()
            if row["svname"] == name
        ]
        for cut in cuts:
            self._tell(cut)

    def connected(self, name: str) -> int:
        """Connections that HAProxy has to a pod."""
        return sum(int(row["scur"]) for row in self._stat() if row["svname"] == name)

    def clients_of(self, name: str) -> frozenset[str]:
        """The clients that have connections to a pod."""
        used = {row["pxname"] for row in self._stat() if row["svname"] == name and row["scur"] != "0"}
        return frozenset(
            client
            for client, at in self.ports.items()
            if used & {f"{client}-{at.bootstrap}", f"{client}-{at.node}"}
        )

    def has(self, name: str) -> bool:
        """Whether a pod is in the Service: new connections may go to it."""
        states = [row["status"] for row in self._stat() if row["svname"] == name]
        return bool(states) and all(state.startswith(("UP", "no check")) for state in states)

    def end(self) -> None:
        """Kill everything."""
        for pod in self.pods.values():
            pod.kill()
        self._process.kill()
        self._process.wait()

    def _stat(self) -> list[dict[str, str]]:
        head, *lines = self._tell("show stat").lstrip("# ").splitlines()
        return [dict(zip(head.split(","), line.split(","), strict=False)) for line in lines if line]

    def _tell(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self._control))
            control.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: control.recv(65_536), b"")).decode()

    def _haproxy(self, admin: int) -> str:
        checked = [f"  server {pod.name} {pod.address}:{admin}" for pod in self.pods.values()]
        text = _HAPROXY.format(socket=self._control, admin=admin, pods="\n".join(checked))
        for client, ports in self.ports.items():
            for port in (ports.bootstrap, ports.node):
                pods = [
                    f"  server {pod.name} {pod.address}:{port} track pods/{pod.name}"
                    for pod in self.pods.values()
                ]
                text += _PORT.format(
                    name=f"{client}-{port}", front=FRONT, port=port, client=client, pods="\n".join(pods)
                )
        return text


@contextlib.contextmanager
def service(
    kafka: str,
    clients: Sequence[str],
    pods: Sequence[str],
    folder: Path,
    control: Path,
    fleet: Mapping[str, object] | None = None,
) -> Iterator[Service]:
    """A Service that is gone at the end. `fleet` is that section of the pods' configuration."""
    one = Service(kafka, clients, pods, folder, control, fleet)
    try:
        yield one
    finally:
        one.end()
