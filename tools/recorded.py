"""Keeps what a benchmark recorded in a JSON file of docs/evidence/, one entry for each of its keys."""

import datetime as dt
import fcntl
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Entry = Mapping[str, Any]


def read(file: Path) -> list[Entry]:
    """Return the entries of the file, in their order; none if there is no such file."""
    entries: list[Entry] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return entries


def keep(file: Path, entry: Entry, key: Callable[[Entry], Any]) -> None:
    """Put an entry in the place of the one with its key, and sort all by it. Several processes may do so at once."""
    with file.open("a+", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        opened.seek(0)
        kept = [one for one in json.loads(opened.read() or "[]") if key(one) != key(entry)]
        opened.truncate(0)
        opened.write(json.dumps(sorted([*kept, entry], key=key), indent=1) + "\n")


def of_code(folder: Path) -> dict[str, str]:
    """Return what an entry says of the code that it measured: the commit of its checkout, and today's date (UTC)."""
    git = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, "date": dt.datetime.now(dt.UTC).date().isoformat()}


def newest_first(version: str) -> tuple[int, ...]:
    """Return a key that sorts versions of Kafka, the newest first."""
    return tuple(-int(part) for part in version.split("."))


def title(run: Entry) -> str:
    """Say with what a run was measured, as the line above its table."""
    return (
        f"Kafka {run['kafka']}, commit `{run['commit']}`, {run['date']}, load average {run['load']:g}"
        f" (`{run['command']}`):"
    )
