"""Prints a report for people: a table of groups, the reasons, and the violations."""

from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.rules.certificate import Certificate, Report, TwoOwners, Verdict
from pipeline.rules.classes import VIOLATION
from protocol_codecs.printable import printable

_STYLES = {Verdict.PROVEN: "green", Verdict.VIOLATED: "bold red", Verdict.UNPROVEN: "yellow"}
_SECOND_US = 1_000_000
_COLUMNS = ("GROUP", "VERDICT", "MEMBERS", "TWO OWNERS", "NO OWNER", "PAUSE P99", "COMMITS")


def show(report: Report) -> None:
    """Print a report to standard output. Names in it may be a client's, so control characters are escaped."""
    console = Console(highlight=False, soft_wrap=True)
    for line in _journal(report):
        console.print(Text(printable(line)))
    if report.certificates:
        table = Table(box=None, header_style="dim", pad_edge=False)
        for name in _COLUMNS:
            table.add_column(name, overflow="fold", no_wrap=name == "VERDICT")
        for one in report.certificates:
            table.add_row(*_row(one))
        Console(highlight=False).print(table)
    for one in report.certificates:
        for line in _reasons(one):
            console.print(Text(printable(line)))


def _journal(report: Report) -> list[str]:
    journal = report.journal
    counted = f"{journal.duplicates} twice, {journal.lost} lost, {journal.late} too late"
    read = f"{journal.events} events of {journal.processes} processes ({counted})"
    times = f"from {_time(journal.from_us)} to {_time(journal.until_us)}"
    lines = [
        f"{read}, {times}; clocks may differ by {_length(report.skew_us)}",
        *(f"quarantined {count}: {reason}" for reason, count in sorted(journal.quarantined.items())),
        *(f"not finished, not read: {name}" for name in journal.unfinished),
        *(
            f"clock of {one.ahead} is ahead of {one.behind}: accounts for overlaps up to {_length(one.explains_us)}"
            for one in report.clocks
        ),
    ]
    if report.not_judged:
        lines.append(f"not judged: {report.not_judged} groups whose members share partitions or have tasks")
    if not report.certificates:
        lines.append("no group to certify")
    return lines


def _row(one: Certificate) -> list[Text]:
    gaps = f"{one.gaps.count}, longest {_length(one.gaps.longest_us)}" if one.gaps.count else "never"
    violations = one.owners.overlaps.get(VIOLATION, 0)
    return [
        Text(printable(one.group)),
        Text(f"{one.verdict}{'?' if one.provisional else ''}", _STYLES[one.verdict]),
        Text(str(sum(one.members.values()))),
        Text(f"{violations} times" if violations else "never"),
        Text(gaps),
        Text(
            ", ".join(f"{protocol} {_length(times.p99_us)}" for protocol, times in one.pauses.items()) or "-"
        ),
        Text(_commits(one)),
    ]


def _commits(one: Certificate) -> str:
    if not one.commits.recorded:
        return "not recorded"
    return f"{sum(one.commits.refused.values())} refused, {one.commits.set_back} set back"


def _reasons(one: Certificate) -> list[str]:
    refused = sorted(one.commits.refused.items())
    found = [
        *one.why,
        *(f"may change: {text}" for text in one.pending),
        *map(_two_owners, one.owners.violations),
        *(f"{count} commits refused: {reason}" for reason, count in refused),
        *(
            f"{back.topic}-{back.partition} was set back from {back.before} to {back.offset} by {back.member} "
            f"at {_time(back.at_us)}"
            for back in one.commits.examples
        ),
    ]
    return [f"{one.group}: {text}" for text in found]


def _two_owners(two: TwoOwners) -> str:
    length = _length(two.until_us - two.from_us)
    return (
        f"{two.topic}-{two.partition} was owned by {two.first_member} and {two.second_member} for {length} from "
        f"{_time(two.from_us)} (events {two.first_event}, {two.second_event}, {two.until_event or 'no end'})"
    )


def _time(us: int) -> str:
    return (
        datetime.fromtimestamp(us / 1e6, UTC)
        .isoformat(sep=" ", timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _length(us: int) -> str:
    return f"{us / 1000:g} ms" if us < _SECOND_US else f"{us / _SECOND_US:.1f} s"
