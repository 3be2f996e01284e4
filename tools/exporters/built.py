"""Builds exporters of others in the versions and with the hashes that ``*/go.sum`` pins; `program` says where one is.

``python -m tools.exporters.built`` needs Go, and a way to fetch these modules. Tests that need them are skipped where
they have not been built: it takes minutes, and not every module proxy has them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tools.chart.binaries import NoGoError, find_go

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / "build" / "exporters"
MODULES = {
    "kafka_exporter": "github.com/danielqsj/kafka_exporter",
    "burrow": "github.com/linkedin/Burrow",
}
"""Program -> its module, whose root is the program's package."""


def program(name: str) -> Path | None:
    """Return the path of a program, if it has been built in the pinned version."""
    path = BUILT / f"{name}-{version(name)}"
    return path if path.exists() else None


def version(name: str) -> str:
    """Return the pinned version of a program."""
    module = re.escape(MODULES[name])
    pinned = re.search(
        rf"^\s*(?:require )?{module} v(\S+)", (HERE / name / "go.mod").read_text(), re.MULTILINE
    )
    if pinned is None:
        raise ValueError(f"go.mod does not name {MODULES[name]}")
    return pinned[1]


def build(name: str) -> None:
    """Build one program, unless it is there.

    :raises NoGoError: there is no Go, or the modules can't be fetched.
    """
    if program(name) is not None:
        return
    BUILT.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    target = BUILT / f"{name}-{version(name)}"
    done = subprocess.run(
        [str(find_go()), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), MODULES[name]],
        cwd=HERE / name,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise NoGoError(f"go build of {name} failed: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    try:
        for one in MODULES:
            print(f"== building {one} {version(one)}", flush=True)
            build(one)
    except NoGoError as reason:
        sys.exit(f"error: {reason}")
