"""Builds the project's image from its Dockerfile with podman."""

import re
import subprocess
import time
from pathlib import Path

from tools.kubernetes import packages
from tools.kubernetes.paths import CACHE, ROOT, ClusterError
from tools.kubernetes.podman import authorities, limits, podman, podman_aloud, succeeds

_PULL_S = 120
_PYTHON_PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"


def build(tag: str = "") -> str:
    """Build the image of this tree and return its name.

    :raises ClusterError: podman or the base image can't be had, or the build fails.
    """
    packages.install(packages.IMAGE)
    name = f"docker.io/library/epochgate:{tag or _version()}"  # what `epochgate:0.1.0` means to a cluster
    base = _python()
    began = time.monotonic()
    print(f"== building {name} on {base}", flush=True)
    podman_aloud(
        "build",
        "--quiet",
        "--network=host",
        "--format=docker",
        "--target=epochgate",
        f"--tag={name}",
        f"--build-arg=PYTHON_IMAGE={base}",
        f"--build-arg=REVISION={_revision()}",
        *limits(),
        *authorities(),
        str(ROOT),
    )
    size = int(podman("image", "inspect", "--format={{.Size}}", name))
    print(f"== built in {time.monotonic() - began:.0f} s, {size / 1e6:.0f} MB", flush=True)
    return name


def _python() -> str:
    """Return the Dockerfile's base image if it can be had, else a stand-in for it."""
    wanted = _argument("PYTHON_IMAGE")
    full = f"docker.io/library/{wanted}"
    if succeeds("image", "exists", full) or succeeds("pull", "--quiet", full, timeout_s=_PULL_S):
        return full
    stand_in = f"localhost/epochgate-{wanted.replace(':', '-stand-in:')}"
    print(f"== {full} can't be pulled; {stand_in} with Debian's own Python takes its place", flush=True)
    if not succeeds("image", "exists", stand_in):
        archive = _debian(CACHE / "debian-python.tar")
        change = ["--change=ENV LANG=C.UTF-8", '--change=CMD ["python"]']
        podman("import", *change, str(archive), stand_in)
    return stand_in


def _debian(archive: Path) -> Path:
    """Make a small Debian with Python, once."""
    if archive.exists():
        return archive
    print("== making it from Debian's packages (a minute or two, once)", flush=True)
    began = time.monotonic()
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".new.tar")
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={_PYTHON_PACKAGES}",
        # Java's and other packages' scripts want this folder, which the exclusion below leaves out.
        '--setup-hook=mkdir -p "$1/usr/share/man/man1"',
        '--customize-hook=ln -s python3 "$1/usr/bin/python"',
        '--customize-hook=rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "bookworm",
        str(unfinished),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"mmdebstrap failed:\n{done.stderr[-1500:]}")
    unfinished.replace(archive)
    print(f"== made in {time.monotonic() - began:.0f} s, {archive.stat().st_size / 1e6:.0f} MB", flush=True)
    return archive


def _argument(name: str) -> str:
    """Return the default of an ARG of the Dockerfile."""
    return _found(rf"^ARG {name}=(\S+)", ROOT / "Dockerfile")


def _version() -> str:
    return _found(r'^version = "(.+)"', ROOT / "pyproject.toml")


def _found(pattern: str, file: Path) -> str:
    match = re.search(pattern, file.read_text(), re.MULTILINE)
    if match is None:
        raise ClusterError(f"{file} has no line {pattern}")
    return match[1]


def _revision() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"
