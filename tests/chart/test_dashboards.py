"""The dashboards are what Grafana's own published types read: they lose nothing of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tools.chart import render

FILES = sorted((render.CHART / "files").glob("dashboard*.json"))
OF_PROMETHEUS = {"titleFormat", "step"}
"""Keys of an annotation that its data source reads, and that the types leave open."""


def lost(ours: Any, read: Any, at: str = "") -> Iterator[str]:
    """What the types did not keep, by its path."""
    if isinstance(ours, dict) and isinstance(read, dict):
        for key, value in ours.items():
            if key in read:
                yield from lost(value, read[key], f"{at}.{key}")
            elif not (at.startswith(".annotations") and key in OF_PROMETHEUS):
                yield f"{at}.{key}"
    elif isinstance(ours, list) and isinstance(read, list) and len(ours) == len(read):
        for number, (one, other) in enumerate(zip(ours, read, strict=True)):
            yield from lost(one, other, f"{at}[{number}]")
    elif ours != read:
        yield at


def unknown(dashboard: dict[str, Any]) -> list[str]:
    return list(lost(dashboard, json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_grafanas_types_know_all_of_it(file) -> None:
    assert unknown(json.loads(file.read_text())) == []


def test_a_key_that_grafana_does_not_know_is_found() -> None:
    dashboard = json.loads(FILES[0].read_text())
    dashboard["panels"][1]["fieldConfig"]["defaults"]["units"] = "s"
    assert unknown(dashboard) == [".panels[1].fieldConfig.defaults.units"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_panels_have_ids_of_their_own_and_places_that_do_not_overlap(file) -> None:
    panels = json.loads(file.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(x < 24 for x, _ in cells)
