"""The result of a demo: the facts about both groups, and whether they pass."""

import msgspec

from proxy.demo.commands import Certificate
from proxy.demo.measures import Overlap, StepCost
from proxy.demo.plan import MEASURED, MOVE
from proxy.demo.records import ranges

_SHOWN = 80
MOVE_NAME = MEASURED[MOVE]


class GroupResult(msgspec.Struct, frozen=True, kw_only=True):
    """One group. ``types``, what the broker calls it, and ``costs`` have one entry for each measured step, in order."""

    title: str
    types: tuple[str, ...]
    distinct: int
    duplicates: int
    missing: tuple[int, ...]
    overlaps: tuple[Overlap, ...]
    costs: tuple[StepCost, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the demo. ``steps`` names the measured steps.

    ``is_silent`` says whether the move should go unnoticed. ``session_s`` is the broker's session timeout of members of
    the new protocol, None if it is not known. ``certificate`` is what ``epochgate verify`` says of the moved group, or
    why it says nothing.
    """

    produced: int
    is_silent: bool = True
    session_s: float | None = None
    steps: tuple[str, ...]
    groups: tuple[GroupResult, ...]
    certificate: Certificate | str = "no certificate"


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
    if (
        result.is_silent
        and (noticed := moved(result))
        and (noticed.callbacks or noticed.read_again or noticed.longest_s)
    ):
        found.append(f"the move was noticed: {describe_move(noticed)}")
    if isinstance(result.certificate, str) or not result.certificate.is_proven:
        found.append(f"epochgate verify: {result.certificate}")
    return found


def moved(result: Result) -> StepCost | None:
    """Return what the move cost the second group; None if it was not moved."""
    return result.groups[-1].costs[result.steps.index(MOVE_NAME)] if MOVE_NAME in result.steps else None


def describe_move(cost: StepCost) -> str:
    """Say what the consumers noticed of the move."""
    return (
        f"{cost.callbacks} callbacks, {cost.read_again} records read twice, "
        f"longest time without an owner {cost.longest_s:.2f} s"
    )


def _describe(overlap: Overlap) -> str:
    one, other = overlap.consumers
    return f"partition {overlap.partition} was held by {one} and {other} for {overlap.seconds:.3f} s"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
