"""Verifies a journal: puts its lines in order, takes them through the rules, and writes the report."""

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pipeline.errors import PipelineError
from pipeline.rules.certificate import ClockDifference, JournalSummary, Report
from pipeline.rules.lines import Keyed
from pipeline.rules.losses import Loss, of_two_sources
from pipeline.rules.ordering import FAR_US, Ordering, Stream, by_group
from pipeline.rules.unfinished import Unfinished, unread
from pipeline.rules.verifier import DEFAULT_SKEW_US, Doubt, Journal, Verifier

_TOGETHER = 16_384
"""Events that are taken group by group."""

Told = Callable[[int], None]
"""Called now and then with the number of events so far."""


class Options(NamedTuple):
    """What to judge: groups (all if none are named), from when on (microseconds), and how far clocks may differ."""

    groups: tuple[str, ...] = ()
    from_us: int = 0
    skew_us: int = DEFAULT_SKEW_US


def run(
    streams: Iterable[Stream],
    options: Options,
    *,
    unfinished: Sequence[Unfinished] = (),
    told: Told = lambda _: None,
) -> Report:
    """Read all streams once. ``unfinished`` are files that are not read; ``told`` gets the number of events so far.

    Raises PipelineError if the journal has the same events from files and from a topic.
    """
    with _fewer_collections():
        ordering = Ordering(streams)
        verifier = Verifier(skew_us=options.skew_us, from_us=options.from_us)
        _read(ordering, verifier, told)
    last_read = {process: (numbers.last, numbers.last_us) for process, numbers in ordering.numbers.items()}
    # What a process that is gone wrote last is known to be missing; one that lives may yet write anything.
    of_gone = [file for file in unfinished if file.is_gone and file.process is not None]
    beyond = [loss for _, loss in unread(of_gone, last_read)]
    between = [loss for process, numbers in ordering.numbers.items() for loss in numbers.losses(process)]
    losses = tuple(sorted(between + beyond))
    doubts = tuple(_doubts(ordering, [file.file for file in unfinished if file not in of_gone]))
    last_us = {process: numbers.last_us for process, numbers in ordering.numbers.items()}
    judged = verifier.certificates(Journal(losses, doubts, last_us), options.groups)
    return Report(
        issued_us=time.time_ns() // 1000,
        skew_us=options.skew_us,
        journal=_summary(ordering, losses, doubts, [file.file for file in unfinished], options.from_us),
        clocks=tuple(ClockDifference(*pair, us) for pair, us in sorted(judged.clocks.items())),
        certificates=judged.certificates,
        not_judged=judged.not_judged,
    )


def _read(ordering: Ordering, verifier: Verifier, told: Told) -> None:
    count = taken = known = 0
    waiting: list[list[Keyed]] = []
    for parts, ended in ordering.batches():
        if len(ordering.numbers) != known:
            known = len(ordering.numbers)
            if (twice := of_two_sources(ordering.numbers)) is not None:
                raise PipelineError(twice)
        for process in ended:
            verifier.process_ended(process, ordering.numbers[process].last_us)
        waiting += parts
        count += sum(map(len, parts))
        if count - taken >= _TOGETHER:
            _take(waiting, verifier)
            told(count)
            taken = count
    _take(waiting, verifier)
    told(count)


def _take(parts: list[list[Keyed]], verifier: Verifier) -> None:
    """Take events group by group: the order within a group is what counts, and its data are at hand in the caches."""
    if not parts:
        return
    for name, events in by_group(parts).items():
        verifier.take_of_group(name, events)
    verifier.forget(max(part[-1][0] for part in parts))
    parts.clear()


@contextlib.contextmanager
def _fewer_collections() -> Iterator[None]:
    """Look for cycles seldom: the events of a journal make none, and looking took a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _doubts(ordering: Ordering, unfinished: Sequence[str]) -> Iterable[Doubt]:
    if unfinished:
        one = len(unfinished) == 1
        yield Doubt(
            FAR_US, f"{unfinished[0]} is not finished" if one else f"{len(unfinished)} files are not finished"
        )
    if ordering.unreadable_until_us:
        count = sum(ordering.quarantined.values())
        yield Doubt(max(ordering.unreadable_until_us.values()), f"{count} lines can't be read")
    if ordering.late:
        yield Doubt(ordering.late_us, f"{ordering.late} events are far out of order and left out")


def _summary(
    ordering: Ordering,
    losses: Sequence[Loss],
    doubts: Sequence[Doubt],
    unfinished: Sequence[str],
    from_us: int,
) -> JournalSummary:
    processes = ordering.numbers.values()
    missing = any(loss.to_us >= from_us for loss in losses) or any(
        doubt.until_us >= from_us for doubt in doubts
    )
    return JournalSummary(
        events=sum(one.events for one in processes),
        from_us=min((one.first_us for one in processes if one.events), default=0),
        until_us=max((one.last_us for one in processes), default=0),
        processes=len(processes),
        duplicates=sum(one.duplicates for one in processes),
        lost=sum(loss.events for loss in losses),
        late=ordering.late,
        quarantined=dict(ordering.quarantined),
        unfinished=tuple(unfinished),
        complete=not missing,
    )
