"""The journal of a real run: judged by the audit and by the plain checker, as it is and with faults planted.

`make jepsen-migration` makes such a run and judges it: both must find the same overlaps and gaps, and of each
planted fault exactly what was planted. `python -m tests.pipeline.real_journal build/jepsen/migration --keep FILE`
writes its events into one file too: so tests/pipeline/data/migration.jsonl.gz was made.
"""

import argparse
import copy
import gzip
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from pipeline import spark as sessions
from pipeline.audit import job
from pipeline.audit.output import GAPS, OVERLAPS
from pipeline.journal import events as journal
from tests.pipeline.checker import CALLS, ENDS, Check, Event, read
from tests.pipeline.command_line import SETTINGS

KEPT = Path(__file__).parent / "data" / "migration.jsonl.gz"
SKEW_US = 100_000
SHORT_US = 1_000
CLOCK_ERROR_US = 400_000

Partition = tuple[str, int]


class Found(NamedTuple):
    """Overlaps as (group, topic, partition, first, second, from, until, class), gaps as (..., from, until)."""

    overlaps: set[tuple[Any, ...]]
    gaps: set[tuple[Any, ...]]

    @property
    def violations(self) -> set[tuple[Any, ...]]:
        """Overlaps that nothing accounts for, without their class."""
        return {one[:-1] for one in self.overlaps if one[-1] == "violation"}


def of_run(folder: Path) -> list[Event]:
    """The events of a run. Both proxies ran on one host: each replica is named as its proxy."""
    found = []
    for proxy in sorted((folder / "journal").iterdir()):
        found += [{**event, "replica": proxy.name} for event in read(proxy)]
    return sorted(found, key=lambda event: (event["time_us"], *_place(event)))


def keep(events: list[Event], file: Path) -> None:
    """Write them into one file."""
    file.parent.mkdir(exist_ok=True)
    lines = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
    file.write_bytes(gzip.compress(lines.encode(), mtime=0))


def kept(file: Path = KEPT) -> list[Event]:
    """What ``keep`` wrote."""
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def save(events: list[Event], folder: Path) -> Path:
    """Write them as the proxies did, a file for each process; where that is."""
    for (replica, boot), lines in groupby(sorted(events, key=_place), key=_process):
        file = folder / replica / f"{replica}.{boot}.1.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def checked(folder: Path) -> Found:
    """What the plain checker finds."""
    check = Check(read(folder), SKEW_US)
    return Found(check.overlaps, check.gaps)


def audited(spark: SparkSession, folder: Path, out: Path) -> Found:
    """What the audit finds."""
    job.run(spark, journal.from_files(spark, folder), out, skew_us=SKEW_US)
    gaps = ("group", "topic", "partition", "from_us", "until_us")
    overlaps = (
        "group",
        "topic",
        "partition",
        "first_member",
        "second_member",
        "from_us",
        "until_us",
        "class",
    )
    return Found(
        *(
            {tuple(row[name] for name in names) for row in table.read(spark, str(out)).collect()}
            for table, names in ((OVERLAPS, overlaps), (GAPS, gaps))
        )
    )


# What is planted. Each takes events and gives them back with a fault, and the violations that must be found.

Planted = tuple[list[Event], set[tuple[Any, ...]]]


def short_overlap(events: list[Event]) -> Planted:
    """A member gets, for a millisecond, a partition that another member of the same process holds."""
    for at, holders, members in _states(events):
        before, after = events[at], events[at + 1]
        if _process(before) != _process(after) or after["time_us"] - before["time_us"] < 4 * SHORT_US:
            continue
        here = [name for name, last in members.items() if _is_of(last, before)]
        for partition, (first, *others) in holders.items():
            second = next((name for name in here if name != first), None)
            if others or second is None or first not in here:
                continue
            from_us = before["time_us"] + SHORT_US
            owned = members[second]["owned"]
            more = [*owned, {"topic": partition[0], "id": None, "partitions": [partition[1]]}]
            told = {**members[second], "kind": "assigned", "time_us": from_us, "owned": more}
            back = {**told, "kind": "revoked", "time_us": from_us + SHORT_US, "owned": owned}
            planted = [*events[: at + 1], told, back, *events[at + 1 :]]
            place = before["group"] or told["group"], *partition, first, second
            return _numbered(planted), {(*place, from_us, from_us + SHORT_US)}
    raise ValueError("no place for a short overlap")


def late_revocation(events: list[Event]) -> Planted:
    """A member still claims a partition that somebody else has got: its revocation was lost for a while."""
    for at, event in enumerate(events):
        for partition in _given_up(events, at):
            history = events[at + 1 :]
            taken = next((one for one in history if partition in _owned(one)), None)
            if taken is None or taken["member"] == event["member"] or _process(taken) != _process(event):
                continue
            until = _next_of(event["member"], taken, events)
            if until is None or not _held_by_it_until(partition, taken, until, events):
                continue
            planted = copy.deepcopy(events)
            for one in planted[at : events.index(until)]:
                if one["member"] == event["member"] and one["owned"] is not None:
                    one["owned"].append({"topic": partition[0], "id": None, "partitions": [partition[1]]})
            place = event["group"], *partition, event["member"], taken["member"]
            return planted, {(*place, taken["time_us"], until["time_us"])}
    raise ValueError("no place for a late revocation")


