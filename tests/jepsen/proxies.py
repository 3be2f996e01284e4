"""Runs the proxies and the balancer in front of them."""

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from support import ROOT

from tests.jepsen.schedule import REPLICAS
from tools.kafka.ports import free_ports

FRONT = "127.0.0.1"
BACKENDS = {name: f"127.0.0.{number}" for number, name in enumerate(REPLICAS, start=2)}
BROKER_ID = 1
READY_TIMEOUT_S = 60.0

CONFIG = """\
upstream: {{bootstrap: ["{kafka}"]}}
preflight: {{enabled: false}}
listeners:
{listeners}
admin: {{bind: {address}, port: {admin}}}
policy: {{file: {policy}}}
journal: {{path: {journal}}}
sole_process: false
"""

FLEET = """\
fleet:
  kafka: {{bootstrap.servers: "{bootstrap}"}}
  topic: members
  partitions: 4
  replication: 1
  expires: true
"""

LISTENER = (
    '  - {{bind: {address}, port: {bootstrap}, advertised_host: {front}, nodes: {{"{broker}": {node}}}}}'
)

POLICY_FILE = "policy.yaml"
POLICY = 'default: observe\nrules: [{{pattern: ".*", mode: {mode}}}]\n'


def set_policy(folder: Path, mode: str) -> None:
    """Set the mode in which all proxies handle every group from now on."""
    new = folder / f"{POLICY_FILE}.new"
    new.write_text(POLICY.format(mode=mode))
    new.rename(folder / POLICY_FILE)


class ProxyProcess:
    """An `epochgate run` process, started as an operator does; each client has its own listener (see balancer.py)."""

    def __init__(
        self,
        name: str,
        folder: Path,
        kafka: str,
        ports: dict[str, list[int]],
        admin: int,
        log_bootstrap: str | None = None,
    ) -> None:
        """`log_bootstrap` is where the brokers of the member log are; None for a proxy without one."""
        self.name = name
        self._folder = folder
        self._address = BACKENDS[name]
        self._admin = admin
        self._process: subprocess.Popen[bytes] | None = None
        listeners = [
            LISTENER.format(
                address=self._address, bootstrap=bootstrap, front=FRONT, broker=BROKER_ID, node=node
            )
            for bootstrap, node in ports.values()
        ]
        (folder / f"proxy-{name}.yaml").write_text(
            CONFIG.format(
                kafka=kafka,
                listeners="\n".join(listeners),
                address=self._address,
                admin=admin,
                policy=folder / POLICY_FILE,
                journal=folder / "journal" / name,
            )
            + (FLEET.format(bootstrap=log_bootstrap) if log_bootstrap else "")
        )

    def start(self) -> None:
        """Start the process without waiting for it."""
        config = self._folder / f"proxy-{self.name}.yaml"
        with (self._folder / f"proxy-{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "proxy", "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until /readyz succeeds. Raises AssertionError."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._ready():
            if not self.alive or time.monotonic() > deadline:
                raise AssertionError(
                    f"proxy {self.name} did not become ready: see {self._folder}/proxy-{self.name}.log"
                )
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> None:
        """Send SIGTERM, and do not wait for the end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Send SIGSTOP: the process stands still, and its connections stay open."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL if that does not suffice."""
        if self._process is None:
            return
        self.terminate()
        self.thaw()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()

    def _ready(self) -> bool:
        url = f"http://{self._address}:{self._admin}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False


class BalancerProcess:
    """balancer.py as a process; its log is `balancer.log`."""

    def __init__(self, folder: Path, ports: dict[str, list[int]], proxies: Sequence[str]) -> None:
        backends = {name: BACKENDS[name] for name in proxies}
        settings = {"front": FRONT, "backends": backends, "clients": ports}
        with (folder / "balancer.stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.jepsen.balancer", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
            )
        self._log = folder / "balancer.log"
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, name="read balancer", daemon=True)
        self._reader.start()
        if not self._listening.wait(timeout=60):
            raise AssertionError(f"the balancer does not listen: see {folder}/balancer.stderr")

    def tell(self, command: str, client: str) -> None:
        """Send one command of balancer.py."""
        self._process.stdin.write((json.dumps({"command": command, "client": client}) + "\n").encode())
        self._process.stdin.flush()

    def stop(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        with self._log.open("ab") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                self._listening.set()


def ports_for(clients: Sequence[str]) -> dict[str, list[int]]:
    """Return a bootstrap port and a port for the broker, for each client."""
    free = iter(free_ports(2 * len(clients)))
    return {client: list(itertools.islice(free, 2)) for client in clients}
