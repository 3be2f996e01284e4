"""Builds versitygw in the version and with the hashes that ``go.sum`` pins; `program` says where it is.

``python -m tools.s3_server.built`` needs Go, and a way to fetch its modules. Tests that need it are skipped where
it has not been built: it takes two minutes, and not every module proxy has it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tools.chart.binaries import NoGoError, find_go

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / "build" / "s3_server"
MODULE = "github.com/versity/versitygw"


def program() -> Path | None:
    """Return the path of the server, if it has been built in the pinned version."""
    path = _path()
    return path if path.exists() else None


def version() -> str:
    """Return the pinned version."""
    pinned = re.search(rf"^\s*{re.escape(MODULE)} v(\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    if pinned is None:
        raise ValueError(f"go.mod does not name {MODULE}")
    return pinned[1]


def build() -> None:
    """Build the server, unless it is there.

    :raises NoGoError: there is no Go, or the modules can't be fetched.
    """
    if program() is not None:
        return
    BUILT.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    fresh = _path().with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [
            str(find_go()),
            "build",
            "-trimpath",
            "-ldflags",
            "-s -w",
            "-o",
            str(fresh),
            f"{MODULE}/cmd/versitygw",
        ],
        cwd=HERE,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise NoGoError(f"go build of versitygw failed: {done.stderr.strip()[-500:]}")
    fresh.rename(_path())


def _path() -> Path:
    return BUILT / f"versitygw-{version()}"


if __name__ == "__main__":
    try:
        print(f"== building versitygw {version()}", flush=True)
        build()
    except NoGoError as reason:
        sys.exit(f"error: {reason}")
