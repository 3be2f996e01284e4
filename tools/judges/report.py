"""The stored results of the suites: docs/evidence/judges.json."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tools.judges.comparison import Attempt, Entry
from tools.judges.suite import ROOT, Outcome

STORED = ROOT / "docs" / "evidence" / "judges.json"

SHORT_S = 10.0
"""What the short form runs took no longer in its stored runs."""


class SuiteReport(msgspec.Struct, frozen=True):
    """Runs of a suite's tests at one commit of Epochgate, with the day of the last."""

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
    """Add the results of a run; those of the same tests before it go, and those of other versions of the suite."""
    ran = {attempt.test for attempt in newer.attempts}
    kept = []
    for one in older:
        if one.suite == newer.suite:
            left = tuple(attempt for attempt in one.attempts if attempt.test not in ran)
            if not left or (one.version, one.kafka) != (newer.version, newer.kafka):
                continue
            if one.commit == newer.commit:
                newer = msgspec.structs.replace(newer, attempts=(*left, *newer.attempts))
                continue
            kept.append(msgspec.structs.replace(one, attempts=left))
        else:
            kept.append(one)
    return tuple(sorted((*kept, newer), key=lambda one: (one.suite, one.date, one.commit)))


def short(jobs: Iterable[str], reports: Sequence[SuiteReport], suite: str) -> list[str]:
    """Return the jobs that were quick in all stored runs, and passed in all, straight and through Epochgate."""
    attempts = [
        attempt
        for one in reports
        if one.suite == suite
        for attempt in one.attempts
        if attempt.entry is not Entry.NATIVE and attempt.outcome is not Outcome.SKIPPED
    ]
    return [
        job
        for job in jobs
        if (of_job := [one for one in attempts if one.test == job or one.test.startswith(f"{job}/")])
        and all(one.outcome is Outcome.PASSED and one.seconds <= SHORT_S for one in of_job)
    ]


def write(reports: tuple[SuiteReport, ...], path: Path = STORED) -> None:
    """Write the results, an attempt a line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(reports), indent=1) + b"\n")


def commit() -> str:
    """Return the commit of this checkout, with a + if files differ from it, the stored results apart."""

    def git(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(("git", *command), cwd=ROOT, check=False, capture_output=True, text=True)

    name = git("rev-parse", "--short", "HEAD").stdout.strip()
    is_clean = git("diff", "--quiet", "HEAD", "--", ".", f":!{STORED.relative_to(ROOT)}").returncode == 0
    return name if is_clean else f"{name}+"
