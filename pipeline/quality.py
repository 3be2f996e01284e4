"""Checks what a job has read and found, and gives each check a verdict: a table beside the job's own."""

from typing import TYPE_CHECKING, NamedTuple

from pipeline.tables import LONG, TEXT, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GOOD, LOOK, BAD = "good", "look", "bad"

QUALITY = Table(
    "quality",
    "Checks of what was read, each with a verdict: whether the other tables can be relied on.",
    (
        Column("check", TEXT, "the check's name"),
        Column("value", LONG, "what was counted or measured"),
        Column("good_until", LONG, f"up to this value the verdict is `{GOOD}`; null: any value is"),
        Column(
            "verdict",
            TEXT,
            f"`{GOOD}`; `{LOOK}`: somebody should know the cause; `{BAD}`: the tables are not complete",
        ),
        Column("meaning", TEXT, "what the value is, and what follows from a larger one"),
    ),
)

_PERCENT = 100
_MANY_DUPLICATES, _MANY_QUARANTINED, _LARGE_SHARE = 10, 1, 50
"""Percent."""


class Check(NamedTuple):
    """A row of the table."""

    check: str
    value: int
    good_until: int | None
    verdict: str
    meaning: str


class OfAudit(NamedTuple):
    """What the checks of an audit are made of. Times are in microseconds."""

    events: int
    duplicates: int
    lost: int
    quarantined: int
    unknown_versions: int
    skew_us: int
    clocks_apart_us: int
    unproven: int
    in_losses: int
    largest_group_percent: int


def of_audit(seen: OfAudit) -> list[Check]:
    """Return the checks of an audit."""
    return [
        _something("events", seen.events, "events that were read, each once; none: the journal is elsewhere"),
        _quarantined(seen.quarantined, seen.events + seen.duplicates),
        _none("unknown_versions", seen.unknown_versions, BAD,
              "lines of a version of the journal that this one does not know: a newer proxy wrote them"),
        _none("lost_events", seen.lost, LOOK, "events that were written and are not here; see the table losses"),
        _at_most("duplicate_percent", _percent(seen.duplicates, seen.events), _MANY_DUPLICATES, LOOK,
                 "lines that repeat an event, a hundredth of the events each; they count once"),
        _at_most("clocks_apart_us", seen.clocks_apart_us, seen.skew_us, LOOK,
                 "how far two clocks are shown to differ, microseconds; beyond the allowed skew overlaps are not told "
                 "from handovers"),
        _none("unproven_overlaps", seen.unproven, LOOK,
              "overlaps of which the journal would not tell whether they are violations"),
        _none("overlaps_in_losses", seen.in_losses, LOOK, "overlaps that lost events may explain"),
        _at_most("largest_group_percent", seen.largest_group_percent, _LARGE_SHARE, LOOK,
                 "the largest group's share of all ownerships: one task works on it while the others wait"),
    ]  # fmt: skip


def of_readiness(groups: int, quarantine: "DataFrame") -> list[Check]:
    """Return the checks of readiness: superseded records that can't be read do no harm, the others do."""
    superseded, held = 0, 0
    for row in quarantine.groupBy("superseded").count().collect():
        if row["superseded"]:
            superseded += row["count"]
        else:
            held += row["count"]
    return [
        _something("groups", groups, "groups that were read; none: the capture is empty or no group ever committed"),
        _none("quarantined", held, BAD, "newest records of a key that can't be read: what they say is missing"),
        Check("superseded_quarantined", superseded, None, GOOD,
              "unreadable records of which a newer one was read instead"),
    ]  # fmt: skip


def _something(name: str, value: int, meaning: str) -> Check:
    return Check(name, value, None, GOOD if value else BAD, meaning)


def _none(name: str, value: int, otherwise: str, meaning: str) -> Check:
    return _at_most(name, value, 0, otherwise, meaning)


def _at_most(name: str, value: int, good_until: int, otherwise: str, meaning: str) -> Check:
    return Check(name, value, good_until, GOOD if value <= good_until else otherwise, meaning)


def _quarantined(lines: int, readable: int) -> Check:
    meaning = "lines that could not be read; see the table quarantine"
    share = _percent(lines, lines + readable)
    return _none("quarantined", lines, BAD if share >= _MANY_QUARANTINED else LOOK, meaning)


def _percent(part: int, whole: int) -> int:
    return part * _PERCENT // whole if whole else 0
