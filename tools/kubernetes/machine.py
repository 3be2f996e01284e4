"""A machine of a cluster: namespaces of this kernel with a process 1, an address on the bridge, its own folders.

Whatever runs in it, pods included, ends with process 1, and with it go its mounts, devices and firewall rules.
"""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.kubernetes import network
from tools.kubernetes.binaries import binary
from tools.kubernetes.paths import BINARIES, ClusterError

_NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc")
_PATH = f"{BINARIES}:/usr/sbin:/sbin:/usr/bin:/bin"
_POLL_S = 0.1
_RECORD = "init.json"


class Machine:
    """One machine, by its name and folder; the folder remembers process 1 for a later ``down``."""

    def __init__(self, name: str, folder: Path, address: str) -> None:
        self.name = name
        self.folder = folder
        self.address = address

    def start(self) -> None:
        """Make the namespaces, and prepare network and folders."""
        for inside in ("var-lib", "var-log", "log"):
            (self.folder / inside).mkdir(parents=True, exist_ok=True)
        namespaces = ["unshare", *_NAMESPACES, "--fork", "--kill-child=SIGKILL", "--mount-proc"]
        holder = self.folder / "holder.pid"
        # The shell has unshare's number before it becomes unshare.
        shell = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(holder)]
        self._detach([*shell, *namespaces, str(binary("pause"))], "init")
        wait_until(lambda: _first_child(holder) is not None, f"{self.name} has its process 1")
        pid = _first_child(holder)
        assert pid is not None  # noqa: S101  it was waited for
        wait_until(lambda: _program(pid) == str(binary("pause")), f"{self.name} has its namespaces")
        self._remember(pid)
        network.join(pid, self.address)
        self.run(_set_up(self))

    def run(self, command: str, *, feed: bytes | None = None) -> str:
        """Run a shell's command in it and return what it writes.

        :raises ClusterError: it failed.
        """
        done = subprocess.run(
            self._inside("sh", "-euc", command),
            check=False,
            capture_output=True,
            input=feed,
            env={"PATH": _PATH},
        )
        if done.returncode:
            raise ClusterError(f"{self.name}: {command}: {done.stderr.decode().strip()[-800:]}")
        return done.stdout.decode()

    def spawn(self, name: str, *command: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a program that goes on after us; its output is in ``log/<name>.log``."""
        self._detach(self._inside(*command), name, environment)

    def pid(self) -> int | None:
        """Return process 1 as this machine sees it, or None if it does not run."""
        try:
            told = json.loads((self.folder / _RECORD).read_text())
        except FileNotFoundError:
            return None
        return told["pid"] if _started_at(told["pid"]) == told["started_at"] else None

    def processes(self) -> list[int]:
        """Return the processes that run in it, as this machine numbers them."""
        if (pid := self.pid()) is None:
            return []
        mine = Path(f"/proc/{pid}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "ns/pid").readlink() == mine:
                    found.append(int(folder.name))
            except OSError:
                continue  # it has ended meanwhile
        return found

    def stop(self) -> None:
        """End it, with everything in it."""
        if (pid := self.pid()) is None:
            return
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.pid() is None, f"{self.name} has ended")

    def _detach(self, command: Sequence[str], log: str, environment: Mapping[str, str] | None = None) -> None:
        with (self.folder / "log" / f"{log}.log").open("ab") as output:
            subprocess.run(
                ["setsid", "--fork", *command],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": _PATH, "HOME": "/root", **(environment or {})},
            )

    def _inside(self, *command: str) -> Sequence[str]:
        pid = self.pid()
        if pid is None:
            raise ClusterError(f"{self.name} does not run")
        return ["nsenter", "--target", str(pid), *_NAMESPACES, "--", *command]

    def _remember(self, pid: int) -> None:
        told = {"pid": pid, "started_at": _started_at(pid)}  # a later process may have the same number
        (self.folder / _RECORD).write_text(json.dumps(told))


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Wait for a condition.

    :raises ClusterError: it did not come true in time.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {timeout_s:.0f} s in vain until {what}")
        time.sleep(_POLL_S)


def _set_up(machine: Machine) -> str:
    """Return the commands that make it look like a machine of its own to the programs in it."""
    folder = shlex.quote(str(machine.folder))
    return f"""
        mount --make-rshared /
        mount -t tmpfs tmpfs /run
        mount --bind {folder}/var-lib /var/lib
        mount --bind {folder}/var-log /var/log
        hostname {machine.name}
        ip link set lo up
        ip link set eth0 up
        ip addr add {machine.address}/24 dev eth0
        ip route add default via {network.GATEWAY}
        sysctl -qw net.ipv4.ip_forward=1
    """


def _first_child(parent: Path) -> int | None:
    try:
        number = int(parent.read_text())
        return int(Path(f"/proc/{number}/task/{number}/children").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None  # not yet


def _program(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def _started_at(pid: int) -> int | None:
    """Return a process's start, in clock ticks since the boot, or None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rsplit(")", 1)[1].split()
    return None if fields[0] == "Z" else int(fields[19])
