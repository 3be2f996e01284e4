"""Simulated journals by seed, judged by the verifier and by the independent checker, in the same form.

``python -m tests.pipeline.rules.journals --seeds 2000`` (``make verify-seeds``) does so for many seeds, and for some of
them on Spark and by the live pass as well.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.rules.certificate import Report
from pipeline.rules.classes import VIOLATION
from pipeline.rules.lines import Line, parse_line
from pipeline.rules.live import LiveVerifier
from pipeline.verify import files, job
from tests.pipeline.checker import Check, read
from tests.pipeline.migration import MS, Migration, Plan, S

SKEW_US = 100 * MS
EVERY_ON_SPARK = 100
EVERY_LIVE = 10
LIVE_DELAY_US = 200 * S
"""No process of the model is silent for so long while it lives; a real one writes `alive` events."""
FAULTS: tuple[dict[str, Any], ...] = (
    {},
    {"violations": 3},
    {"violations": 2, "lost": 0.01},
    {"violations": 3, "skewed_us": 400 * MS},
    {"skewed_us": -400 * MS, "lost": 0.01},
    {"groups": 25, "skewed_us": 400 * MS, "violations": 3},
    {"violations": 1, "kills": 0},
    {"violations": 2, "kills": 4, "replicas": 4, "lost": 0.02},
)


class OfGroup(NamedTuple):
    """What is found of a group: overlaps by class, violations, and how many gaps of what length there are."""

    overlaps: dict[str, int]
    violations: frozenset[tuple[Any, ...]]
    gaps: int
    longest_us: int
    open_gaps: int


def plan(seed: int) -> Plan:
    """The faults of a seed; every fourth has a host name with dots."""
    prefix = "host.domain-" if seed % 4 == 3 else ""
    return Plan(seed, duplicated=0.02, prefix=prefix, **FAULTS[seed % len(FAULTS)])


def saved(seed: int, folder: Path) -> Path:
    """The journal of a seed: its lines are out of order by up to 200 places, and in several files."""
    Migration(plan(seed)).save(folder, disorder=(0, 30, 200)[seed % 3], per_file=400)
    return folder


def streams(folder: Path) -> list[files.FileStream]:
    return [files.FileStream(label, paths) for label, paths in files.find(folder).of_processes.items()]


def verified(folder: Path, **options: Any) -> Report:
    """What `epochgate verify` reports."""
    return job.run(streams(folder), job.Options(skew_us=SKEW_US, **options))


def live(folder: Path, seed: int) -> LiveVerifier:
    """What the live pass knows in the end, when lines come up to ten seconds after they were written, by the seed."""
    late = random.Random(seed)  # noqa: S311 - a model, no secret
    arriving = []
    for path in folder.rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            event = parse_line(line)
            assert isinstance(event, Line)
            arriving.append(((event.time_us or 0) + late.randrange(10 * S), line))
    arriving.sort()
    verifier, looked_us = LiveVerifier(delay_us=LIVE_DELAY_US, skew_us=SKEW_US), 0
    for now_us, line in arriving:
        verifier.add([line])
        if now_us - looked_us >= S:
            looked_us = now_us
            look(verifier, now_us)
    look(verifier, arriving[-1][0] + 2 * LIVE_DELAY_US)
    return verifier


def look(verifier: LiveVerifier, now_us: int) -> None:
    """Go through what has waited for long enough, and look at all groups."""
    while verifier.go_through(now_us - LIVE_DELAY_US, 100):
        pass
    for _ in verifier.look():
        pass


def live_differences(report: Report, verifier: LiveVerifier) -> list[str]:
    """What the live pass says otherwise than `epochgate verify`."""
    found = {one.group: verifier.certificate(one.group) for one in report.certificates}
    return [
        f"{one.group}: {field} {getattr(one, field)} is not {getattr(found[one.group], field, None)} live"
        for one in report.certificates
        for field in one.__struct_fields__
        if getattr(one, field) != getattr(found[one.group], field, None)
    ]


def of_report(report: Report) -> dict[str, OfGroup]:
    """A report in the form of this module."""
    return {
        one.group: OfGroup(
            {name: count for name, count in one.owners.overlaps.items() if count},
            frozenset(
                (two.topic, two.partition, two.first_member, two.second_member, two.from_us, two.until_us)
                for two in one.owners.violations
            ),
            one.gaps.count,
            one.gaps.longest_us,
            one.gaps.now,
        )
        for one in report.certificates
    }


def of_tables(
    groups: set[str], overlaps: set[tuple[Any, ...]], gaps: set[tuple[Any, ...]], ends: dict[str, int]
) -> dict[str, OfGroup]:
    """What the checker or the audit found, in the form of this module. ``ends``: each group's last event."""
    found = {}
    for group in groups:
        own = [one for one in overlaps if one[0] == group]
        times = [(since, until) for name, *_, since, until in gaps if name == group]
        found[group] = OfGroup(
            dict(Counter(one[-1] for one in own)),
            frozenset(one[1:-1] for one in own if one[-1] == VIOLATION),
            len(times),
            max((ends[group] if until is None else until) - since for since, until in times) if times else 0,
            sum(until is None for _, until in times),
        )
    return found


