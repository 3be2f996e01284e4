"""Starts Kroxylicious with one virtual cluster, whose gateway has a port for each broker."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.kafka.ports import LOOPBACK
from tools.kroxylicious.jars import HERE, Kroxylicious, KroxyliciousUnavailableError

START_TIMEOUT_S = 120.0
SMALL = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of Java for tests: it starts sooner and takes less memory, and is slow under load."""
_POLL_S = 0.05


@contextlib.contextmanager
def running(
    program: Kroxylicious, configuration: str, port: int, folder: Path, java_options: Sequence[str] = SMALL
) -> Iterator[int]:
    """Run it with this configuration (YAML) until the end of the block; its log is `kroxylicious.log` in `folder`.

    Yields its process id.

    `port` is the one of the gateway's `bootstrapAddress`, on which it is ready when it listens. It listens on loopback
    only, whatever the configuration says.

    :raises KroxyliciousUnavailableError: there is no C compiler, without which it would listen on every address.
    :raises RuntimeError: it did not start; the message has the end of its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "kroxylicious.yaml", folder / "kroxylicious.log"
    file.write_text(configuration)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [program.java, *java_options, *program.arguments, str(file)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, "LD_PRELOAD": str(_loopback())},
        )
    try:
        _wait_until_it_listens(process, port, log)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"Kroxylicious did not start:\n{end}")
        time.sleep(_POLL_S)


def _loopback() -> Path:
    """Return the compiled library, made at the first call. Safe to call from several processes at once."""
    source = HERE / "loopback.c"
    library = HERE.parents[1] / "build" / "kroxylicious" / "loopback.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        compiler = shutil.which("cc")
        if compiler is None:
            raise KroxyliciousUnavailableError(
                "no C compiler (cc): without it Kroxylicious listens on every address"
            )
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            fresh = Path(folder) / library.name
            subprocess.run([compiler, "-shared", "-fPIC", "-o", str(fresh), str(source)], check=True)
            fresh.replace(library)
    return library
