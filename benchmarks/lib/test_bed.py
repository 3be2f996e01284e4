"""Starts the systems under test: a real Kafka (or the embedded coordinator), and Epochgate in front, each a process."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster, ExtraListener
from tools.kafka.ports import LOOPBACK, free_port_block, free_ports
from tools.kafka.tls_files import TlsFiles

BUILD = Path(__file__).resolve().parents[2] / "build"
PATIENCE_S = 30.0
NODES = 3

POLICY = """\
default: observe
rules:
  - {pattern: "translated-.*", mode: translate}
"""


REPLICAS = 3


def of_fleet(log_bootstrap: str) -> str:
    """Return what makes a gateway a replica of a fleet whose member log is at this broker."""
    kafka = f'{{"bootstrap.servers": "{log_bootstrap}"}}'
    return f"sole_process: false\nfleet: {{kafka: {kafka}, replication: 1, expires: true}}\n"


class Gateway:
    """`epochgate run` in front of a cluster."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        *,
        more: str = "",
        tls: TlsFiles | None = None,
        initial_rebalance_delay_ms: int = 0,
        policy: str = POLICY,
        port: int | None = None,
    ) -> None:
        """Write its configuration; by default nobody waits for others to join, as at the broker of :func:`kafka`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port, self.admin = [port, *free_ports(1)] if port else free_ports(2)
        first = free_port_block(NODES)
        (folder / "policy.yaml").write_text(policy)
        (folder / "epochgate.yaml").write_text(
            f"upstream: {{bootstrap: [{', '.join(bootstrap.split(','))}]{f', tls: {{ca: {tls.ca}}}' if tls else ''}}}\n"
            "listeners:\n"
            f"  - {{bind: {LOOPBACK}, port: {self.port}, advertised_host: {LOOPBACK},"
            f' nodes: {{"0-{NODES - 1}": {first}}}{_of_listener(tls)}}}\n'
            f"admin: {{bind: {LOOPBACK}, port: {self.admin}}}\n"
            "policy: {file: policy.yaml}\n"
            "preflight: {enabled: false}\n"
            f"initial_rebalance_delay_ms: {initial_rebalance_delay_ms}\n"
            "log: {level: warning}\n" + more
        )
        self.process: subprocess.Popen[bytes]

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "epochgate.log"

    def command(self, config: Path) -> list[str]:
        """Return the command line that `start` runs."""
        return [sys.executable, "-m", "proxy", "run", "--config", str(config)]

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.launch()
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until it is ready."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the proxy is not ready; see {self.log}")
            time.sleep(0.05)

    def launch(self) -> None:
        """Start its process."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(self.folder / "epochgate.yaml"), stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        """Whether it says that it is ready; RuntimeError if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the proxy has ended; see {self.log}")
        with contextlib.suppress(OSError):
            self.get("readyz")
            return True
        return False

    @property
    def address(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.admin}/{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def cpu_s(self) -> float:
        return cpu_s(self.process.pid)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:  # thousands of members on a busy machine
            self.process.kill()
            self.process.wait()


def _of_listener(tls: TlsFiles | None) -> str:
    """Return a listener's section of the configuration."""
    if tls is None:
        return ""
    certificate, key = tls.issue("proxy")
    return f", tls: {{certificate: {certificate}, key: {key}}}"


def family(pid: int) -> list[int]:
    """Return a process and those that it has started, such as those of the proxy's Kafka client."""
    children = (file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *(one for found in children for child in found for one in family(int(child)))]


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process and those that it has started have used."""
    return sum(map(own_cpu_s, family(pid)))


def own_cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used, also its ended threads, without its children."""
    return time.clock_gettime((~pid << 3) | 2)  # the kernel's clock of a process: clock_getcpuclockid(3)


def waited_s(pid: int) -> float:
    """Return the seconds that the threads of a process were runnable without a core."""
    return (
        sum(int(file.read_text().split()[1]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    )


def switches(pid: int) -> int:
    """Return the number of context switches of a process's threads, involuntary and voluntary."""
    return sum(
        int(line.split()[1])
        for file in Path(f"/proc/{pid}/task").glob("*/status")
        for line in file.read_text().splitlines()
        if "ctxt_switches" in line
    )


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def kafka(*listeners: ExtraListener, **overrides: str) -> Iterator[Cluster]:
    """Start one broker, with Kafka's own sizes where the tests' are small."""
    Cluster.stop_orphans(RUN)
    cluster = Cluster(
        RUN / f"bench-{os.getpid()}",
        overrides={k.replace("_", "."): v for k, v in overrides.items()},
        listeners=listeners,
    )
    cluster.save(owner_pid=os.getpid())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()


@contextlib.contextmanager
def gateway(
    bootstrap: str, name: str, *, more: str = "", tls: TlsFiles | None = None, port: int | None = None
) -> Iterator[Gateway]:
    """Start Epochgate in front of it; its log is kept in build/bench."""
    running = Gateway(bootstrap, BUILD / "bench" / name, more=more, tls=tls, port=port)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def kafka_version() -> str:
    return jars.DEFAULT_VERSION
