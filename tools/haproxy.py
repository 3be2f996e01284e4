"""Finds HAProxy, and starts it, for tests and benchmarks that run it beside Epochgate, before it or behind it."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path

START_TIMEOUT_S = 30.0
_POLL_S = 0.02


def program() -> str | None:
    """Return its path, if it is installed."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")


@contextlib.contextmanager
def running(configuration: str, addresses: Collection[tuple[str, int]], folder: Path) -> Iterator[None]:
    """Run it until the end of the block; `addresses` are where it listens when it is ready.

    Its configuration and its log stay in `folder`.

    :raises RuntimeError: it did not start; the message has its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "haproxy.cfg", folder / "haproxy.log"
    file.write_text(configuration)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [program() or "haproxy", "-db", "-f", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not all(map(_listens, addresses)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"HAProxy did not start:\n{log.read_text(errors='replace')}")
            time.sleep(_POLL_S)
        yield
    finally:
        process.kill()
        process.wait()


def _listens(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=1):
        return True
    return False
