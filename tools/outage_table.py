"""Writes what outages of brokers cost groups into docs/evidence/outages.md: ``python -m tools.recorded_tables``.

The outages are in docs/evidence/outages.json, where ``python -m benchmarks.outage --record`` puts them, one by one.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import recorded
from tools.markers import replaced

_ROOT = Path(__file__).resolve().parents[1]
OUTAGES = _ROOT / "docs" / "evidence" / "outages.json"
PAGE = _ROOT / "docs" / "evidence" / "outages.md"
MARKER = "outages"
LATER_S = 3.0
"""So much later than straight at Kafka at most."""
_STRAIGHT = "straight"
_SCOPES = ("cluster", "coordinator", "log")

Outage = Mapping[str, Any]


def keep(outage: Outage) -> None:
    """Put an outage in the place of that of the same scope and duration."""
    recorded.keep(OUTAGES, outage, _key)


def read() -> list[Outage]:
    """Return the outages, in the order of the page."""
    return recorded.read(OUTAGES)


def page(before: str, outages: Sequence[Outage]) -> str:
    """Return the page with the tables of these outages."""
    return replaced(before, MARKER, "\n".join(f"{title(one)}\n\n{table(one)}" for one in outages))


def title(outage: Outage) -> str:
    """Say what was away, and what it was measured with."""
    what = {
        "cluster": "The whole cluster",
        "coordinator": "The coordinator",
        "log": "The log's partitions",
    }
    command = f"python -m benchmarks.outage --record --scope {outage['scope']} --away-s {outage['away_s']:g}"
    return (
        f"**{what[outage['scope']]} for {outage['away_s']:g} s**, back after {outage['away_for_s']:g} s "
        f"(`{command}`, Kafka {outage['kafka']}, commit `{outage['commit']}`, {outage['date']}, "
        f"load {outage['load']:g}):"
    )


def table(outage: Outage) -> str:
    """Return a row for each kind of client, the ways beside each other."""
    groups = outage["groups"]
    ways = list(dict.fromkeys(group["way"] for group in groups))
    lines = [["clients", *ways], ["---"] * (len(ways) + 1)]
    for kind, found in itertools.groupby(groups, lambda group: group["kind"]):
        by_way = {group["way"]: group for group in found}
        lines.append([kind, *(_cell(by_way[way], by_way.get(_STRAIGHT)) for way in ways)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(group: Mapping[str, Any], straight: Mapping[str, Any] | None) -> str:
    """Bold: what straight at Kafka does not have, or not so late."""
    bound = straight or group
    again = group["owners_again_s"]
    is_late = _seconds(again) > _seconds(bound["owners_again_s"]) + LATER_S
    parts = [_bold("never" if again is None else f"{again:.1f} s", is_late)]
    parts += [f"{group['rejoins']} rejoins", f"{group['read_twice']} twice"]
    for field in ("lost", "two_owners", "fatal"):
        if group[field]:
            parts.append(_bold(f"{group[field]} {field.replace('_', ' ')}", group[field] > bound[field]))
    return ", ".join(parts)


def _seconds(again: float | None) -> float:
    return math.inf if again is None else again


def _bold(text: str, yes: bool) -> str:
    return f"**{text}**" if yes else text


def _key(outage: Outage) -> tuple[int, float]:
    return (_SCOPES.index(outage["scope"]), outage["away_s"])
