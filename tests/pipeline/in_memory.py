"""The audit's going through the groups without Spark: a whole journal in memory."""

import json
from typing import Any

from pipeline.rules.events import Event
from pipeline.rules.findings import Gap, Overlap
from pipeline.rules.ownership import GroupOwnership


def found(events: list[dict[str, Any]], skew_us: int) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Overlaps (without their class) and gaps, as the checker writes them."""
    overlaps, gaps = set(), set()
    for group, one in through(events, skew_us):
        if isinstance(one, Overlap):
            overlaps.add(
                (group, *one.partition, one.first.member, one.second.member, one.from_us, one.until_us)
            )
        elif isinstance(one, Gap):
            gaps.add((group, *one.partition, one.from_us, one.until_us))
    return overlaps, gaps


def through(events: list[dict[str, Any]], skew_us: int) -> list[tuple[str, Any]]:
    """(group, finding) of events in order."""
    last_us: dict[tuple[str, str], int] = {}
    by_group: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        last_us[event["replica"], event["boot"]] = event["time_us"]
        by_group.setdefault(event["group"], []).append(event)
    found = []
    for group, of_group in by_group.items():
        ownership = GroupOwnership(last_us, skew_us)
        for event in of_group:
            owned = None if event["owned"] is None else json.dumps(event["owned"])
            fields = {name: event[name] for name in Event._fields} | {"owned": owned}
            found += [(group, one) for one in ownership.take(Event(**fields))]
        found += [(group, one) for one in ownership.end()]
    return found
