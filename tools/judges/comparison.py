"""Compares what became of each test straight at Kafka and through Epochgate."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from tools.judges.allowed import Allowed
from tools.judges.suite import Outcome


class Entry(StrEnum):
    """How the clients of a test get to the broker."""

    STRAIGHT = "straight"
    THROUGH = "through Epochgate"
    NATIVE = "straight, consumer protocol"


class Attempt(msgspec.Struct, frozen=True):
    """One run of one test by one entry."""

    suite: str
    test: str
    entry: Entry
    outcome: Outcome
    seconds: float
    reason: str = ""


class Verdict(StrEnum):
    """What the comparison of one test came to."""

    SAME = "same"
    """Through Epochgate it passes as often as straight, or more often."""
    ALLOWED = "allowed"
    """It passes less often, and the allow list says why that is no fault of Epochgate."""
    DIFFERS = "differs"
    """It passes less often, and nothing says why."""
    NOT_COMPARED = "not compared"
    """It ran by one of the two only, or passes straight never."""


class Count(msgspec.Struct, frozen=True):
    """How often a test ran, skipped runs apart, and how often it passed."""

    passed: int
    ran: int

    def __str__(self) -> str:
        return f"{self.passed} of {self.ran}" if self.ran else ""


class Row(msgspec.Struct, frozen=True):
    """The comparison of one test. ``reasons`` are those of its failures through Epochgate, each once."""

    suite: str
    test: str
    straight: Count
    through: Count
    native: Count
    verdict: Verdict
    reasons: tuple[str, ...]


def compare(attempts: Iterable[Attempt], allowed: Sequence[Allowed]) -> list[Row]:
    """Return a row for each test, in the order in which they ran first."""
    by_test: dict[tuple[str, str], list[Attempt]] = {}
    for one in attempts:
        by_test.setdefault((one.suite, one.test), []).append(one)
    return [_row(suite, test, of_test, allowed) for (suite, test), of_test in by_test.items()]


def unneeded(rows: Iterable[Row], allowed: Iterable[Allowed]) -> list[Allowed]:
    """Return the entries of the allow list whose test ran and does not differ."""
    same = {(row.suite, row.test) for row in rows if row.verdict is not Verdict.ALLOWED}
    return [one for one in allowed if (one.suite, one.test) in same]


def _row(suite: str, test: str, attempts: list[Attempt], allowed: Sequence[Allowed]) -> Row:
    straight, through, native = (_count(attempts, entry) for entry in Entry)
    failures = [one for one in attempts if one.entry is Entry.THROUGH and one.outcome is Outcome.FAILED]
    return Row(
        suite=suite,
        test=test,
        straight=straight,
        through=through,
        native=native,
        verdict=_verdict(straight, through, any((one.suite, one.test) == (suite, test) for one in allowed)),
        reasons=tuple(dict.fromkeys(one.reason for one in failures)),
    )


def _count(attempts: list[Attempt], entry: Entry) -> Count:
    outcomes = [one.outcome for one in attempts if one.entry is entry and one.outcome is not Outcome.SKIPPED]
    return Count(outcomes.count(Outcome.PASSED), len(outcomes))


def _verdict(straight: Count, through: Count, is_allowed: bool) -> Verdict:
    if not straight.passed or not through.ran:
        return Verdict.NOT_COMPARED
    if through.passed * straight.ran >= straight.passed * through.ran:
        return Verdict.SAME
    return Verdict.ALLOWED if is_allowed else Verdict.DIFFERS
