"""podman as an engine with Docker's API, for programs such as testcontainers that know no other."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tools.image.paths import ImageError
from tools.image.podman import limits, podman, service

_START_S = 30


def why_not() -> str | None:
    """Return why this kernel or user can run no container, as an attempt shows it; None if it can."""
    if os.geteuid() != 0:
        return "podman without root is not supported here"
    try:
        podman("run", "--rm", *limits(), "--rootfs", "/:O", "true")  # needs no image
    except ImageError as reason:
        return f"podman can run no container here: {str(reason).splitlines()[-1][:200]}"
    return None


@contextlib.contextmanager
def docker_api(folder: Path) -> Iterator[str]:
    """Serve Docker's API on a Unix socket in this folder, and yield its URL, which is meant for ``DOCKER_HOST``.

    Containers outlive it; who starts one stops it.

    :raises ImageError: it does not start in time.
    """
    configuration, socket = folder / "containers.conf", folder / "podman.sock"
    # The API has no limits of its own, and podman's are higher than some roots may set.
    ulimits = ", ".join(f'"{one.removeprefix("--ulimit=")}"' for one in limits())
    configuration.write_text(f"[containers]\ndefault_ulimits = [{ulimits}]\n")
    log = folder / "podman.log"
    with log.open("wb") as output, service(socket, configuration, output) as process:
        deadline = time.monotonic() + _START_S
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise ImageError(f"podman's service does not start:\n{log.read_text()[-1500:]}")
            time.sleep(0.05)
        try:
            yield f"unix://{socket}"
        finally:
            process.terminate()
