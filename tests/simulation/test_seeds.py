"""A thousand histories, each made from its seed, on the real translation and the embedded coordinator.

A seed that fails prints its story; ``make simulate SEED=N`` replays it.
"""

from collections import Counter
from functools import cache

import pytest

from tests.simulation import coverage
from tests.simulation.__main__ import seeds_of
from tests.simulation.simulation import Result, run

SEEDS = 1_000
CHUNK = 100
FAILED_ONCE = (
    *(
        5621,
        7985,
        9164,
        11003,
        11419,
        11538,
        11821,
        13699,
        13922,
        14777,
        15142,
        15339,
        16542,
        16760,
        16927,
        19510,
        20565,
        22046,
    ),
    *(
        22507,
        26567,
        38215,
        39285,
        40260,
        44263,
        44594,
        45018,
        46837,
        47157,
        55787,
        56787,
        57615,
        63686,
        64434,
        71562,
        74990,
        83362,
        83854,
        93386,
        97880,
        99918,
    ),
)
"""Beyond the first thousand (docs/evidence/simulation.md, "With hostile connections and native members")."""


@cache
def results(first: int) -> tuple[Result, ...]:
    return tuple(run(seed) for seed in range(first, first + CHUNK))


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_the_invariants_hold(first: int) -> None:
    for result in results(first):
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_a_seed_that_failed_once_does_not_fail_again(seed: int) -> None:
    result = run(seed)
    assert result.failure is None, f"{result.failure}\n{result.story}"


@pytest.mark.timeout(900)  # alone it runs all the seeds first
def test_every_kind_of_client_vice_and_fault_occurs() -> None:
    counts: Counter[str] = Counter()
    for first in range(1, SEEDS + 1, CHUNK):
        for result in results(first):
            counts.update(result.counts)
    assert coverage.missing(counts) == [], coverage.table(counts)


def test_a_seed_is_one_history() -> None:
    assert run(5, always_story=True).story == run(5, always_story=True).story


@pytest.mark.parametrize(
    ("text", "seeds"), [("2000", range(1, 2001)), ("201-300", range(201, 301)), ("7-7", range(7, 8))]
)
def test_seeds_are_a_count_or_a_range(text: str, seeds: range) -> None:
    assert seeds_of(text) == seeds
