"""Asks a Prometheus what the panels of a dashboard show, as Grafana does."""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

POINTS = 240
RATE_INTERVAL = "30s"
"""Grafana's `$__rate_interval` is four scrapes at least."""


class Line(NamedTuple):
    """One series: its name by the panel's legend, and its points, by time in seconds; one point if asked at once."""

    name: str
    points: tuple[tuple[float, float], ...]


class Prometheus:
    """A Prometheus at ``url``, of which the time between ``start`` and ``end`` is shown (seconds since 1970)."""

    def __init__(self, url: str, start: float, end: float) -> None:
        self._url = url
        self.start, self.end = start, end

    def lines(self, panel: Mapping[str, Any], variables: Mapping[str, str]) -> list[Line]:
        """Return all series of a panel, in the order of its targets."""
        return [line for target in panel.get("targets", ()) for line in self._lines(target, variables)]

    def _lines(self, target: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[Line]:
        expression = target["expr"].replace("$__rate_interval", RATE_INTERVAL)
        for name, value in variables.items():
            expression = expression.replace(f"${name}", value)
        if target.get("instant"):
            answered = self._get("query", query=expression, time=f"{self.end:.3f}")
        else:
            step = f"{max((self.end - self.start) / POINTS, 1):.3f}"
            answered = self._get(
                "query_range", query=expression, start=f"{self.start:.3f}", end=f"{self.end:.3f}", step=step
            )
        for one in answered:
            found = one.get("values") or [one["value"]]
            points = tuple((float(at), float(value)) for at, value in found if value != "NaN")
            if points:
                yield Line(_name(target.get("legendFormat", ""), one["metric"]), points)

    def _get(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=30) as answer:  # noqa: S310  loopback
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result


def _name(legend: str, labels: Mapping[str, str]) -> str:
    """Return the legend of a series; a label that it lacks is empty there."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend).strip()
