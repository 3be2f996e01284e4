"""Draws panels as HTML with SVG, by what their JSON says: places, units, texts of values, thresholds, stacking.

It is not Grafana and does not look like it; each picture says so.
"""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tools.dashboard.answers import Line

CAPTION = (
    "Drawn by Epochgate (python -m tools.dashboard) from dashboard.json and the answers of a real Prometheus to its "
    "queries. It is not a picture of Grafana."
)
CELL_HEIGHT = 34
_WIDTH, _HEIGHT = 400, 150
_MOST_BARS = 10
_MOST_LEGENDS = 9
_COLOURS = 8
"""A line after the eighth has dashes, so that no two lines look alike."""
_SECOND_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"), (0.001, "ms"))

_STYLE = """\
:root { color-scheme: light dark; --paper: #f6f7f9; --card: #fff; --line: #d9dde3; --ink: #1c232b; --soft: #56606c;
  --good: #1a7f4b; --bad: #b3261e; --plain: #1f5fa8;
  --c0: #2563b0; --c1: #b35900; --c2: #1a7f4b; --c3: #8e3bb0; --c4: #b3261e; --c5: #0b7a83; --c6: #7a6a00;
  --c7: #5b6470; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161b; --card: #1b2128; --line: #323b46; --ink: #e6eaef;
  --soft: #a3adb8; --good: #5cc98f; --bad: #ff8a80; --plain: #7fb2ee;
  --c0: #7fb2ee; --c1: #f0a35e; --c2: #5cc98f; --c3: #cf9be6; --c4: #ff8a80; --c5: #5ccad3; --c6: #d7c65a;
  --c7: #aab4bf; } }
* { box-sizing: border-box; margin: 0; }
body { background: var(--paper); color: var(--ink); font: 13px/1.35 "DejaVu Sans", sans-serif; padding: 16px;
  width: 1440px; }
h1 { font-size: 20px; } .caption { color: var(--soft); margin: 4px 0 12px; }
main { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; }
h2 { font-size: 15px; align-self: end; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 8px 10px;
  overflow: hidden; display: flex; flex-direction: column; min-width: 0; }
h3 { font-size: 12.5px; font-weight: 600; }
.values { flex: 1; display: flex; gap: 18px; align-items: center; flex-wrap: wrap; }
.value { font-size: 26px; font-weight: 600; } .value.text { font-size: 14px; font-weight: 400; color: var(--soft); }
.value small { font-size: 12px; font-weight: 400; color: var(--soft); display: block; }
.good { color: var(--good); } .bad { color: var(--bad); } .plain { color: var(--plain); }
.chart { flex: 1; position: relative; min-height: 0; } svg { position: absolute; width: 100%; height: 100%; }
svg * { vector-effect: non-scaling-stroke; }
.chart span { position: absolute; color: var(--soft); font-size: 11px; line-height: 1; }
.axis { stroke: var(--line); }
ul { list-style: none; padding: 4px 0 0; display: flex; flex-wrap: wrap; gap: 0 12px; font-size: 11px;
  color: var(--soft); }
li::before { content: ""; display: inline-block; width: 14px; margin-right: 5px; vertical-align: middle;
  border-top: 3px solid var(--colour); } li.again::before { border-top-style: dashed; }
.bars { flex: 1; display: grid; grid-template-columns: minmax(0, 12em) 1fr auto; gap: 3px 8px; align-content: center;
  font-size: 12px; } .bar { background: var(--c0); border-radius: 2px; height: 12px; align-self: center; }
.none { color: var(--soft); margin: auto; }
"""


Draw = Callable[[Mapping[str, Any], Sequence[Line]], str]
"""Draws the inside of a panel."""


def page(
    title: str, panels: Sequence[tuple[Mapping[str, Any], Sequence[Line]]], time: tuple[float, float]
) -> str:
    """Return the page with these panels and what they show, of the ``time`` between two (seconds since 1970)."""
    drawn = "\n".join(_panel(panel, lines, time) for panel, lines in panels)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1><p class=caption>{html.escape(CAPTION)}</p>"
        f"<main>{drawn}</main></html>"
    )


def _panel(panel: Mapping[str, Any], lines: Sequence[Line], time: tuple[float, float]) -> str:
    at = panel["gridPos"]
    place = f"grid-column: {at['x'] + 1} / span {at['w']}"
    title = html.escape(panel["title"])
    if panel["type"] == "row":
        return f'<h2 style="grid-column: 1 / span 24; margin-top: 8px">{title}</h2>'
    kinds: dict[str, Draw] = {"stat": _stat, "bargauge": _bars, "timeseries": partial(_lines, time=time)}
    draw = kinds[panel["type"]]
    inside = draw(panel, _renamed(panel, lines)) if lines else '<p class="none">no data</p>'
    return f'<section style="{place}; height: {at["h"] * CELL_HEIGHT}px"><h3>{title}</h3>{inside}</section>'


def _renamed(panel: Mapping[str, Any], lines: Sequence[Line]) -> list[Line]:
    names = {
        override["matcher"]["options"]: one["value"]
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if override["matcher"]["id"] == "byName" and one["id"] == "displayName"
    }
    return [line._replace(name=names.get(line.name, line.name)) for line in lines]


