"""What benchmarks recorded: JSON files in docs/evidence/, and the tables on pages that are made of them."""

import dataclasses
import datetime as dt
import fcntl
import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.markers import replaced

DOCS = Path(__file__).resolve().parents[1] / "docs"
EVIDENCE = DOCS / "evidence"

Entry = Mapping[str, Any]


@dataclasses.dataclass
class Recorded:
    """The entries of a file, and the part of a page that ``body`` makes of them.

    ``key`` sorts the entries; those with the same key are runs of the same, of which the last is kept.
    """

    file: Path
    page: Path
    marker: str
    key: Callable[[Entry], Any]
    body: Callable[[Sequence[Entry]], str]

    def read(self) -> list[Entry]:
        """Return the entries, in their order; none if there is no such file."""
        entries: list[Entry] = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else []
        return entries

    def keep(self, entry: Entry) -> None:
        """Put an entry in the place of the one with its key. Several processes may do so at once."""
        with self.file.open("a+", encoding="utf-8") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            opened.seek(0)
            kept = [one for one in json.loads(opened.read() or "[]") if self.key(one) != self.key(entry)]
            opened.truncate(0)
            opened.write(json.dumps(sorted([*kept, entry], key=self.key), indent=1) + "\n")

    def written(self, before: str, entries: Sequence[Entry]) -> str:
        """Return the page with the part that these entries make, or with a sentence that there is none yet."""
        return replaced(before, self.marker, self.body(entries) if entries else "No run is recorded yet.\n")


def one_by_one(
    title: Callable[[Entry], str], table: Callable[[Entry], str]
) -> Callable[[Sequence[Entry]], str]:
    """Return a ``body`` that has a title and a table for each entry."""
    return lambda entries: "\n".join(f"{title(entry)}\n\n{table(entry)}" for entry in entries)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def of_code(folder: Path) -> dict[str, str]:
    """Return what an entry says of the code that it measured: the commit of its checkout, and today's date (UTC)."""
    git = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, "date": dt.datetime.now(dt.UTC).date().isoformat()}


def newest_first(version: str) -> tuple[int, ...]:
    """Return a key that sorts versions of Kafka, the newest first."""
    return tuple(-int(part) for part in version.split("."))


def by_kafka(run: Entry) -> tuple[int, ...]:
    """Return the key of runs of which one is kept for each version of Kafka."""
    return newest_first(run["kafka"])


def title(run: Entry) -> str:
    """Say with what a run was measured, as the line above its table."""
    return (
        f"Kafka {run['kafka']}, commit `{run['commit']}`, {run['date']}, load average {run['load']:g}"
        f" (`{run['command']}`):"
    )
