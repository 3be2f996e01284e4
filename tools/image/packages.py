"""Installs the Debian packages that images need."""

import os
import shutil
import subprocess
from pathlib import Path

from tools.image.paths import ImageError

NEEDED = {
    "podman": "podman",
    "buildah": "buildah",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
}
"""What builds and runs an image, by the program that shows that it is there."""


def missing(wanted: dict[str, str]) -> list[str]:
    """Return the packages whose programs are not there."""
    return sorted({package for program, package in wanted.items() if not _is_there(program)})


def install(wanted: dict[str, str]) -> None:
    """Install what is missing, and say so.

    :raises ImageError: this is no root of a Debian, or apt-get fails.
    """
    if not (packages := missing(wanted)):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ImageError(f"not installed: {' '.join(packages)} (as root on Debian they would be)")
    print(f"== installing from Debian: {' '.join(packages)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
    for command in (["apt-get", "update", "-q"], install):
        done = subprocess.run(
            command, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            raise ImageError(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}")


def _is_there(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None