def _stat(panel: Mapping[str, Any], lines: Sequence[Line]) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    shown = []
    for line in lines:
        value = line.points[-1][1]
        text = _text_of(defaults, value)
        name = f"<small>{html.escape(line.name)}</small>" if len(lines) > 1 else ""
        if text is not None:
            shown.append(f'<span class="value text">{html.escape(text)}</span>')
        else:
            shown.append(
                f'<span class="value {_class(defaults, value)}">{formatted(value, defaults["unit"])}{name}</span>'
            )
    return f'<div class="values">{"".join(shown)}</div>'


def _text_of(defaults: Mapping[str, Any], value: float) -> str | None:
    for mapping in defaults.get("mappings", ()):
        found = mapping["options"].get(f"{value:g}")
        if found is not None:
            text: str = found["text"]
            return text
    return None


def _class(defaults: Mapping[str, Any], value: float) -> str:
    steps = defaults.get("thresholds", {}).get("steps", ())
    colours = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return {"green": "good", "red": "bad"}.get(colours[-1] if colours else "", "plain")


def _bars(panel: Mapping[str, Any], lines: Sequence[Line]) -> str:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    most = max(line.points[-1][1] for line in lines) or 1
    rows = [
        f"<span>{html.escape(line.name)}</span>"
        f'<span class="bar" style="width: {100 * line.points[-1][1] / most:.1f}%"></span>'
        f"<span>{formatted(line.points[-1][1], unit)}</span>"
        for line in lines[:_MOST_BARS]
    ]
    if len(lines) > _MOST_BARS:
        rows.append(f"<span>and {len(lines) - _MOST_BARS} more</span><span></span><span></span>")
    return f'<div class="bars">{"".join(rows)}</div>'


def _lines(panel: Mapping[str, Any], lines: Sequence[Line], time: tuple[float, float]) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    stacks = defaults["custom"]["stacking"]["mode"] == "normal"
    drawn = _stacked(lines) if stacks else [(line, [0.0] * len(line.points)) for line in lines]
    begin, end = time
    top = _round_up(
        max(low + value for line, lows in drawn for (_, value), low in zip(line.points, lows, strict=True))
    )
    left, bottom = 44, _HEIGHT - 16

    def at(moment: float, value: float) -> str:
        across = left + (moment - begin) / (end - begin) * (_WIDTH - left - 4)
        return f"{across:.1f},{bottom - value / top * (bottom - 8):.1f}"

    shapes = []
    for number, (line, lows) in enumerate(drawn):
        colour = f"var(--c{number % _COLOURS})"
        upper = " ".join(
            at(moment, low + value) for (moment, value), low in zip(line.points, lows, strict=True)
        )
        if stacks:
            lower = " ".join(
                at(moment, low) for (moment, _), low in reversed(list(zip(line.points, lows, strict=True)))
            )
            shapes.append(f'<polygon points="{upper} {lower}" fill="{colour}" fill-opacity=".3"/>')
        dashes = ' stroke-dasharray="6 3"' if number >= _COLOURS else ""
        shapes.append(
            f'<polyline points="{upper}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>'
        )
    heights = [(share, bottom - share * (bottom - 8)) for share in (0, 0.5, 1)]
    grid = "".join(
        f'<line class="axis" x1="{left}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>' for _, y in heights
    )
    texts = "".join(  # outside of the SVG, which is stretched to its panel
        f'<span style="right: {100 - 100 * (left - 5) / _WIDTH:.1f}%; top: calc({100 * y / _HEIGHT:.1f}% - 6px)">'
        f"{formatted(top * share, defaults['unit'])}</span>"
        for share, y in heights
    )
    minutes = (end - begin) / 60
    legend = "".join(
        f'<li{" class=again" if number >= _COLOURS else ""} style="--colour: var(--c{number % _COLOURS})">'
        f"{html.escape(line.name or panel['title'])}</li>"
        for number, (line, _) in enumerate(drawn[:_MOST_LEGENDS])
    )
    more = f"<li>and {len(drawn) - _MOST_LEGENDS} more</li>" if len(drawn) > _MOST_LEGENDS else ""
    return (
        f'<div class="chart"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'{grid}{"".join(shapes)}</svg>{texts}<span style="left: {100 * left / _WIDTH:.0f}%; bottom: 0">'
        f'-{minutes:.0f} min</span><span style="right: 1%; bottom: 0">now</span></div><ul>{legend}{more}</ul>'
    )


def _stacked(lines: Sequence[Line]) -> list[tuple[Line, list[float]]]:
    """Return each line with what lies below it, by time."""
    below: dict[float, float] = {}
    found = []
    for line in lines:
        found.append((line, [below.get(moment, 0.0) for moment, _ in line.points]))
        for moment, value in line.points:
            below[moment] = below.get(moment, 0.0) + value
    return found


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(nice * size for nice in (1, 2, 2.5, 5, 10) if value <= nice * size * 1.0001)


def formatted(value: float, unit: str) -> str:
    """Return a value in the unit of a panel."""
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    if unit == "s":
        if not value:
            return "0 s"
        size, name = next((one for one in _SECOND_UNITS if value >= one[0]), _SECOND_UNITS[-1])
        return f"{value / size:.3g} {name}"
    return next(_short(value))


def _short(value: float) -> Iterator[str]:
    for size, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            yield f"{value / size:.3g}{name}"
    yield f"{value:.3g}"
