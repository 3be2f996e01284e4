"""What a fleet promises besides, judged by the consumers' logs.

1. **A killed client's partitions have owners again within its session timeout + 1.5 s.** Judged for each consumer that
   was killed alone: no other fault was there from a session timeout before until the bound after. (The others are
   counted as not judged.)
2. **No two act on a partition with accepted commits.** When another client's commit of a partition was accepted while
   an owner still worked on it, no later commit of that owner is accepted: none that covers a record which it read
   after the other's commit, so that it was certainly sent later. An owner that stood still past its session timeout may
   go on for a moment, but its commits are refused, as by Kafka. There is no excuse.
3. **Everybody settles**: a minute after the last fault has healed, and from then on, every partition that anybody read
   has an owner until the consumers are closed.
"""

from collections.abc import Iterator
from typing import NamedTuple

from support.ownership import Interval, Partition, deliveries, gaps

from tests.jepsen.history import Commit, Fault, History

AFTER_SESSION_NS = 1_500_000_000
SETTLED_WITHIN_NS = 60_000_000_000
KILLED_ALONE = "kill consumer alone"


class Recovery(NamedTuple):
    """How long after its kill the partitions of `process` all had owners again; None if they never had."""

    process: str
    seconds: float | None


def violations(history: History) -> Iterator[str]:
    """All that is wrong, for people."""
    bound_s = _bound_ns(history) / 1e9
    for recovery in recoveries(history):
        if recovery.seconds is None:
            yield f"{recovery.process} was killed, and its partitions never had owners again"
        elif recovery.seconds > bound_s:
            yield (
                f"{recovery.process} was killed, and its partitions had owners again only after"
                f" {recovery.seconds:.1f} s, not {bound_s:.1f} s"
            )
    yield from _acting_at_once(history)
    yield from _unsettled(history)


def figures(history: History) -> Iterator[str]:
    """The times of rule 1, as lines of the report."""
    found = recoveries(history)
    alone = sum(fault.kind == KILLED_ALONE for fault in history.faults)
    seconds = " ".join("never" if one.seconds is None else f"{one.seconds:.1f}" for one in found)
    yield f"{len(found):8}  consumers killed alone whose partitions had owners again after (s): {seconds or '-'}"
    yield f"{alone - len(found):8}  killed alone and not judged: another fault, or nothing owned"


def recoveries(history: History) -> list[Recovery]:
    """How long it took after each kill that is judged."""
    return [
        Recovery(fault.process, _until_owned(history, fault.process))
        for fault in history.faults
        if fault.kind == KILLED_ALONE
        and fault.process is not None
        and not _disturbed(history, fault)
        and _owned_at_death(history, fault.process)
    ]


def _bound_ns(history: History) -> int:
    return history.session_ns + AFTER_SESSION_NS


def _disturbed(history: History, kill: Fault) -> bool:
    begin, end = kill.mono - history.session_ns, kill.mono + _bound_ns(history)
    return any(other is not kill and other.mono <= end and other.healed >= begin for other in history.faults)


def _owned_at_death(history: History, process: str) -> list[Interval]:
    return [
        interval
        for mine in history.owned.get(process, {}).values()
        for interval in mine
        if interval.ended_by is not None and interval.ended_by.kind == "killed"
    ]


def _until_owned(history: History, process: str) -> float | None:
    slowest = 0.0
    for left in _owned_at_death(history, process):
        taken = [
            one.begin
            for client, owned in history.owned.items()
            if client != process
            for one in owned.get(left.partition, [])
            if one.begin >= left.end
        ]
        if not taken:
            return None
        slowest = max(slowest, (min(taken) - left.end) / 1e9)
    return slowest


def _acting_at_once(history: History) -> Iterator[str]:
    read = {
        (client, one.partition, one.offset): one.mono
        for client, log in history.logs.items()
        for one in deliveries(log)
    }
    owners: dict[Partition, list[Interval]] = {}
    for owned in history.owned.values():
        for partition, mine in owned.items():
            owners.setdefault(partition, []).extend(mine)
    for partition, commits in history.commits.items():
        for owner in owners.get(partition, []):
            inside = [one for one in commits if owner.begin <= one.mono <= owner.end]
            own = [one for one in inside if one.client == owner.client]
            for other in inside:
                if other.client == owner.client or _read_at(read, partition, other) <= owner.begin:
                    continue
                later = next((one for one in own if _read_at(read, partition, one) > other.mono), None)
                if later is not None:
                    yield (
                        f"{partition}: {owner} committed {later.offset} after {other.client} had read and committed"
                        f" {other.offset}"
                    )


def _read_at(read: dict[tuple[str, Partition, int], int], partition: Partition, commit: Commit) -> int:
    """When the committing client read the last record that the commit covers; 0 if it never did."""
    return read.get((commit.client, partition, commit.offset - 1), 0)


def _unsettled(history: History) -> Iterator[str]:
    deadline = max((fault.healed for fault in history.faults), default=0) + SETTLED_WITHIN_NS
    for gap in gaps(history.logs.values()):
        if gap.end > deadline:
            yield f"{gap.partition} had no owner until {(gap.end - deadline) / 1e9 + 60:.1f} s after the last fault"
    settled = {
        partition
        for owned in history.owned.values()
        for partition, mine in owned.items()
        if any(
            one.ended_by is None or one.ended_by.kind not in {"killed", "died", "failed", "lost"}
            for one in mine[-1:]
        )
    }
    for partition in sorted({partition for partition, _ in history.produced} - settled):
        yield f"{partition} has no owner at the end"
