"""Goes once through a journal, in order, and issues certificates: the rules of the audit as a stream.

The rules ask twice for what comes later. Whether a process ever writes again: whoever feeds the events says so
(:meth:`Verifier.process_ended`); until then a process counts as alive, as it does for the audit while the journal has
more of it. And how far the clocks of two replicas differ, and which numbers are missing, which only the whole journal
shows: overlaps that this could account for wait until certificates are asked for. They are few. Certificates may be
asked for at any time, and again later.

Memory is for live members, partitions, and a bounded number of findings of each group, not for the history. The one
difference to the audit: a member that holds nothing, whose process has ended, and that nobody has heard of for an hour
is forgotten. If it comes back it is a new one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.rules.certificate import (
    Certificate,
    CommitCounts,
    Gaps,
    Owners,
    PauseTimes,
    TwoOwners,
    Verdict,
)
from pipeline.rules.classes import (
    CLOCK,
    LOST,
    UNPROVEN,
    VIOLATION,
    OverlapClassifier,
    Replicas,
    explained_by_clocks,
)
from pipeline.rules.findings import Overlap
from pipeline.rules.lines import STOPPED, Keyed, Line, key_of
from pipeline.rules.losses import Loss, Process
from pipeline.rules.verified_group import Counts, Evidence, VerifiedGroup

DEFAULT_SKEW_US = 100_000
FORGET_US = 3_600_000_000
"""After so long a silent member is forgotten, and so often it is looked for some."""

MOST_SHOWN = 20
"""Violations that a certificate lists."""


class Doubt(NamedTuple):
    """Why a journal is not complete: something is missing until ``until_us`` at the latest (microseconds)."""

    until_us: int
    text: str


class Journal(NamedTuple):
    """What the reader of the journal knows when certificates are asked for."""

    losses: tuple[Loss, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    last_us: Mapping[Process, int] = {}
    """The time of each process's last event that was read."""


class Judgement(NamedTuple):
    """Certificates, and what the clocks are shown to account for, by (ahead, behind) in microseconds."""

    certificates: tuple[Certificate, ...]
    clocks: dict[Replicas, int]
    not_judged: int


class Window(NamedTuple):
    """What is found in a group's window, and the violations of all the time."""

    verdict: Verdict
    why: tuple[str, ...]
    """Why it is not proven, or may not stay so."""
    asks_for_clocks: bool
    """Whether there are overlaps that the clocks of replicas may account for."""
    violated_us: int | None
    """When the newest violation of all the time ended, as far as is known."""
    is_final: bool
    """Whether one of them is within a process, so that nothing can account for it any more."""