def checked(folder: Path) -> dict[str, OfGroup]:
    """What the plain checker finds."""
    events = read(folder)
    check = Check(events, SKEW_US)
    ends = {event["group"]: event["time_us"] for event in events if event["group"]}
    return of_tables(set(ends), check.overlaps, check.gaps, ends)


def audited(spark: Any, folder: Path, out: Path) -> dict[str, OfGroup]:
    """What the audit on Spark finds."""
    from tests.pipeline import real_journal  # noqa: PLC0415 - needs Spark

    ends = {event["group"]: event["time_us"] for event in read(folder) if event["group"]}
    found = real_journal.audited(spark, folder, out)
    return of_tables(set(ends), found.overlaps, found.gaps, ends)


def differences(ours: dict[str, OfGroup], theirs: dict[str, OfGroup]) -> list[str]:
    return [
        f"{group}: {ours.get(group)} is not {theirs.get(group)}"
        for group in sorted(ours.keys() | theirs.keys())
        if ours.get(group) != theirs.get(group)
    ]


def main() -> int:
    """0 if verifier, checker and audit agree on all seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.rules.journals", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--spark-every", type=int, default=EVERY_ON_SPARK, help="0: never")
    parser.add_argument("--live-every", type=int, default=EVERY_LIVE, help="0: never")
    options = parser.parse_args()
    spark = None
    if options.spark_every:
        from pipeline import spark as sessions  # noqa: PLC0415
        from tests.pipeline.command_line import SETTINGS  # noqa: PLC0415

        spark = sessions.start("verified", master="local[2]", conf=SETTINGS)
    wrong, on_spark, lives, classes, groups = 0, 0, 0, Counter[str](), 0
    for seed in range(options.first, options.first + options.seeds):
        with tempfile.TemporaryDirectory() as temporary:
            folder = saved(seed, Path(temporary) / "journal")
            report = verified(folder)
            ours = of_report(report)
            found = differences(ours, checked(folder))
            if options.live_every and seed % options.live_every == 0:
                lives += 1
                found += live_differences(report, live(folder, seed))
            if spark is not None and seed % options.spark_every == 0:
                on_spark += 1
                found += differences(ours, audited(spark, folder, Path(temporary) / "out"))
        groups += len(ours)
        for one in ours.values():
            classes.update(one.overlaps)
        wrong += bool(found)
        for text in found:
            print(f"seed {seed}: {text}", flush=True)
    if spark is not None:
        spark.stop()
    also = f"{on_spark} of them on Spark too, {lives} live"
    print(f"{options.seeds} journals of {groups} groups, {also}: {wrong} differ")
    print(f"overlaps: {dict(classes)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
