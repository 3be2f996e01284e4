"""What clients went through while replicas were replaced, by phase, protocol and library, by what clients said."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from support.broker import Record
from support.consumers import REBALANCE
from support.ownership import Event, Partition, account, gaps, intervals, overlaps


class Member(Protocol):
    """A client, of which its name and what it said are all that counts here."""

    @property
    def name(self) -> str: ...

    @property
    def events(self) -> Sequence[Event]: ...


@dataclass(frozen=True)
class Phase:
    """A part of a run. Moments are nanoseconds: of CLOCK_MONOTONIC, as clients stamp what they say."""

    name: str
    began: int
    ended: int
    joined: Mapping[str, int] | None
    """How many JoinGroups of each client the replicas answered; None if nobody counted them."""

    def has(self, mono: int) -> bool:
        """Whether a moment lies in it."""
        return self.began <= mono < self.ended


@dataclass(frozen=True)
class Cost:
    """What the members of one library that speak one protocol went through in one phase."""

    phase: str
    protocol: str
    library: str
    members: int
    rejoined: int
    """Members that gave up or were given partitions."""
    lost: int
    """Members whose client said that its membership was lost."""
    joins: int | None
    """JoinGroups that the replicas answered, one for each member ID given out included; None: not counted."""
    gaps: int
    """Times that a partition, until then one of theirs, had no owner."""
    longest_gap_s: float


@dataclass(frozen=True)
class Reading:
    """The records of one group, over all phases, and how often partitions had two owners."""

    protocol: str
    produced: int
    lost: int
    read_twice: int
    two_owners: int
    two_owners_after_loss: int
    """Of these, where the earlier owner then found its membership lost."""


def costs(phases: Sequence[Phase], protocol: str, members: Mapping[str, Sequence[Member]]) -> list[Cost]:
    """Count what became of a group; `members` are its clients by library."""
    everybody = [member for group in members.values() for member in group]
    ended = {
        (interval.partition, interval.end): interval.client
        for member in everybody
        for interval in intervals(member.events)
    }
    found = gaps([member.events for member in everybody])
    rows = []
    for phase in phases:
        for library, of_library in members.items():
            names = {member.name for member in of_library}
            theirs = [
                gap.seconds
                for gap in found
                if phase.has(gap.begin) and ended.get((gap.partition, gap.begin)) in names
            ]
            rows.append(
                Cost(
                    phase.name,
                    protocol,
                    library,
                    len(of_library),
                    rejoined=sum(_has(member, phase, REBALANCE) for member in of_library),
                    lost=sum(_has(member, phase, {"lost"}) for member in of_library),
                    joins=None if phase.joined is None else sum(phase.joined.get(name, 0) for name in names),
                    gaps=len(theirs),
                    longest_gap_s=round(max(theirs, default=0.0), 2),
                )
            )
    return rows


def reading(protocol: str, produced: Iterable[Record], members: Iterable[Member]) -> Reading:
    """Hold what was read against what was produced."""
    logs = [member.events for member in members]
    values = {(Partition(at.topic, at.partition), at.offset): at.value for at in produced}
    found, two = account(values, logs), overlaps(logs)
    if found.unexpected:
        raise AssertionError(f"records that nobody wrote: {found}")
    return Reading(
        protocol,
        produced=len(values),
        lost=len(found.lost),
        read_twice=len(found.duplicates),
        two_owners=len(two),
        two_owners_after_loss=sum(overlap.after_loss for overlap in two),
    )


def joined(journal: Path) -> Counter[str]:
    """How many JoinGroups of each client the replicas have answered until now, by their journals."""
    found: Counter[str] = Counter()
    for file in journal.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            if '"joined"' in line and line.endswith(
                "}"
            ):  # the last line of a replica that was killed is cut off
                event = json.loads(line)
                if event["kind"] == "joined":
                    found[event["client_id"]] += 1
    return found


def table(rows: Sequence[Cost]) -> str:
    """Format a table of all costs."""
    columns = (
        "what happened",
        "protocol",
        "library",
        "members",
        "rejoined",
        "of these lost",
        "JoinGroups",
        "gaps",
        "longest",
    )
    lines = [f"| {' | '.join(columns)} |", "| " + " | ".join(["---"] * len(columns)) + " |"]
    for row in rows:
        longest = f"{row.longest_gap_s:.2f} s" if row.gaps else ""
        joins = "not counted" if row.joins is None else row.joins
        lines.append(
            f"| {row.phase} | {row.protocol} | {row.library} | {row.members} | {row.rejoined} | {row.lost} "
            f"| {joins} | {row.gaps} | {longest} |"
        )
    return "\n".join(lines)


def _has(member: Member, phase: Phase, kinds: Iterable[str]) -> bool:
    return any(event.partitions and phase.has(event.mono) for event in member.events if event.kind in kinds)
