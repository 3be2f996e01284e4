"""Renders figures and plots into the HTML page."""

import datetime as dt
from pathlib import Path
from typing import Any

import jinja2

from pipeline.readiness.output import NOT_READY
from pipeline.report import plots
from pipeline.report.facts import Audit, Progress, Readiness
from pipeline.rules.classes import VIOLATION
from protocol_codecs.printable import printable

_PAGE = Path(__file__).with_name("page.html")


def rendered(
    readiness: Readiness | None,
    progress: Progress | None,
    audit: Audit | None,
    *,
    done_waves: int = 0,
) -> str:
    """Return the page; parts that are None are left out. ``done_waves`` have been moved already."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, finalize=_shown)
    environment.filters |= {"ms": milliseconds, "number": number, "when": when}
    told: dict[str, Any] = {"readiness": readiness, "progress": progress, "audit": audit, "plots": {}}
    told["others_here"] = _others_here(readiness, progress)
    if readiness is not None:
        told |= _of_readiness(readiness, done_waves)
        told["plots"]["waves"] = plots.bars(
            [str(row["wave"]) for row in readiness.waves],
            [row["groups"] for row in readiness.waves],
            "groups",
        )
    if progress is not None:
        told["plots"] |= {
            "fleet": plots.fleet(progress.fleet),
            "pauses": plots.durations(progress.pauses, "pauses"),
        }
    if audit is not None:
        told["plots"]["gaps"] = plots.durations(audit.gaps, "gaps")
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


def when(time_us: int) -> str:
    """Format a time, to the millisecond."""
    return dt.datetime.fromtimestamp(time_us / 1e6, dt.UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]
