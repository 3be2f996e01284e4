"""One Kafka process: broker and controller in one, with its own folder."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.kafka import jars, settings
from tools.kafka.ports import LOOPBACK

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
POLL_S = 0.05


class Broker:
    """A node that can be started, stopped, killed and started again, always on the same port and data.

    Its folder identifies it: another process can take it over by that (`make kafka-down` does).
    """

    def __init__(
        self,
        node_id: int,
        folder: Path,
        version: str,
        port: int,
        java_options: Sequence[str] = (),
        plugins: Sequence[Path] = (),
    ) -> None:
        self.node_id = node_id
        self.folder = folder
        self.version = version
        self.port = port
        self._java_options = tuple(java_options)
        self._classpath = ":".join([jars.classpath(version), *map(str, plugins)])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return host:port for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def log(self) -> Path:
        """Return the broker's own log."""
        return self.folder / "kafka.log"

    @property
    def console(self) -> Path:
        """Return the file with the output of the JVM itself (mostly failed starts)."""
        return self.folder / "console.log"

    def configure(self, values: Mapping[str, str]) -> None:
        """Write server.properties; takes effect at the next start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        own = {"node.id": str(self.node_id), "log.dirs": str(self.folder / "data")}
        self._server_properties.write_text(settings.properties({**values, **own}))

    def format(self, cluster_id: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start formatting the storage; the caller waits for the process."""
        with self.console.open("ab") as console:
            return subprocess.Popen(
                [
                    *self._java("storage.log"), "kafka.tools.StorageTool", "format",
                    "--config", str(self._server_properties), "--cluster-id", cluster_id, *options,
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, cwd=self.folder,
            )  # fmt: skip

    def start(self) -> None:
        """Start the process; `probe` tells when it is ready."""
        if self.pid() is not None:
            raise RuntimeError(f"node {self.node_id} runs already")
        with self.console.open("ab") as console:
            self._process = subprocess.Popen(
                [*self._java("kafka.log"), "kafka.Kafka", str(self._server_properties)],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, cwd=self.folder,
                start_new_session=True,  # Ctrl-C in a terminal is for the tests, not for their broker
            )  # fmt: skip
        self._pid_file.write_text(f"{self._process.pid}\n")

    def stop(self, *, grace_s: float = 15.0) -> None:
        """End it with SIGTERM, and with SIGKILL if it still runs after `grace_s` seconds."""
        self.terminate()
        if not self._gone_within(grace_s):
            self.kill()

    def terminate(self) -> None:
        """Send SIGTERM without waiting."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: the broker does not shut down in order."""
        self._signal(signal.SIGKILL)
        self._gone_within(10.0)

    def pid(self) -> int | None:
        """Return the process id while the broker runs."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    def last_words(self) -> str:
        """Return the last errors of its logs, which may say why it died."""
        lines: list[str] = []
        for path in (self.console, self.log):
            with contextlib.suppress(OSError):
                text = path.read_text(errors="replace").splitlines()
                lines += [line for line in text if "ERROR" in line or "FATAL" in line or "Exception" in line][
                    -3:
                ]
        return " | ".join(lines) or f"no error line in {self.log}"

    def wait_gone(self, deadline: float) -> bool:
        """Wait until `deadline` (time.monotonic()); return whether the process has ended."""
        return self._gone_within(max(deadline - time.monotonic(), 0))

    @property
    def _server_properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    def _java(self, log: str) -> list[str]:
        return [
            jars.java_home_program("java"), *settings.heap_options(), *self._java_options,
            f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Depochgate.log={self.folder / log}",
            "-cp", self._classpath,
        ]  # fmt: skip

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pid() is not None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _is_ours(self, pid: int) -> bool:
        """Whether the pid is still our process: its command line names our folder."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return Path("/proc/self").exists() is False and self._answers_signal_0(pid)
        return str(self._server_properties).encode() in command

    @staticmethod
    def _answers_signal_0(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True
