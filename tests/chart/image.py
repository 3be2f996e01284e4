"""The image without an engine: the Dockerfile's own commands, run on this machine in folders of their own.

``COPY`` copies what .dockerignore lets through, ``RUN`` is run by a shell as it stands, ``ARG`` and ``ENV`` are its
environment.
Not what the base image brings, and nothing is mounted: build caches are this machine's.
"""

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.chart.binaries import ROOT

DOCKERFILE = ROOT / "Dockerfile"
_FLAG = re.compile(r"^(--\S+\s+)+")


class ImageError(Exception):
    """A command of the Dockerfile failed; the message is its last words."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of the Dockerfile, with its flags apart."""

    name: str
    flags: str
    text: str


@dataclass(frozen=True)
class Image:
    """What was installed: the virtual environment of the last stage."""

    prefix: Path

    def environment(self, **more: str) -> dict[str, str]:
        """What a container's process has, and nothing of this machine's."""
        return {
            **more,
            "PATH": f"{self.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
            **_env("base", without="PATH"),
        }

    @property
    def site_packages(self) -> Path:
        """Where the packages are."""
        (found,) = self.prefix.glob("lib/python3*/site-packages")
        return found


def stage(name: str) -> list[Instruction]:
    """The instructions of one stage of the Dockerfile."""
    found: list[Instruction] = []
    inside = False
    for instruction in instructions():
        if instruction.name == "FROM":
            inside = instruction.text.split()[-1] == name
        elif inside:
            found.append(instruction)
    assert found, f"no stage {name}"
    return found


def instructions() -> Iterator[Instruction]:
    """All instructions in order, each on one line."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, text = line.strip().partition(" ")
            flags = _FLAG.match(text.strip())
            yield Instruction(name, flags[0] if flags else "", _FLAG.sub("", text.strip()))


def installed(folder: Path) -> Image:
    """The image as this tree makes it; made once for each state of the tree.

    :raises ImageError: a command failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it at once
        place = folder / _fingerprint()
        if not (place / "done").exists():
            for old in folder.glob("*/"):
                shutil.rmtree(old)
            _build(place)
            (place / "done").touch()
    return Image(place / "opt")


def context() -> list[Path]:
    """The files that .dockerignore lets into the build, relative to the root."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert rules[0] == "*", "everything is out unless it is named"
    named = [rule[1:].rstrip("/") for rule in rules if rule.startswith("!")]
    out = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]
    files = (
        path
        for name in named
        for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
    )
    inside = (path.relative_to(ROOT) for path in files if path.is_file())
    return sorted(at for at in inside if not any(Path(part).match(rule) for part in at.parts for rule in out))


def _build(place: Path) -> None:
    source = place / "src"
    source.mkdir(parents=True)
    environment = {**os.environ, **_env("build"), "WHEELS": f"{place}/wheels", "PREFIX": f"{place}/opt"}
    environment.pop("VIRTUAL_ENV", None)
    for instruction in stage("build"):
        if instruction.name == "COPY":
            _copy(shlex.split(instruction.text), source)
        elif instruction.name == "RUN":
            command = instruction.text.replace("/tmp/build", f"{place}/build")  # noqa: S108  the Dockerfile's own
            _run(command, source, environment)


def _run(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise ImageError(
            f"the Dockerfile's command failed: {command}\n{done.stdout[-500:]}\n{done.stderr[-1500:]}"
        )


def _copy(words: list[str], source: Path) -> None:
    *names, target = words
    for name in names:
        files = [at for at in context() if at == Path(name) or Path(name) in at.parents]
        assert files, f"COPY {name}: nothing of it is in the build context"
        for at in files:
            inside = at.name if at == Path(name) else str(at.relative_to(name))
            place = source / target / inside
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / at, place)


def _env(name: str, without: str = "") -> dict[str, str]:
    words = [word for one in stage(name) if one.name == "ENV" for word in shlex.split(one.text)]
    pairs = (word.split("=", 1) for word in words)
    return {key: value for key, value in pairs if key != without}


def _fingerprint() -> str:
    digest = hashlib.sha256(DOCKERFILE.read_bytes())
    for at in context():
        digest.update(str(at).encode() + b"\0" + (ROOT / at).read_bytes())
    return digest.hexdigest()[:16]
