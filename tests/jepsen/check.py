"""`python -m tests.jepsen.check DIR ...`: judges a run by its consumers' logs. Exit code 1 on a violation.

Five things are judged, from nothing but what the consumers said, what was produced, and what was broken when:

1. **No partition has two owners at once.** Ownership is what tests/integration/support/ownership.py says: from
   `assigned` until the end of `revoked` or `lost`, or until just before the process was killed. There is no
   excuse for an overlap, with one exception, which is the contract's own: a client that let its session timeout pass
   without a word of an answer has left its contract. That is seen in its own log: its ownership ended with `lost` or
   with a failed commit (of aiokafka, which has no `lost`: with `revoked` and without a commit), and before the other
   owner began it had nothing from the broker (no record, no commit, no callback) for a whole session timeout, and from
   then on no word of its coordinator. (Records that it reads after the silence are none: a broker gives them to
   anybody.)
2. **No record is lost**: each that was acknowledged to the producer was read by somebody, and nothing else was read.
3. **No committed record is read again**: whoever was assigned a partition after a commit was acknowledged begins
   after it.
4. **A record is read twice only where a crash came before its commit.** That is: the process that read it first
   was killed or failed while it owned the partition; or its membership was lost, or its commit of this record
   failed, and in the last two session timeouts before that a proxy or the broker had been killed, the connections
   of a client cut, or the whole machine had stood still for seconds (the run notes that as a `stall`).
5. **Nobody is fenced without a reason**: see tests/jepsen/fences.py.

Of a fleet also what tests/jepsen/fleet_rules.py says.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path

from support.ownership import Delivery, Event, Interval, Overlap, Partition, account, gaps, overlaps

from tests.jepsen import fleet_rules
from tests.jepsen.fences import fences
from tests.jepsen.history import FROM_THE_COORDINATOR, History

CRASHED = frozenset({"killed", "died", "failed"})
MOST_SHOWN = 20
MOST_STORIES = 2
STORY_NS = 20_000_000_000
"""How long before the first and after the last reading a story begins and ends."""
ALIVE = FROM_THE_COORDINATOR | {"records"}


@dataclass
class Verdict:
    """The findings of a run."""

    violations: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    suspects: set[Partition] = field(default_factory=set)
    """The partitions whose records were read twice without an excuse: :func:`story` tells of them."""

    def violated(self, what: str, partition: Partition | None = None) -> None:
        """Record a violation."""
        self.violations.append(what)
        if partition is not None:
            self.suspects.add(partition)


def judge(history: History) -> Verdict:
    """Check everything."""
    verdict = Verdict()
    _two_owners(history, verdict)
    _lost_and_strange(history, verdict)
    for first, second in _read_twice(history):
        _twice(history, verdict, first, second)
    for fence in fences(history):
        if fence.excuse is None:
            verdict.violated(f"{fence.told} was fenced, although it had no rival and was within its session")
        else:
            verdict.notes[f"consumers fenced {fence.excuse}"] += 1
    if history.of_fleet:
        for violation in fleet_rules.violations(history):
            verdict.violated(violation)
    return verdict


def _two_owners(history: History, verdict: Verdict) -> None:
    for overlap in overlaps(history.logs.values()):
        if _had_left_its_contract(history, overlap):
            verdict.notes["overlaps with a client whose session had passed"] += 1
        else:
            verdict.violated(str(overlap))


def _had_left_its_contract(history: History, overlap: Overlap) -> bool:
    first, second = overlap.first, overlap.second
    if first.ended_by is None or first.end <= second.begin:
        return False
    log = history.logs[first.client]
    if not _was_told(log, overlap):
        return False
    before = [event for event in log if event.kind in ALIVE and event.mono < second.begin]
    confirmed = max((event.mono for event in before if event.kind in FROM_THE_COORDINATOR), default=0)
    heard = [event.mono for event in before if event.mono >= confirmed] or [0]
    return any(later - earlier >= history.session_ns for earlier, later in pairwise([*heard, second.begin]))


def _was_told(log: Sequence[Event], overlap: Overlap) -> bool:
    """Whether the first owner ended because it learned that its membership was lost.

    A commit that failed says so whatever its partitions are: one of which nothing is open is in none. aiokafka has no
    callback for a lost membership and calls that of a revocation; it may have nothing to commit.
    """
    first, second = overlap.first, overlap.second
    if first.ended_by is not None and first.ended_by.kind == "lost":
        return True
    since = [event for event in log if second.begin <= event.mono <= first.end]
    if any(event.kind == "commit_failed" for event in since):
        return True
    is_aiokafka = any(event.kind == "started" and event.fields.get("client") == "aiokafka" for event in log)
    return is_aiokafka and not any(event.kind == "committed" for event in since)


def _lost_and_strange(history: History, verdict: Verdict) -> None:
    found = account(history.produced, history.logs.values())
    for partition, offset in sorted(found.lost):
        verdict.violated(f"{partition}@{offset} was never read")
    for delivery in found.unexpected:
        verdict.violated(
            f"{delivery.client} read {delivery.partition}@{delivery.offset}, which was never acknowledged"
        )
    verdict.notes["records handed to an application after its partition was given up"] = len(found.strays)


def _read_twice(history: History) -> Iterator[tuple[Delivery, Delivery]]:
    """Yield each reading of a record with the one before it."""
    found = account(history.produced, history.logs.values())
    for deliveries in found.duplicates.values():
        in_order = sorted(deliveries, key=lambda delivery: delivery.mono)
        yield from pairwise(in_order)


def _twice(history: History, verdict: Verdict, first: Delivery, second: Delivery) -> None:
    what = f"{first.partition}@{first.offset} by {first.client} and again by {second.client}"
    before = history.interval_of(first.client, first.partition, first.mono)
    after = history.interval_of(second.client, second.partition, second.mono)
    if before is None or after is None:
        verdict.violated(f"{what}: one of them never owned the partition", first.partition)
        return
    if before == after:
        verdict.violated(f"{what}: twice in one ownership", first.partition)
        return
    commit = history.committed_before(after.partition, after.begin)
    if commit is not None and commit.offset > first.offset:
        verdict.violated(f"{what}: {commit.client} had committed {commit.offset} before", first.partition)
        return
    excuse = _excuse(history, before, first, after)
    if excuse is None:
        verdict.violated(f"{what}: no crash came between, {before} and {after}", first.partition)
    else:
        verdict.notes[f"records read twice after {excuse}"] += 1


def _excuse(history: History, before: Interval, first: Delivery, after: Interval) -> str | None:
    if after.begin < before.begin and _had_left_its_contract(history, Overlap(after, before)):
        return "the second reader's session had passed"  # it had stood still, and read on for a moment
    if before.ended_by is None:
        return None
    kind = before.ended_by.kind
    if kind in CRASHED:
        return f"the first reader {'was killed' if kind == 'killed' else 'failed'}"
    window = 2 * history.session_ns
    if kind == "lost" and history.disturbed(before.client, before.end - window, before.end):
        return "the first reader's membership was lost in a fault"
    for commit in history.failed_commits.get(before.partition, []):
        if (
            commit.client == first.client
            and commit.offset > first.offset
            and first.mono <= commit.mono <= after.begin + window
            and history.disturbed(commit.client, commit.mono - window, commit.mono)
        ):
            return "the first reader's commit failed in a fault"
    return None


def report(history: History, verdict: Verdict) -> Iterator[str]:
    """Format the verdict for people."""
    about = history.about
    everything = [interval for log in history.owned.values() for mine in log.values() for interval in mine]
    partitions = {interval.partition for interval in everything}
    yield f"Kafka {about['kafka']}, seed {about['seed']}, {about['seconds'] / 60:g} minutes of faults"
    for consumer in about["consumers"]:
        yield f"  {consumer}"
    for kind, count in sorted(Counter(fault.kind for fault in history.faults).items()):
        yield f"{count:8}  {kind}"
    yield f"{len(history.logs):8}  consumer processes"
    yield f"{len(everything):8}  times a partition was taken ({len(partitions)} partitions)"
    yield f"{_longest_gap(history):8.1f}  seconds the longest that a partition had no owner"
    yield f"{len(history.produced):8}  records acknowledged to the producer"
    if history.of_fleet:
        yield from fleet_rules.figures(history)
    for note, count in sorted(verdict.notes.items()):
        yield f"{count:8}  {note}"
    for violation in verdict.violations[:MOST_SHOWN]:
        yield f"VIOLATION {violation}"
    if len(verdict.violations) > MOST_SHOWN:
        yield f"{len(verdict.violations) - MOST_SHOWN:8}  further violations"
    for partition in sorted(verdict.suspects)[:MOST_STORIES]:
        yield from story(history, partition)
    yield f"{'FAILED' if verdict.violations else 'PASSED'}: {len(verdict.violations)} violations"


def story(history: History, partition: Partition) -> Iterator[str]:
    """Tell what happened to a partition, in seconds of the run: who had it, read and committed what, and each fault."""
    found = account(history.produced, history.logs.values())
    readings = [
        one for readings in found.duplicates.values() for one in readings if one.partition == partition
    ]
    told = [(fault.mono, f"fault: {fault.kind} {fault.process or fault.victim}") for fault in history.faults]
    for log in history.owned.values():
        for interval in log.get(partition, []):
            told.append((interval.begin, f"{interval.client} owns it"))
            if interval.ended_by is not None:
                told.append((interval.end, f"{interval.client} gives it up: {interval.ended_by.kind}"))
    for kind, commits in (("commits", history.commits), ("fails to commit", history.failed_commits)):
        told += [(one.mono, f"{one.client} {kind} {one.offset}") for one in commits.get(partition, [])]
    for (client, mono), together in groupby(
        sorted(readings, key=lambda one: (one.client, one.mono)), key=lambda one: (one.client, one.mono)
    ):
        offsets = [one.offset for one in together]
        told.append((mono, f"{client} reads {min(offsets)} to {max(offsets)}, not for the only time"))
    if not readings:
        return
    told += [
        (event.mono, f"{event.client} says: {event.fields['text']}")
        for log in history.logs.values()
        for event in log
        if event.kind == "position_moved" and str(partition.number) in event.fields["text"]
    ]
    begin, end = (extreme(one.mono for one in readings) for extreme in (min, max))
    start = min(event.mono for log in history.logs.values() for event in log)
    yield f"what happened to {partition}:"
    for mono, what in sorted(told):
        if begin - STORY_NS <= mono <= end + STORY_NS:
            yield f"{(mono - start) / 1e9:12.3f}  {what}"


def _longest_gap(history: History) -> float:
    return max((gap.seconds for gap in gaps(history.logs.values())), default=0.0)


def main(folders: Sequence[str]) -> int:
    """Judge each folder."""
    worst = 0
    for folder in folders:
        history = History.read(Path(folder))
        verdict = judge(history)
        print("\n".join(report(history, verdict)))
        worst = max(worst, int(bool(verdict.violations)))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