class Verifier:
    """Takes every event once, by (time_us, replica, boot, seq). ``from_us``: judge what ends then or later."""

    def __init__(
        self, *, skew_us: int = DEFAULT_SKEW_US, from_us: int = 0, most_pairs: int | None = None
    ) -> None:
        """``most_pairs``: pairs of replicas of whose clocks evidence is kept; None: all."""
        self._skew_us = skew_us
        self._from_us = from_us
        self.groups: dict[str, VerifiedGroup] = {}
        self.ended: dict[Process, int] = {}
        """The processes that write nothing any more, with the time of their last event."""
        self.stopped: set[Process] = set()
        """Those of which the journal has the end."""
        self._evidence = Evidence(most_pairs)
        self._swept_us = 0

    def take(self, event: Line) -> None:
        """Take the next event."""
        self.take_of_group(event.group or "", [(*key_of(event), event)])

    def take_of_group(self, name: str, events: Sequence[Keyed]) -> None:
        """Take the next events of a group, at least one; only within a group their order counts."""
        if not name:
            self.stopped.update(keyed[4].process for keyed in events if keyed[4].kind == STOPPED)
            return
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = VerifiedGroup(self.ended, self._skew_us, self._from_us)
        found = group.take(events)
        if found:
            for one in found:
                self._evidence.add(one)

    def process_ended(self, process: Process, last_us: int) -> None:
        """A process writes nothing after its event at ``last_us``."""
        self.ended[process] = last_us

    def forget(self, now_us: int) -> None:
        """Forget who has been silent for long; call it now and then with the time of the events."""
        if now_us - self._swept_us >= FORGET_US:
            self._swept_us = now_us
            for group in self.groups.values():
                group.forget(self.ended, now_us - FORGET_US)

    def certificates(self, journal: Journal, only: Iterable[str] = ()) -> Judgement:
        """Judge all groups, or ``only`` some; changes nothing. A group that nothing is known of is ``unproven``."""
        evidence = self.evidence()
        counted = {}
        open_overlaps: Counter[str] = Counter()
        for name, group in self.groups.items():
            counts = counted[name] = group.counts.copy()
            for found in group.ownership.end():
                counts.add(found, group.last_us)
                evidence.add(found)
                open_overlaps[name] += isinstance(found, Overlap) and self._may_still_end(found)
        clocks = self.clocks(evidence)
        judge = self._judge(journal, clocks, self._from_us)
        wanted = set(only) or {name for name, group in self.groups.items() if group.is_exclusive}
        certificates = tuple(
            judge.certificate(name, counted.get(name), open_overlaps[name]) for name in sorted(wanted)
        )
        shown = {
            pair: us
            for pair, us in clocks.items()
            if pair in judge.told_by_clocks or evidence.proofs.get(pair, 0) > self._skew_us
        }
        exclusive = sum(group.is_exclusive for group in self.groups.values())
        return Judgement(certificates, shown, len(self.groups) - exclusive)

    def evidence(self) -> Evidence:
        """Return what is known of clocks so far; what groups say beside it is added by :meth:`add_open`."""
        return self._evidence.copy()

    def add_open(self, name: str, evidence: Evidence) -> None:
        """Add to the evidence what is open in a group."""
        for found in self.groups[name].ownership.end():
            evidence.add(found)

    def clocks(self, evidence: Evidence) -> dict[Replicas, int]:
        """Return what the clocks account for, by (ahead, behind) in microseconds."""
        return explained_by_clocks(self._skew_us, evidence.proofs, evidence.handovers.found())

    def certificate(self, name: str, journal: Journal, clocks: dict[Replicas, int]) -> Certificate:
        """Judge one group as :meth:`certificates` does, given what the clocks account for."""
        group = self.groups[name]
        counts, open_overlaps = self._with_open(group, group.counts)
        return self._judge(journal, clocks, self._from_us).certificate(name, counts, open_overlaps)

    def window(
        self,
        name: str,
        journal: Journal,
        clocks: dict[Replicas, int],
        doubts: tuple[Doubt, ...],
        from_us: int,
    ) -> "Window":
        """Judge the window of a group, which begins at ``from_us``.

        ``doubts`` say what is missing in the journal; of ``journal`` the losses only tell what overlaps are due to.
        """
        group = self.groups[name]
        in_window, open_overlaps = self._with_open(group, group.window or group.counts)
        counts = self._with_open(group, group.counts)[0] if group.counts.candidates else in_window
        losses = journal.losses if counts.candidates else ()
        judge = _Judge(
            self,
            journal._replace(losses=(), doubts=doubts),
            OverlapClassifier(self._skew_us, clocks, losses),
            from_us,
            self._skew_us,
        )
        found = judge.verdict(name, group, in_window, open_overlaps)
        violations = judge.verdict(name, group, counts, 0).violations if counts.candidates else ()
        return Window(
            found.verdict,
            found.why + found.pending,
            bool(counts.candidates),
            max((row["until_us"] for row in violations), default=None),
            any(len(set(_processes(row))) == 1 for row in violations),
        )

    def _with_open(self, group: VerifiedGroup, counts: Counts) -> tuple[Counts, int]:
        """Return a copy of the counts with what is open now, and the overlaps that may still end."""
        counts, open_overlaps = counts.copy(), 0
        for found in group.ownership.end():
            counts.add(found, group.last_us)
            open_overlaps += isinstance(found, Overlap) and self._may_still_end(found)
        return counts, open_overlaps

    def _judge(self, journal: Journal, clocks: dict[Replicas, int], from_us: int) -> "_Judge":
        classifier = OverlapClassifier(self._skew_us, clocks, journal.losses)
        return _Judge(self, journal, classifier, from_us, self._skew_us)

    def _may_still_end(self, overlap: Overlap) -> bool:
        """Whether the end of an open overlap may just not be there yet: it is between two processes that go on."""
        processes = overlap.first_process, overlap.second_process
        return processes[0] != processes[1] and not set(processes) <= self.stopped


