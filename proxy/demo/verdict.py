"""The result of a demo: the facts about both groups, and whether they pass."""

import msgspec

from proxy.demo.kafka import BrokerView
from proxy.demo.measures import Overlap, StepCost
from proxy.demo.records import ranges

_SHOWN = 80


class GroupResult(msgspec.Struct, frozen=True, kw_only=True):
    """One group at the end. ``costs`` has one entry for each measured step, in order."""

    title: str
    expected_type: str
    broker: BrokerView
    distinct: int
    duplicates: int
    missing: tuple[int, ...]
    overlaps: tuple[Overlap, ...]
    costs: tuple[StepCost, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the demo. ``steps`` names the measured steps."""

    produced: int
    steps: tuple[str, ...]
    groups: tuple[GroupResult, ...]


def problems(result: Result) -> list[str]:
    """Return what is wrong, in words. An empty list means that the demo passed."""
    found = []
    if not result.produced:
        found.append("no record was produced, so the demo shows nothing")
    for group in result.groups:
        if group.missing:
            which = ranges(group.missing)
            found.append(f"{group.title}: {len(group.missing)} records were never read: {_short(which)}")
        found += [f"{group.title}: {_describe(overlap)}" for overlap in group.overlaps]
        if group.broker.type != group.expected_type:
            found.append(
                f"{group.title}: the broker reports a group of type {group.broker.type}, "
                f"not {group.expected_type}"
            )
    return found


def _describe(overlap: Overlap) -> str:
    one, other = overlap.consumers
    return f"partition {overlap.partition} was held by {one} and {other} for {overlap.seconds:.3f} s"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
