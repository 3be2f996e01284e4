"""Draws the page's plots as SVG, with few colours."""

import html
import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.report.rows import Rows

COLOURS = ("#2f6f8f", "#c7803e", "#7a8f55", "#8a6d9b", "#a0a0a0", "#b5525c")
INK, GRID, EDGE = "#4a5560", "#e8ebee", "#b8bec4"
_OF_PAGE = {INK: "var(--soft)", GRID: "var(--line)", EDGE: "var(--line)"}
"""Colours that the page gives, since they differ in the dark."""
_STYLE: Any = {
    "svg.fonttype": "path",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": INK,
    "svg.hashsalt": "epochgate",  # the same picture for the same numbers
    "font.size": 9.0,
    "axes.edgecolor": EDGE,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
}
_NO_METADATA: Any = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_DAY_US = 86_400 * 1_000_000
_SIZE = (8.0, 2.7)
_SIZES_MS = (
    (1, "1 ms"),
    (10, "10 ms"),
    (100, "100 ms"),
    (1e3, "1 s"),
    (1e4, "10 s"),
    (1e5, "100 s"),
    (1e6, "17 min"),
)


def moved(rows: Rows, last_us: int) -> str:
    """Plot how many groups had moved by when."""
    figure, axes = _figure()
    if rows:
        times = [row["at_us"] / _DAY_US for row in rows]  # matplotlib counts dates in days since 1970
        counts = [row["groups"] for row in rows]
        end = max(last_us / _DAY_US, times[-1])
        axes.fill_between([*times, end], [*counts, counts[-1]], step="post", color=COLOURS[0], alpha=0.85)
        axes.set_ylim(bottom=0)
    axes.set_ylabel("groups moved")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _of_time(axes)
    return _svg(figure, "Groups whose first translated member had been seen, added up over time")


def fleet(rows: Rows) -> str:
    """Plot members by protocol over time."""
    names = {
        "translated_members": "translated",
        "classic_members": "classic, passing through",
        "consumer_members": "new protocol by themselves",
    }
    figure, axes = _figure()
    times = [row["at_us"] / _DAY_US for row in rows]
    series = {
        label: [row[name] for row in rows] for name, label in names.items() if any(row[name] for row in rows)
    }
    if series:
        axes.stackplot(
            times,
            list(series.values()),
            labels=list(series),
            colors=COLOURS,
            step="post",
            alpha=0.85,
        )
        _legend(axes)
    axes.set_ylabel("members seen")
    _of_time(axes)
    return _svg(figure, "Members seen over time, by how they take part in their groups")


def durations(rows: Rows, unit: str, label: str) -> str:
    """Plot histograms of durations, one for each kind, on a logarithmic scale; nothing for a single bar."""
    if len(rows) < 2:
        return ""
    figure, axes = _figure()
    kinds = sorted({row["by"] for row in rows})
    for kind, colour in zip(kinds, _endless(COLOURS, len(kinds)), strict=True):
        of_kind = [row for row in rows if row["by"] == kind]
        places, heights = [row["from_ms"] for row in of_kind], [row["count"] for row in of_kind]
        widths = [place * 0.5 for place in places]
        axes.bar(places, heights, widths, align="edge", color=colour, alpha=0.6, label=kind or "not known")
    axes.set_xscale("log")
    shown = [(place, text) for place, text in _SIZES_MS if place <= 10 * max(row["from_ms"] for row in rows)]
    axes.set_xticks([place for place, _ in shown], [text for _, text in shown])
    axes.minorticks_off()
    axes.set_ylabel(unit)
    _legend(axes)
    return _svg(figure, label)


def bars(labels: Sequence[str], heights: Sequence[float], unit: str, label: str) -> str:
    """Plot one bar for each label; nothing for a single one."""
    if len(labels) < 2:
        return ""
    figure, axes = _figure()
    axes.bar(range(len(labels)), heights, color=COLOURS[0], width=0.6)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_ylabel(unit)
    axes.grid(visible=False, axis="x")
    return _svg(figure, label)


def _figure() -> tuple[Figure, Axes]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes: Axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        return figure, axes


def _of_time(axes: Axes) -> None:
    """Make the horizontal axis one of dates, with few words."""
    axes.xaxis_date("UTC")
    where = AutoDateLocator(tz="UTC", minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(where)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(where, tz="UTC"))  # type: ignore[no-untyped-call]


def _legend(axes: Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _endless(colours: Sequence[str], count: int) -> list[str]:
    return [colours[number % len(colours)] for number in range(count)]


def _svg(figure: Figure, label: str) -> str:
    """Return the plot as an image that a screen reader calls by its label; the tables beside it have its numbers."""
    text = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([\w-]+)"', lambda found: found[0] if found[1] in used else "", svg)
    for colour, name in _OF_PAGE.items():
        svg = svg.replace(colour, name)
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1)