class _Judge:
    """Writes certificates from what was counted."""

    def __init__(
        self,
        verifier: Verifier,
        journal: Journal,
        classifier: OverlapClassifier,
        from_us: int,
        skew_us: int,
    ) -> None:
        self._groups = verifier.groups
        self._stopped = verifier.stopped
        self._from_us = from_us
        self._skew_us = skew_us
        self._last_us = journal.last_us
        self._classifier = classifier
        self._missing = _missing(journal, self._from_us)
        self.told_by_clocks: set[Replicas] = set()

    def certificate(self, name: str, counts: Counts | None, open_overlaps: int) -> Certificate:
        """Return the certificate of a group with so many overlaps that may still end."""
        group = self._groups.get(name)
        if group is None or counts is None:
            group, counts = (
                VerifiedGroup({}, self._skew_us, self._from_us),
                Counts(self._skew_us, self._from_us),
            )
        found = self.verdict(name, group, counts, open_overlaps)
        return Certificate(
            group=name,
            verdict=found.verdict,
            provisional=bool(found.pending),
            why=found.why,
            pending=found.pending,
            from_us=self._from_us,
            until_us=group.last_us,
            events=group.events,
            members=dict(group.members),
            translated_since_us=group.translated_since_us,
            owners=Owners(found.overlaps, tuple(map(_shown, found.violations[:MOST_SHOWN]))),
            gaps=Gaps(counts.gaps, counts.longest_us, counts.total_us, counts.open_gaps),
            pauses={
                protocol: PauseTimes(
                    lengths.count, lengths.quantile_us(0.5), lengths.quantile_us(0.99), lengths.longest_us
                )
                for protocol, lengths in sorted(group.pauses.by_protocol.items())
            },
            commits=CommitCounts(
                recorded=bool(group.commits.recorded),
                refused=dict(group.commits.refused),
                set_back=group.commits.set_back,
                examples=tuple(group.commits.examples),
            ),
        )

    def verdict(self, name: str, group: VerifiedGroup, counts: Counts, open_overlaps: int) -> "_Found":
        """Judge what was counted of a group."""
        overlaps = dict(counts.overlaps)
        violations: list[Mapping[str, Any]] = []
        for row in counts.candidates:
            found = self._classifier.class_of(row)
            overlaps[found] = overlaps.get(found, 0) + 1
            if found == VIOLATION:
                violations.append(row)
            elif found == CLOCK:
                self.told_by_clocks |= {
                    (row["first_replica"], row["second_replica"]),
                    (row["second_replica"], row["first_replica"]),
                }
        doubts = [*_doubts_of_group(group, overlaps, counts.unkept, self._from_us), *self._missing]
        if name not in self._groups:
            doubts = ["the journal has nothing of this group"]
        pending = self._pending(group, violations, open_overlaps)
        if not all(map(self._goes_on, violations)):
            verdict = Verdict.VIOLATED
        else:
            verdict = Verdict.UNPROVEN if doubts or open_overlaps else Verdict.PROVEN
        return _Found(verdict, tuple(doubts), tuple(pending), overlaps, violations)

    def _goes_on(self, row: Mapping[str, Any]) -> bool:
        """Whether a violation may just not have ended yet (:meth:`Verifier._may_still_end`)."""
        first, second = _processes(row)
        return row["until_event"] is None and first != second and not {first, second} <= self._stopped

    def _pending(
        self, group: VerifiedGroup, violations: Iterable[Mapping[str, Any]], open_overlaps: int
    ) -> list[str]:
        """Why events that are still to come may change the verdict."""
        pairs = [_processes(row) for row in violations]
        if any(first == second for first, second in pairs):
            return []  # the order within a process is what it is
        found = []
        if open_overlaps:
            found.append("a partition has owners at two processes to the end of the journal")
        silent = sorted(
            ".".join(process)
            for process in group.ownership.servers()
            if process not in self._stopped and self._last_us.get(process, 0) < group.last_us
        )
        if silent:
            found.append(f"{_some(silent)} served members and has written nothing since")
        if any(first[0] != second[0] and not {first, second} <= self._stopped for first, second in pairs):
            found.append("later events may show that the clocks of two replicas differ")
        return found


class _Found(NamedTuple):
    """The verdict of what was counted, and what it rests on."""

    verdict: Verdict
    why: tuple[str, ...]
    pending: tuple[str, ...]
    overlaps: dict[str, int]
    violations: list[Mapping[str, Any]]


def _doubts_of_group(
    group: VerifiedGroup, overlaps: Mapping[str, int], unkept: int, from_us: int
) -> Iterable[str]:
    """Why the journal does not show that no partition of this group had two owners."""
    texts = {
        UNPROVEN: "of {} overlaps the journal would not tell that the first owner had ended",
        LOST: "{} overlaps lie where events are missing",
        CLOCK: "{} overlaps may be due to clocks that differ by more than the allowed skew",
    }
    yield from (text.format(overlaps[name]) for name, text in texts.items() if overlaps.get(name))
    if unkept:
        yield f"{unkept} further overlaps are not judged: the audit judges all"
    if group.unreadable:
        yield f"partitions or commits of {group.unreadable} events can't be read"
    if group.unknown:
        yield f"what {len(group.unknown)} members hold is not known"
    elif group.unknown_until_us and group.unknown_until_us >= from_us:
        yield "what some members held is not known for a part of the time"
    if not group.events and not group.ownership.holds:
        yield "nobody held a partition"


def _missing(journal: Journal, from_us: int) -> list[str]:
    """Why the journal is not complete from ``from_us`` on."""
    found = [doubt.text for doubt in journal.doubts if doubt.until_us >= from_us]
    lost = [loss for loss in journal.losses if loss.to_us >= from_us]
    if lost:
        processes = sorted({f"{loss.replica}.{loss.boot}" for loss in lost})
        found.append(f"{sum(loss.events for loss in lost)} events of {_some(processes)} are missing")
    return found


def _processes(row: Mapping[str, Any]) -> tuple[Process, Process]:
    """Return the processes whose clocks an overlap is between."""
    return (row["first_replica"], row["first_boot"]), (row["second_replica"], row["second_boot"])


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _shown(row: Mapping[str, Any]) -> TwoOwners:
    return TwoOwners(**{name: row[name] for name in TwoOwners.__struct_fields__})
