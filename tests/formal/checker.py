"""Runs TLC on a module, and reads what it says."""

import re
import shutil
import subprocess
from pathlib import Path

import msgspec

from tools.tla.jars import ensure_tlc

MODELS = Path(__file__).parent
_STATES = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found, 0 states left")
_DEPTH = re.compile(r"depth of the complete state graph search is (\d+)")
_VIOLATED = re.compile(
    r"Error: (?:Invariant (\w+)|Action property (.*?)|.*?\b(property)\b.*?) (?:is|was) violated"
)
_LAST = re.compile(r"^/\\ last = <<(.*)>>$", re.MULTILINE)
_HEAP = "-Xmx2g"


class TlcError(Exception):
    """TLC could not check a model: it has a mistake, or TLC gave up. The message is what TLC said."""


class Checked(msgspec.Struct, frozen=True):
    """What TLC found. ``violated`` is the property that does not hold, None if all do; ``story`` the steps to it."""

    distinct: int
    generated: int
    depth: int
    violated: str | None
    story: tuple[str, ...]


def check(module: Path, settings: str, folder: Path) -> Checked:
    """Explore all states of a module with these settings (the text of a ``.cfg``); ``folder`` is for TLC's files.

    :raises TlcError: TLC did not come to an end.
    :raises TlcUnavailableError: TLC can't be fetched.
    """
    for one in MODELS.glob("*.tla"):
        shutil.copy(one, folder)  # TLC looks for modules and settings beside each other only
    (folder / f"{module.stem}.cfg").write_text(settings)
    command = [
        "java", _HEAP, "-XX:+UseParallelGC", "-cp", str(ensure_tlc()), "tlc2.TLC",
        "-workers", "1", "-metadir", "states", module.stem,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    return read(done.stdout + done.stderr)


def read(said: str) -> Checked:
    """Read TLC's output. Raises TlcError if that is no result."""
    violated = _VIOLATED.search(said)
    states = _STATES.search(said)
    if violated is None and (states is None or "No error has been found" not in said):
        raise TlcError(said[-4000:])
    generated, distinct = (int(one.replace(",", "")) for one in states.groups()) if states else (0, 0)
    depth = _DEPTH.search(said)
    return Checked(
        distinct,
        generated,
        int(depth[1]) if depth else 0,
        next(filter(None, violated.groups())) if violated else None,
        tuple(one.replace('"', "") for one in _LAST.findall(said)),
    )
