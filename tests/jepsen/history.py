"""Reads and sorts the files of a run (listed in tests/jepsen/arena.py)."""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from support.ownership import Event, Interval, Partition, intervals, read_log

DISTURBING = frozenset(
    {
        "kill proxy",
        "stop proxy",
        "freeze proxy",
        "cut log",
        "move client",
        "kill broker",
        "stop broker",
        "change policy",
        "stall",
    }
)
"""Faults that can cut a commit of any consumer, beside the end of the consumer itself."""

DISTURBING_ONE = frozenset({"freeze consumer", "told to move"})
"""Faults that can do so to the consumer that they hit. One that is told to move loses its membership, and what it has
read and not committed yet is read again."""

FROM_THE_COORDINATOR = frozenset({"committed", "assigned", "revoked"})
"""What a consumer says only after it has heard from its coordinator."""


@dataclass(frozen=True)
class Commit:
    """A commit of `offset` (which is one past the record), successful or failed."""

    client: str
    offset: int
    mono: int


@dataclass(frozen=True)
class Fault:
    """A fault injected at `mono`; `healed` is when its target had been restarted, if it had to be.

    `process` is the consumer process that it hit, if it hit one.
    """

    kind: str
    victim: str
    mono: int
    healed: int
    process: str | None = None


@dataclass(frozen=True)
class History:
    """The data of a run that a verdict is based on."""

    about: dict[str, Any]
    logs: dict[str, list[Event]]
    """By consumer process."""
    produced: dict[tuple[Partition, int], str]
    faults: list[Fault]

    @classmethod
    def read(cls, folder: Path) -> "History":
        """Read a folder. Raises OSError or ValueError if it does not contain a run."""
        about = json.loads((folder / "run.json").read_text())
        logs = {
            path.stem: read_log(path)
            for path in sorted(folder.glob("*.jsonl"))
            if path.stem not in {"produced", "faults"}
        }
        produced = {
            (Partition(about["topic"], line["partition"]), line["offset"]): line["value"]
            for line in _lines(folder / "produced.jsonl")
        }
        if not logs or not produced:
            raise ValueError(f"{folder} has no consumers or no records: nothing was shown")
        return cls(about, logs, produced, _faults(_lines(folder / "faults.jsonl")))

    @property
    def session_ns(self) -> int:
        """Return the session timeout of every client, in nanoseconds."""
        return int(self.about["session_timeout_ms"]) * 1_000_000

    @property
    def of_fleet(self) -> bool:
        """Return whether the proxies shared a member log."""
        return bool(self.about.get("fleet"))

    @cached_property
    def owned(self) -> dict[str, dict[Partition, list[Interval]]]:
        """Return the ownerships of each process, in order."""
        found: dict[str, dict[Partition, list[Interval]]] = {}
        for client, log in self.logs.items():
            mine = found[client] = defaultdict(list)
            for interval in sorted(intervals(log), key=lambda one: one.begin):
                mine[interval.partition].append(interval)
        return found

    def interval_of(self, client: str, partition: Partition, mono: int) -> Interval | None:
        """Return the ownership of a process at a moment; the one before, if it had ended by then."""
        mine = self.owned[client].get(partition, [])
        at = bisect_right([one.begin for one in mine], mono)
        return mine[at - 1] if at else None

    @cached_property
    def commits(self) -> dict[Partition, list[Commit]]:
        """Return commits that the broker accepted, by the time at which the client knew."""
        return self._commits("committed")

    @cached_property
    def failed_commits(self) -> dict[Partition, list[Commit]]:
        """Return commits that failed for the client."""
        return self._commits("commit_failed")

    def _commits(self, kind: str) -> dict[Partition, list[Commit]]:
        found: dict[Partition, list[Commit]] = defaultdict(list)
        for client, log in self.logs.items():
            for event in log:
                if event.kind == kind:
                    for topic, offsets in event.fields.get("offsets", {}).items():
                        for partition, offset in offsets.items():
                            at = Partition(topic, int(partition))
                            found[at].append(Commit(client, offset, event.mono))
        for commits in found.values():
            commits.sort(key=lambda commit: commit.mono)
        return found

    def committed_before(self, partition: Partition, mono: int) -> Commit | None:
        """Return the commit with the highest offset that was known to be accepted before this moment."""
        commits = self.commits.get(partition, [])
        before = commits[: bisect_left([commit.mono for commit in commits], mono)]
        return max(before, key=lambda commit: commit.offset, default=None)

    def disturbed(self, client: str, begin: int, end: int) -> Fault | None:
        """Return a fault that existed between `begin` and `end` and could interrupt this client's commit, or None."""
        for fault in self.faults:
            hits = fault.kind in DISTURBING or (fault.kind in DISTURBING_ONE and fault.process == client)
            if hits and fault.mono <= end and fault.healed >= begin:
                return fault
        return None


def _faults(lines: list[dict[str, Any]]) -> list[Fault]:
    found = []
    for number, line in enumerate(lines):
        if line["event"] == "healed":
            continue
        healed = next(
            (
                later["mono"]
                for later in lines[number + 1 :]
                if later["event"] == "healed" and later["victim"] == line["victim"]
            ),
            line["mono"],
        )
        found.append(Fault(line["event"], line["victim"], line["mono"], healed, line.get("process")))
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
