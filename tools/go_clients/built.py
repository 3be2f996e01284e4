"""Builds the drivers once, with the libraries that the ``*.sum`` files pin; `command` returns how to run one.

``python -m tools.go_clients.built`` needs Python, and Go or a way to fetch it (tools/chart/binaries.py).
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tools.chart import binaries

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / "build" / "go_clients"
MODULES = {
    "franzgo": ("github.com/twmb/franz-go", "go.mod"),
    "sarama": ("github.com/IBM/sarama", "go.mod"),
    "old_sarama": ("github.com/IBM/sarama", "old_sarama.mod"),
    "kafkago": ("github.com/segmentio/kafka-go", "go.mod"),
    "askers": ("github.com/twmb/franz-go/pkg/kadm", "go.mod"),
    "kfake": ("github.com/twmb/franz-go/pkg/kfake", "go.mod"),
}
"""Driver -> its library, and the file that pins it."""


def ensure_built() -> None:
    """Build the drivers, unless they exist and nothing has changed.

    :raises binaries.NoGoError: there is no Go, or the libraries can't be fetched.
    """
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want them at once
        stamp = BUILT / ".built"
        if not stamp.exists() or stamp.read_text() != _wanted():
            _build()
            stamp.write_text(_wanted())


def command(driver: str) -> list[str]:
    """Return the command line of one client. Call `ensure_built` first."""
    return [str(BUILT / driver)]


def version(driver: str) -> str:
    """Return the pinned version of the driver's library."""
    module, file = MODULES[driver]
    pinned = re.search(rf"^\s*{re.escape(module)} v(\S+)", (HERE / file).read_text(), re.MULTILINE)
    if pinned is None:
        raise ValueError(f"{file} does not name {module}")
    return pinned[1]


def _build() -> None:
    go = _go()
    print(f"== building the Go clients with {go} (a minute on two cores, once)", flush=True)
    began = time.monotonic()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    build = [str(go), "build", "-trimpath", "-ldflags", "-s -w", "-o"]
    for what in (
        [f"{BUILT}/", "./..."],
        [f"{BUILT}/old_sarama", "-modfile=old_sarama.mod", "-tags=old", "./sarama"],  # the same driver
    ):
        done = subprocess.run(
            build + what, cwd=HERE, env=environment, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise binaries.NoGoError(f"go build failed: {done.stderr.strip()[-500:]}")
    print(f"== built in {time.monotonic() - began:.0f} s", flush=True)


def _go() -> Path:
    binaries.BUILT.mkdir(parents=True, exist_ok=True)
    with (binaries.BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a Go that has to be fetched is fetched once
        return binaries.find_go()


def _wanted() -> str:
    sources = sorted([*HERE.rglob("*.go"), *HERE.glob("*.mod"), *HERE.glob("*.sum")])
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


if __name__ == "__main__":
    try:
        ensure_built()
    except binaries.NoGoError as reason:
        sys.exit(f"error: {reason}")
