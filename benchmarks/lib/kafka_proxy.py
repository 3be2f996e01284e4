"""Provides grepplabs' kafka-proxy: a program that you name, or the pinned release, a Go module."""

import os
import re
import subprocess
from pathlib import Path

from benchmarks.lib.test_bed import BUILD
from tools.chart.binaries import NoGoError, find_go

PROGRAM = "EPOCHGATE_KAFKA_PROXY"
"""The environment variable that names a program which is there already."""
MODULE, VERSION = "github.com/grepplabs/kafka-proxy", "0.4.3"


def program() -> Path:
    """Return its path; it is built at the first call.

    :raises NoGoError: there is no Go, or its module can't be fetched.
    """
    if named := os.environ.get(PROGRAM):
        return Path(named)
    folder = BUILD / "peers"
    path = folder / "kafka-proxy"
    if not path.exists():
        done = subprocess.run(
            [str(find_go()), "install", "-trimpath", f"{MODULE}@v{VERSION}"],
            env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder), "GOTOOLCHAIN": "local"},
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise NoGoError(f"go install failed: {done.stderr.strip()[-300:]}")
    return path


def version(path: Path) -> str:
    """Return the version that a program prints, or the pinned one: what `go install` builds knows none."""
    shown = subprocess.run([str(path), "version"], check=False, capture_output=True, text=True)
    found = re.search(r"\d+(?:\.\d+)+", shown.stdout)
    return VERSION if found is None else found[0]


def command(path: Path, broker: str, host: str, port: int, nodes: int, buffers: int | None) -> list[str]:
    """Return its command line; brokers have ports from ``nodes`` on, and connections buffers of so many bytes."""
    return [
        *(str(path), "server", f"--bootstrap-server-mapping={broker},{host}:{port}"),
        *(f"--default-listener-ip={host}", "--http-disable", "--log-level=warning"),
        f"--dynamic-sequential-min-port={nodes}",
        *(f"--proxy-{what}-buffer-size={buffers}" for what in ("request", "response") if buffers),
    ]
