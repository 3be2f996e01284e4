"""Where the clients of a scenario enter: straight at the broker, or through the proxy in one of its modes."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import ROOT
from support.broker import Kafka
from tools.kafka.ports import LOOPBACK, free_port_block, free_ports

START_TIMEOUT_S = 30.0
NODE_IDS = 10

POLICY = """\
default: observe
rules:
  - {pattern: "translate-.*", mode: translate}
"""


@dataclass(frozen=True)
class Entry:
    """A bootstrap for the clients of one scenario.

    `mode` is `direct`, or what the proxy's policy does with the groups that are named `new_group`.
    """

    mode: str
    bootstrap: str

    @property
    def translates(self) -> bool:
        """Whether the clients become members of the new protocol on the way."""
        return self.mode == "translate"

    def new_group(self) -> str:
        """A group id that nobody else uses; the proxy's policy knows the mode by its beginning."""
        return f"{self.mode}-{uuid.uuid4().hex[:8]}"


LIMITS_OF_TEST_BROKERS: Mapping[str, object] = {"session_timeout_min_ms": 1_000}
"""As `tools.kafka.settings` has it (`group.min.session.timeout.ms`); a proxy before a broker with Kafka's own settings
needs none."""


class Proxy:
    """A proxy in front of the brokers at `bootstrap`: `epochgate run`, as an operator starts it."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        *,
        listener_tls: Mapping[str, object] | None = None,
        upstream_tls: Mapping[str, object] | None = None,
        listener: Mapping[str, object] | None = None,
        advertised_host: str = LOOPBACK,
        bind: str = LOOPBACK,
        policy: str = POLICY,
        policy_file: str = "policy.yaml",
        sole_process: bool = True,
        workers: int = 1,
        limits: Mapping[str, object] = LIMITS_OF_TEST_BROKERS,
        fleet: Mapping[str, object] | None = None,
        journal: Mapping[str, object] | None = None,
        verify: Mapping[str, object] | None = None,
        metrics: Mapping[str, object] | None = None,
        preflight: Mapping[str, object] | None = None,
        script: Path | None = None,
        more_listeners: Sequence[Mapping[str, object]] = (),
        more: Mapping[str, object] | None = None,
        initial_rebalance_delay_ms: int | None = 0,
        code: Path = ROOT,
    ) -> None:
        self.folder = folder
        self._code = code
        """The checkout that it runs."""
        self._more = more or {}
        self._delay: Mapping[str, object] = {}
        if initial_rebalance_delay_ms is not None:  # 0 is what the test brokers have
            self._delay = {"initial_rebalance_delay_ms": initial_rebalance_delay_ms}
        self._command = ["-m", "proxy"] if script is None else [str(script)]
        self._limits = limits
        self._fleet, self._journal = fleet, journal or {}
        self._verify, self._metrics = verify or {}, metrics or {}
        self._preflight = preflight or {"enabled": False}  # it takes a second of a core
        self._sole_process, self._workers = sole_process, workers
        self._tls = listener_tls, upstream_tls
        self._listener, self._more_listeners = listener or {}, more_listeners
        self._bind, self._advertised_host = bind, advertised_host
        self._bootstrap_port, self._admin_port = free_ports(2)
        self._first_node_port = free_port_block(NODE_IDS)
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._policy_file = policy_file
        """What the configuration names; the file or directory, if it is another one, is there before the start."""
        (folder / "policy.yaml").write_text(policy)
        (folder / "epochgate.yaml").write_text(self._config(bootstrap.split(",")))

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        return f"{self._advertised_host}:{self._bootstrap_port}"

    def of_node(self, node_id: int) -> str:
        """host:port for clients of one node."""
        return f"{self._advertised_host}:{self._first_node_port + node_id}"

    @property
    def ports(self) -> set[int]:
        """All that clients may connect to."""
        return {self._bootstrap_port, *range(self._first_node_port, self._first_node_port + NODE_IDS)}

    @property
    def admin(self) -> str:
        """URL of the admin port."""
        return f"http://{LOOPBACK}:{self._admin_port}"

    @property
    def scrape_target(self) -> str:
        """host:port of the admin port, as Prometheus has it."""
        return f"{LOOPBACK}:{self._admin_port}"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "epochgate.log"

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._command, "run", "--config", str(self.folder / "epochgate.yaml")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(
                        filter(None, [str(self._code), os.environ.get("PYTHONPATH")])
                    ),
                },
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"the proxy did not become ready:\n{self.last_words()}")
            time.sleep(0.05)

    def ready(self) -> bool:
        """What /readyz says."""
        try:
            with urllib.request.urlopen(f"{self.admin}/readyz", timeout=2) as answer:  # noqa: S310 - our own URL
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def metrics(self) -> str:
        """What /metrics says."""
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=5) as answer:  # noqa: S310 - our own URL
            return str(answer.read().decode())

    def group(self, group_id: str) -> dict[str, Any]:
        """What /api/groups says of a group that it knows."""
        url = f"{self.admin}/api/groups/{group_id}"
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own URL
            found: dict[str, Any] = json.loads(answer.read())
        return found

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._process is not None, "it was not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """Of its process; None while that runs."""
        assert self._process is not None, "it was not started"
        return self._process.poll()

    @property
    def admin_port(self) -> int:
        """On loopback."""
        return self._admin_port

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when it does not end."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None, "it was not started"
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process."""
        os.kill(self.pid, number)

    def freeze(self) -> None:
        """Stop the process as a long pause of its machine would (SIGSTOP)."""
        assert self._process is not None, "it was not started"
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None, "it was not started"
        os.kill(self._process.pid, signal.SIGCONT)

    def last_words(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _config(self, bootstrap: list[str]) -> str:
        """JSON, which is YAML too."""
        listener_tls, upstream_tls = self._tls
        listener = {
            "bind": self._bind,
            "port": self._bootstrap_port,
            "advertised_host": self._advertised_host,
            "nodes": {f"0-{NODE_IDS - 1}": self._first_node_port},
            "tls": listener_tls,
            **self._listener,
        }
        config = {
            "upstream": {"bootstrap": bootstrap, "tls": upstream_tls},
            "listeners": [listener, *self._more_listeners],
            "admin": {"bind": LOOPBACK, "port": self._admin_port},
            "policy": {"file": self._policy_file},
            "sole_process": self._sole_process,
            "workers": self._workers,
            "limits": dict(self._limits),
            "fleet": self._fleet and dict(self._fleet),
            "journal": dict(self._journal),
            "verify": dict(self._verify),
            "metrics": dict(self._metrics),
            "preflight": dict(self._preflight),
            **self._delay,
            **self._more,
        }
        return json.dumps(config, indent=2)


@contextlib.contextmanager
def running_proxy(bootstrap: str, folder: Path, **options: Any) -> Iterator[Proxy]:
    """A proxy that is stopped at the end; `options` are those of Proxy."""
    proxy = Proxy(bootstrap, folder, **options)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


class Entries:
    """The entries to one broker; the proxy is started when the first scenario asks for it."""

    def __init__(self, kafka: Kafka, folder: Path, stack: contextlib.ExitStack) -> None:
        self._kafka = kafka
        self._folder = folder
        self._stack = stack

    def __getitem__(self, mode: str) -> Entry:
        bootstrap = self._kafka.bootstrap if mode == "direct" else self.proxy.bootstrap
        return Entry(mode, bootstrap)

    @functools.cached_property
    def proxy(self) -> Proxy:
        """Shared by all scenarios."""
        return self._stack.enter_context(running_proxy(self._kafka.bootstrap, self._folder))


def planned(policy: Path, proxy: Proxy) -> str:
    """What `epochgate policy plan` says."""
    command = [sys.executable, "-m", "proxy", "policy", "plan", "--admin", proxy.admin, str(policy)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
