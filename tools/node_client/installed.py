"""Installs kafkajs as package-lock.json pins it; `command` returns how to run the driver."""

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
DRIVER = HERE / "driver.js"
PINNED = ("package.json", "package-lock.json")
BUILD = HERE.parents[1] / "build" / "node_client"


class NoNodeError(Exception):
    """The driver can't run; the message says what is missing."""


def ensure_installed() -> None:
    """Install the library, unless the pinned version is installed.

    :raises NoNodeError: there is no node or npm, or the library can't be fetched.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NoNodeError(f"there is no {program}: install Debian's packages `nodejs` and `npm`")
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it at once
        stamp = BUILD / ".installed"
        wanted = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in PINNED)).hexdigest()
        if not stamp.exists() or stamp.read_text() != wanted:
            _install()
            stamp.write_text(wanted)


def command() -> list[str]:
    """Return the command line of one client."""
    return ["env", f"NODE_PATH={BUILD / 'node_modules'}", "node", str(DRIVER)]


def version() -> str:
    """Return the pinned version of kafkajs."""
    pinned = json.loads((HERE / "package-lock.json").read_text())
    return str(pinned["packages"]["node_modules/kafkajs"]["version"])


def _install() -> None:
    print("== installing kafkajs (once)", flush=True)
    for name in PINNED:
        shutil.copyfile(HERE / name, BUILD / name)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(npm, cwd=BUILD, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoNodeError(f"npm ci failed: {done.stderr.strip()[-500:]}")
