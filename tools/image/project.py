"""Builds the project's image from its Dockerfile with podman."""

import subprocess
import time
import tomllib

from tools.image import packages
from tools.image.bases import MAVEN, PYTHON
from tools.image.paths import ROOT
from tools.image.podman import build_options, podman, podman_aloud

TARGETS = {"epochgate": ("epochgate", (PYTHON,)), "pipeline": ("epochgate-pipeline", (PYTHON, MAVEN))}
"""Of each target of the Dockerfile: the repository that the chart's values name, and its base images."""


def build(tag: str = "", target: str = "epochgate") -> str:
    """Build the image of a target of the Dockerfile from this tree, and return its name.

    :raises ImageError: podman or the base image can't be had, or the build fails.
    """
    packages.install(packages.NEEDED)
    repository, needed = TARGETS[target]
    name = f"docker.io/library/{repository}:{tag or _version()}"  # what `epochgate:0.1.0` means to a cluster
    images = {base.argument: base.image() for base in needed}
    began = time.monotonic()
    print(f"== building {name} on {', '.join(images.values())}", flush=True)
    podman_aloud(
        "build",
        *build_options(),
        f"--target={target}",
        f"--tag={name}",
        *(f"--build-arg={argument}={image}" for argument, image in images.items()),
        f"--build-arg=REVISION={_revision()}",
        str(ROOT),
    )
    size = int(podman("image", "inspect", "--format={{.Size}}", name))
    print(f"== built in {time.monotonic() - began:.0f} s, {size / 1e6:.0f} MB", flush=True)
    return name


def tag(name: str, other: str) -> None:
    """Give an image another name besides."""
    podman("tag", name, other)


def _version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def _revision() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"
