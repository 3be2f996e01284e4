"""However a journal is cut into batches, the live audit tells the violations that verify finds in the whole journal."""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline.rules import verifier
from pipeline.rules.certificate import Certificate
from pipeline.rules.classes import VIOLATION
from pipeline.rules.lines import Line, parse_line
from pipeline.rules.shard import LONG_GONE_US, Bounds
from tests.pipeline.migration import START_US, Migration, Plan, S
from tests.pipeline.rules.journals import plan, verified
from tests.pipeline.rules.shards import Live, invented, missed, of_verify
from tests.pipeline.rules.test_shard import event

DELAY_US = 20 * S
"""Longer than a process is silent, and than its lines are late: five seconds, and ten."""

MUCH_LATER_US = 10 * LONG_GONE_US
"""All that is old is forgotten by then; one batch has the journal and this."""

Places = dict[str, list[bytes]]
Cut = Callable[[Places, random.Random], Iterator[Places]]

SEEDS = range(24)
"""Each fault of the model three times: lost events, killed processes, clocks beyond the bound, planted violations."""

SOME = [0, 2, 4, 7]
"""Those that the normal suite goes through."""

MANY = [pytest.param(seed, marks=() if seed in SOME else pytest.mark.long) for seed in SEEDS]


@pytest.fixture(autouse=True)
def all_violations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates list all of them."""
    monkeypatch.setattr(verifier, "MOST_SHOWN", 10_000)


def migration(of: Plan) -> Migration:
    """A migration whose processes write an ``alive`` event every five seconds, as real ones do."""
    made = Migration(of)
    last_us = max(one.at_us for one in made.written)
    for boot in made.boots:
        for at_us in range(boot.start_us + 5 * S, min(boot.end_us, last_us), 5 * S):
            made.write(at_us, boot, "alive")
    made.written.sort()
    return made


def by_process(folder: Path, _late: random.Random) -> Places:
    """Each process's files in order."""
    found: Places = {}
    for path in sorted(folder.iterdir(), key=lambda path: int(path.name.split(".")[-2])):
        found.setdefault(path.name.rsplit(".", 2)[0], []).extend(path.read_bytes().splitlines())
    return found


def by_topic(folder: Path, late: random.Random) -> Places:
    """A topic of four partitions by group, in which lines are up to ten seconds late."""
    lines = []
    for line in itertools.chain.from_iterable(by_process(folder, late).values()):
        one = parse_line(line)
        assert isinstance(one, Line)
        place = str(sum((one.group or "").encode()) % 4)
        lines.append(((one.time_us or 0) + late.randrange(10 * S), place, line))
    found: Places = {}
    for _, place, line in sorted(lines):
        found.setdefault(place, []).append(line)
    return found


def at_once(places: Places, _random: random.Random) -> Iterator[Places]:
    """All in one batch."""
    yield places


def evenly(places: Places, cut: random.Random) -> Iterator[Places]:
    """Batches of any size, each with the same share of all places, as Kafka's limit divides it."""
    share, at = 0.0, dict.fromkeys(places, 0)
    while share < 1:
        share += cut.choice((0.001, 0.01, 0.1, 0.5)) * cut.random()
        batch = {}
        for place, lines in places.items():
            to = max(at[place] + 1, round(len(lines) * min(share, 1)))
            batch[place] = lines[at[place] : to]
            at[place] = min(to, len(lines))
        yield {place: lines for place, lines in batch.items() if lines}


def unevenly(places: Places, cut: random.Random) -> Iterator[Places]:
    """Each batch has something of every place that has more, and of some places much."""
    at = dict.fromkeys(places, 0)
    while rest := [place for place, lines in places.items() if at[place] < len(lines)]:
        batch = {}
        for place in rest:
            to = at[place] + cut.choice((1, 5, 50, 500))
            batch[place] = places[place][at[place] : to]
            at[place] = to
        yield batch


def followed(
    places: Places,
    cut: Cut,
    seed: int,
    *,
    delay_us: int = DELAY_US,
    end_us: int,
    bounds: Bounds | None = None,
) -> Live:
    """The live audit after all batches, and after a much later event, by which all is due."""
    live = Live(delay_us, bounds)
    for batch in cut(places, random.Random(seed)):  # noqa: S311 - a model, no secret
        live.turn(*batch.items())
    live.turn(("end", [event(1, "alive", end_us, replica="other")]))
    return live


@pytest.mark.parametrize("seed", MANY)
def test_every_cut_tells_what_verify_finds(seed: int, tmp_path: Path) -> None:
    migration(plan(seed)).save(tmp_path / "journal", per_file=400)
    report = verified(tmp_path / "journal")
    for source, cut in itertools.product((by_process, by_topic), (at_once, evenly, unevenly)):
        places = source(tmp_path / "journal", random.Random(seed))  # noqa: S311 - a model, no secret
        after_us = MUCH_LATER_US if cut is at_once else 5 * 60 * S
        live = followed(places, cut, seed, end_us=START_US + 1_000 * S + after_us)
        how = source.__name__, cut.__name__
        assert not sum(one.late for one in live.told), how
        assert (missed(live.found, report), invented(live.found, report)) == ([], []), how
        final = {one.key for one in live.found if one.overlap_class == VIOLATION and one.pending is None}
        assert final <= set(of_verify(report)), f"{how}: what is told for good holds at once"


@pytest.mark.parametrize("seed", MANY)
def test_what_comes_too_late_or_is_too_much_hides_violations_and_makes_none(
    seed: int, tmp_path: Path
) -> None:
    """Lines that are later than the delay, processes that are silent for longer, and more than may wait."""
    Migration(plan(seed)).save(tmp_path / "journal", per_file=400)
    theirs = {_members(row) for one in verified(tmp_path / "journal").certificates for row in _rows(one)}
    chance = random.Random(seed)  # noqa: S311 - a model, no secret
    late = 0
    for delay_us, waiting in ((S, 100_000), (DELAY_US, 100)):
        places = by_topic(tmp_path / "journal", chance)
        bounds = Bounds(waiting=waiting)
        live = followed(places, evenly, seed, delay_us=delay_us, end_us=START_US + 2_000 * S, bounds=bounds)
        late += sum(one.late for one in live.told)
        newest = {one.key: one for one in live.found}.values()
        for_good = [one for one in newest if one.overlap_class == VIOLATION and one.pending is None]
        assert {_members({"group": one.group, **one.about}) for one in for_good} <= theirs
    assert late


def _rows(certificate: Certificate) -> Iterator[dict[str, Any]]:
    for one in certificate.owners.violations:
        yield {"group": certificate.group, **msgspec.structs.asdict(one)}


def _members(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["group"], row["partition"], *sorted((row["first_member"], row["second_member"]))


@pytest.mark.long
def test_there_is_much_to_find(tmp_path: Path) -> None:
    """The seeds above have violations, and overlaps that clocks, losses and killed processes excuse."""
    classes: set[str] = set()
    violations = 0
    for seed in SEEDS:
        migration(plan(seed)).save(tmp_path / str(seed), per_file=400)
        report = verified(tmp_path / str(seed))
        violations += len(of_verify(report))
        classes |= {
            name for one in report.certificates for name, count in one.owners.overlaps.items() if count
        }
    assert violations >= 30
    assert classes >= {"violation", "clock", "events_lost", "unproven", "within_skew"}
