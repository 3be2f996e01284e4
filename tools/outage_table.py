"""Writes what outages of brokers cost groups into docs/evidence/outages.md: ``python -m tools.recorded_tables``.

The outages are in docs/evidence/outages.json, where ``python -m benchmarks.outage --record`` puts them, one by one.
"""

import itertools
import math

from tools.recorded import EVIDENCE, Entry, Recorded, markdown, one_by_one

LATER_S = 3.0
"""So much later than straight at Kafka at most."""
_STRAIGHT = "straight"
_SCOPES = ("cluster", "coordinator", "log")


def title(outage: Entry) -> str:
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


def table(outage: Entry) -> str:
    """Return a row for each kind of client, the ways beside each other."""
    groups = outage["groups"]
    ways = list(dict.fromkeys(group["way"] for group in groups))
    rows = []
    for kind, found in itertools.groupby(groups, lambda group: group["kind"]):
        by_way = {group["way"]: group for group in found}
        rows.append([kind, *(_cell(by_way[way], by_way.get(_STRAIGHT)) for way in ways)])
    return markdown(["clients", *ways], rows)


def _cell(group: Entry, straight: Entry | None) -> str:
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


def _key(outage: Entry) -> tuple[int, float]:
    return (_SCOPES.index(outage["scope"]), outage["away_s"])


OUTAGES = Recorded(
    EVIDENCE / "outages.json", EVIDENCE / "outages.md", "outages", _key, one_by_one(title, table)
)
