"""The stored results of the suites: docs/evidence/judges.json."""

import subprocess
from pathlib import Path

import msgspec

from tools.judges.comparison import Attempt

STORED = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "judges.json"


class SuiteReport(msgspec.Struct, frozen=True):
    """All runs of one suite's tests, each with the commit and date of its newest run."""

    suite: str
    version: str
    kafka: str
    commit: str
    date: str
    attempts: tuple[Attempt, ...]


def stored(path: Path = STORED) -> tuple[SuiteReport, ...]:
    """Read the results in the repository."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[SuiteReport, ...]) if path.exists() else ()


def merged(older: tuple[SuiteReport, ...], newer: SuiteReport) -> tuple[SuiteReport, ...]:
    """Replace the results of the tests that ran; keep those of this suite's other tests only if it is all the same.

    The same is: the suite's version, Kafka's, and the commit of Epochgate.
    """
    before = next((one for one in older if one.suite == newer.suite), None)
    if before is not None and _of(before) == _of(newer):
        ran = {attempt.test for attempt in newer.attempts}
        kept = [one for one in before.attempts if one.test not in ran]
        newer = msgspec.structs.replace(newer, attempts=(*kept, *newer.attempts))
    others = [one for one in older if one.suite != newer.suite]
    return tuple(sorted((*others, newer), key=lambda one: one.suite))


def write(reports: tuple[SuiteReport, ...], path: Path = STORED) -> None:
    """Write the results, an attempt a line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(reports), indent=1) + b"\n")


def commit() -> str:
    """Return the commit of this checkout, with a + if files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(
        command, cwd=STORED.parent, check=True, capture_output=True, text=True
    ).stdout.strip()


def _of(report: SuiteReport) -> tuple[str, str, str]:
    return report.version, report.kafka, report.commit
