"""The Dockerfile's base images, and what takes their place where no registry can be reached: a small Debian."""

import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.image.paths import CACHE, ROOT, ImageError
from tools.image.podman import podman, succeeds

_PULL_S = 60
_CACERTS = Path("/etc/ssl/certs/java/cacerts")


@dataclass(frozen=True)
class Base:
    """A base image by the Dockerfile's argument, and of what its stand-in is made."""

    argument: str
    packages: str
    hooks: Sequence[str]

    @property
    def wanted(self) -> str:
        """Return the image that the Dockerfile names."""
        match = re.search(rf"^ARG {self.argument}=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        if match is None:
            raise ImageError(f"the Dockerfile has no ARG {self.argument} with a default")
        return f"docker.io/library/{match[1]}"

    def image(self) -> str:
        """Return the image that the Dockerfile names if it can be had, else the stand-in for it.

        :raises ImageError: neither can be had.
        """
        wanted = self.wanted
        if succeeds("image", "exists", wanted) or succeeds("pull", "--quiet", wanted, timeout_s=_PULL_S):
            return wanted
        name, _, tag = wanted.rpartition("/")[2].partition("@")[0].partition(":")
        stand_in = f"localhost/epochgate-{name}-stand-in:{tag}"
        print(f"== {wanted} can't be pulled; {stand_in} of Debian's packages takes its place", flush=True)
        if not succeeds("image", "exists", stand_in):
            changes = ["--change=ENV LANG=C.UTF-8", '--change=CMD ["bash"]']
            podman("import", *changes, str(self._debian(CACHE / f"debian-{name}.tar")), stand_in)
        return stand_in

    def _debian(self, archive: Path) -> Path:
        """Make the Debian, once."""
        if archive.exists():
            return archive
        print("== making it (a minute or two, once)", flush=True)
        began = time.monotonic()
        archive.parent.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(".new.tar")
        command = [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={self.packages}",
            # Java's scripts want this folder, which the exclusion below leaves out.
            '--setup-hook=mkdir -p "$1/usr/share/man/man1"',
            *(f"--customize-hook={hook}" for hook in self.hooks),
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            "bookworm",
            str(unfinished),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise ImageError(f"mmdebstrap failed:\n{done.stderr[-1500:]}")
        unfinished.replace(archive)
        size_mb = archive.stat().st_size / 1e6
        print(f"== made in {time.monotonic() - began:.0f} s, {size_mb:.0f} MB", flush=True)
        return archive


PYTHON = Base(
    "PYTHON_IMAGE",
    "python3,python3-pip,python3-venv,ca-certificates",
    ['ln -s python3 "$1/usr/bin/python"', 'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED'],
)
MAVEN = Base(
    "MAVEN_IMAGE",
    "maven,openjdk-17-jre-headless,ca-certificates,ca-certificates-java",
    # This machine's authorities, as Java keeps them. The stage that uses them hands on only jars.
    [f"copy-in {_CACERTS} {_CACERTS.parent}"] if _CACERTS.exists() else [],
)
