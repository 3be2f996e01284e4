"""Renders figures and plots into the HTML page."""

import datetime as dt
from pathlib import Path
from typing import Any

import jinja2

from pipeline.readiness.output import NOT_READY
from pipeline.report import plots
from pipeline.report.facts import Audit, Progress, Readiness
from pipeline.report.left import Left
from pipeline.report.move import BACK, BY_ITSELF, MOVED, MOVING, NOT_BEGUN
from pipeline.report.rebalances import Gained
from pipeline.rules.classes import VIOLATION
from pipeline.rules.gains import ENOUGH
from pipeline.rules.gains import MOVING as ITSELF
from protocol_codecs.printable import printable

_PAGE = Path(__file__).with_name("page.html")


def rendered(
    readiness: Readiness | None,
    progress: Progress | None,
    audit: Audit | None,
    left: Left | None = None,
    *,
    done_waves: int = 0,
) -> str:
    """Return the page; parts that are None are left out. ``done_waves`` have been moved already."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, finalize=_shown)
    environment.filters |= {"ms": milliseconds, "number": number, "when": when, "counted": counted}
    environment.globals["plural"] = plural
    told: dict[str, Any] = {
        "readiness": readiness,
        "progress": progress,
        "audit": audit,
        "left": left,
        "plots": {},
    }
    told |= {"ENOUGH": ENOUGH, "ITSELF": ITSELF, "KIND_WORDS": _KIND_WORDS}
    told["headline"] = headline(progress, audit, left)
    told["others_here"] = _others_here(readiness, progress)
    if readiness is not None:
        told |= _of_readiness(readiness, done_waves)
        told["plots"]["waves"] = plots.bars(
            [str(row["wave"]) for row in readiness.waves],
            [row["groups"] for row in readiness.waves],
            "groups",
            "Groups in each wave",
        )
    if progress is not None:
        told["comparison"] = comparison(progress.move.gained)
        told["plots"] |= {
            "moved": plots.moved(progress.move.moved_at, progress.move.last_us),
            "fleet": plots.fleet(progress.fleet),
            "pauses": plots.durations(
                progress.pauses, "pauses", "How many pauses lasted how long, by when they were"
            ),
        }
    if audit is not None:
        told["plots"]["gaps"] = plots.durations(
            audit.gaps, "gaps", "How many gaps lasted how long, by what began them"
        )
        told["violations"] = audit.overlaps.get(VIOLATION, 0)
        told["others"] = {name: count for name, count in audit.overlaps.items() if name != VIOLATION}
    written = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return environment.from_string(_PAGE.read_text(encoding="utf-8")).render(written=written, **told)


def _shown(value: object) -> object:
    """Escape control characters in clients' text, and keep our own markup."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _others_here(readiness: Readiness | None, progress: Progress | None) -> int:
    """Return how many groups have nothing to move to: those of the journal, or else those that readiness found."""
    rows = (
        progress.others.totals if progress is not None else readiness.others if readiness is not None else []
    )
    return sum(row["groups"] for row in rows)


def _of_readiness(readiness: Readiness, done_waves: int) -> dict[str, Any]:
    blocked = sum(row["count"] for row in readiness.verdicts if row["verdict"] == NOT_READY)
    left = [row for row in readiness.waves if row["wave"] > done_waves]
    return {
        "ready": sum(row["groups"] for row in readiness.waves),
        "blocked": blocked,
        "next_wave": left[0] if left else None,
    }


def headline(progress: Progress | None, audit: Audit | None, left: Left | None) -> list[str]:
    """Return what a reader who reads nothing else should know, a sentence each."""
    found = []
    if progress is not None and (states := progress.move.states):
        total = sum(states.values())
        counts = [f"{number(count)} {_WORDS[state][count != 1]}" for state, count in states.items()]
        found.append(f"Of {counted(total, 'group')} in the journal {_listed(counts)}.")
    if progress is not None and progress.move.gained.kinds:
        found.append(comparison(progress.move.gained))
    if left is not None:
        blocked = sum(row["count"] for row in left.counts if row["verdict"] == NOT_READY)
        can = sum(row["count"] for row in left.counts) - blocked
        are = "is" if can == 1 else "are"
        found.append(
            f"Left {are} {counted(can, 'group')} that can move, and {number(blocked)} that can't yet."
        )
    if audit is not None:
        found.append(_proof(audit))
    return found


_WORDS = {
    MOVED: ("has moved", "have moved"),
    MOVING: ("is moving", "are moving"),
    BACK: ("has moved back", "have moved back"),
    BY_ITSELF: ("speaks the new protocol by itself", "speak the new protocol by themselves"),
    NOT_BEGUN: ("has not begun", "have not begun"),
}
_KIND_WORDS = {
    "join": "clients joined",
    "leave": "clients left",
    "kill": "a client's session ended",
    "deploy": "clients left and joined (a deploy)",
    "other": "no client joined or left",
}


def comparison(gained: Gained) -> str:
    """Return in a sentence whether rebalances stop clients for less time than before the move."""
    counts = gained.compared
    total = sum(counts.values())
    enough = total - counts["too_few"]
    if not enough:
        return "There are not enough rebalances of one kind before and after a move to say what was gained."
    return (
        f"Rebalances of one kind in one group stop its clients for less time than before the move in "
        f"{number(counts['shorter'])} of {counted(enough, 'case')}, for longer in {number(counts['longer'])}, and for "
        f"about as long in {number(counts['same'])}; in {number(counts['too_few'])} more there is not enough to say."
    )


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _proof(audit: Audit) -> str:
    violations = audit.overlaps.get(VIOLATION, 0)
    if violations:
        return f"A partition was owned by two members at once: {counted(violations, 'time')}."
    open_ends = audit.totals["lost"] or audit.unfinished or audit.quarantined or sum(audit.overlaps.values())
    but = ", as far as the journal tells: see what it rests on" if open_ends else ""
    return f"No partition was found to be owned by two members at once{but}."


def milliseconds(value: float | None) -> str:
    """Format a duration in a suitable unit."""
    if value is None:
        return ""
    if value < 1000:
        return f"{value:.0f} ms" if value >= 10 or value == 0 else f"{value:.2f} ms"
    seconds = value / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def number(value: int) -> str:
    """Format a count with spaces between thousands."""
    return f"{value:,}".replace(",", " ")


def plural(value: int, one: str, many: str = "") -> str:
    """Return the word for this many."""
    return one if value == 1 else many or f"{one}s"


def counted(value: int, one: str, many: str = "") -> str:
    """Format a count with its word."""
    return f"{number(value)} {plural(value, one, many)}"


def when(time_us: int) -> str:
    """Format a time, to the millisecond."""
    return dt.datetime.fromtimestamp(time_us / 1e6, dt.UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]