def skewed_clock(events: list[Event]) -> Planted:
    """The clock of one replica is ahead: nothing was owned twice."""
    replica = min(event["replica"] for event in events)
    return [
        {**event, "time_us": event["time_us"] + CLOCK_ERROR_US * (event["replica"] == replica)}
        for event in events
    ], set()


PLANTS: dict[str, Callable[[list[Event]], Planted]] = {
    "as it is": lambda events: (events, set()),
    "overlap of 1 ms": short_overlap,
    "lost revocation": late_revocation,
    "skewed clock": skewed_clock,
}


def _place(event: Event) -> tuple[Any, ...]:
    return event["replica"], event["boot"], event["seq"]


def _process(event: Event) -> tuple[str, str]:
    return event["replica"], event["boot"]


def _owned(event: Event) -> set[Partition]:
    return {(one["topic"], number) for one in event["owned"] or () for number in one["partitions"]}


def _is_of(event: Event, other: Event) -> bool:
    return (
        _process(event) == _process(other) and event["protocol"] == "translated" and event["kind"] not in ENDS
    )


def _numbered(events: list[Event]) -> list[Event]:
    """With sequence numbers that follow one another again."""
    seqs: Counter[tuple[str, str]] = Counter()
    numbered = []
    for event in events:
        seqs[_process(event)] += 1
        numbered.append({**event, "seq": seqs[_process(event)]})
    return numbered


def _states(events: list[Event]) -> Iterator[tuple[int, dict[Partition, list[str]], dict[str, Event]]]:
    """After each event: who holds what, and the last snapshot of each member that is alive."""
    members: dict[str, Event] = {}
    for at, event in enumerate(events[:-1]):
        if event["kind"] in ENDS:
            members.pop(event["member"], None)
        elif event["owned"] is not None and event["member"]:
            members[event["member"]] = event
        holders: dict[Partition, list[str]] = {}
        for name, last in members.items():
            for partition in _owned(last):
                holders.setdefault(partition, []).append(name)
        yield at, holders, members


def _given_up(events: list[Event], at: int) -> set[Partition]:
    """What a translated member gives up with this event."""
    event = events[at]
    if event["protocol"] != "translated" or event["owned"] is None or event["kind"] not in CALLS:
        return set()
    before = [one for one in events[:at] if one["member"] == event["member"] and one["owned"] is not None]
    if not before or _process(before[-1]) != _process(event):
        return set()
    return _owned(before[-1]) - _owned(event)


def _next_of(member: str, after: Event, events: list[Event]) -> Event | None:
    """The member's next snapshot, if the same process writes it and the member is served by it all the time."""
    for one in events[events.index(after) + 1 :]:
        if one["member"] == member and (one["owned"] is not None or one["kind"] in CALLS):
            return one if _is_of(one, after) else None
    return None


def _held_by_it_until(partition: Partition, taken: Event, until: Event, events: list[Event]) -> bool:
    """Whether the member that took the partition, and nobody else, holds it until then."""
    between = events[events.index(taken) : events.index(until) + 1]
    holds = [
        partition in _owned(one)
        for one in between
        if one["member"] == taken["member"] and one["owned"] is not None
    ]
    others = any(partition in _owned(one) for one in between if one["member"] != taken["member"])
    ended = any(one["member"] == taken["member"] and one["kind"] in ENDS for one in between)
    return all(holds) and not others and not ended and until["time_us"] > taken["time_us"]


def main() -> int:
    """0 if audit and checker agree and exactly what was planted is found."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.real_journal", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--keep", type=Path, help="write the events into this file (.jsonl.gz)")
    options = parser.parse_args()
    events = of_run(options.run)
    if options.keep:
        keep(events, options.keep)
    spark = sessions.start("real journal", master="local[2]", conf=SETTINGS)
    agree = True
    for name, plant in PLANTS.items():
        try:
            planted, expected = plant(events)
        except ValueError as error:  # a short run
            print(f"{'-':6}{name:18}{error}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = save(planted, Path(folder) / "journal")
            ours, plain = audited(spark, source, Path(folder) / "out"), checked(source)
        good = ours == plain and ours.violations == expected
        agree = agree and good
        classes = Counter(one[-1] for one in ours.overlaps)
        print(
            f"{'ok' if good else 'WRONG':6}{name:18}{len(planted)} events, {len(ours.gaps)} gaps, {dict(classes)}"
        )
        for one in sorted(ours.violations ^ expected, key=str):
            print(f"      {'not planted' if one in ours.violations else 'not found'}: {one}")
        for one in sorted((ours.overlaps ^ plain.overlaps) | (ours.gaps ^ plain.gaps), key=str):
            print(f"      not the same: {one}")
    spark.stop()
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
