"""podman, where root may raise no limits and no init system keeps its records."""

import os
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tools.image.paths import ImageError

# runc, since crun refuses cgroups v1 with controllers left in v2.
_ENGINE = ("podman", "--runtime=runc", "--cgroup-manager=cgroupfs", "--events-backend=none")


def podman(*words: str, feed: bytes | None = None) -> str:
    """Run it and return what it writes.

    :raises ImageError: it failed.
    """
    done = subprocess.run([*_ENGINE, *words], check=False, capture_output=True, input=feed)
    if done.returncode:
        raise ImageError(f"podman {words[0]} failed:\n{done.stderr.decode()[-1500:]}")
    return done.stdout.decode().strip()


def podman_aloud(*words: str) -> None:
    """Run it and let it tell its progress.

    :raises ImageError: it failed.
    """
    if subprocess.run([*_ENGINE, *words], check=False).returncode:
        raise ImageError(f"podman {words[0]} failed; see above")


def service(socket: Path, configuration: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start what serves Docker's API at a socket, with this ``containers.conf``, until it is terminated."""
    return subprocess.Popen(
        [*_ENGINE, "system", "service", "--time=0", f"unix://{socket}"],
        env={**os.environ, "CONTAINERS_CONF": str(configuration)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def succeeds(*words: str, timeout_s: float = 60) -> bool:
    """Tell whether it succeeds in time."""
    try:
        done = subprocess.run([*_ENGINE, *words], check=False, capture_output=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def build_options() -> Sequence[str]:
    """Return what every build has: Docker's format, which has HEALTHCHECK, and this machine's network."""
    return ["--quiet", "--network=host", "--format=docker", *limits(), *_authorities()]


def limits() -> Sequence[str]:
    """Return options for this process's own limits; podman's defaults are higher than some roots may set."""
    files, processes = (resource.getrlimit(of)[1] for of in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    processes = most if processes == resource.RLIM_INFINITY else min(processes, most)
    files = most if files == resource.RLIM_INFINITY else files
    return [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}"]


def _authorities() -> Sequence[str]:
    """Return options for this machine's certificate authorities, which its package index may need."""
    file = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
    return [f"--volume={file}:/etc/ssl/certs/ca-certificates.crt:ro"] if Path(file).exists() else []
