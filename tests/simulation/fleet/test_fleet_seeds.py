"""A hundred histories of two to four replicas with one member log (``python -m tests.simulation --fleet`` for more)."""

from collections import Counter
from functools import cache

import pytest

from tests.simulation import coverage
from tests.simulation.__main__ import run_seed
from tests.simulation.simulation import Result

SEEDS = 100
CHUNK = 20
FAILED_ONCE = (
    *(167, 327, 382, 385, 419, 716, 831, 859, 911),
    *(1030, 1038, 1185, 1342, 1866, 2040, 2075, 2227, 2269, 2278, 2368, 2430),
    *(2503, 2725, 3033, 4905, 6370, 9245),
    *(10485, 12699, 13203, 14234, 21851, 24519, 32775, 32881, 42355, 49950, 58882, 68033, 75090),
    *(77959, 85625, 91185, 94627, 94961),
)
"""Beyond the first hundred (docs/evidence/simulation.md, "With a member log")."""

OLD_STATE_SEEDS = 40
OLD_STATE_FAILED_ONCE = (89, 327, 818, 885, 1243, 2875)
"""With ``--old-state`` (docs/evidence/simulation.md, "With what is out of date")."""


@cache
def results(first: int) -> tuple[Result, ...]:
    return tuple(run_seed(seed, fleet=True) for seed in range(first, first + CHUNK))


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_the_invariants_hold(first: int) -> None:
    for result in results(first):
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_a_seed_that_failed_once_does_not_fail_again(seed: int) -> None:
    result = run_seed(seed, fleet=True)
    assert result.failure is None, f"{result.failure}\n{result.story}"


def test_members_are_expired_and_taken_over_by_the_log() -> None:
    counts: Counter[str] = Counter()
    for first in range(1, SEEDS + 1, CHUNK):
        for result in results(first):
            counts.update(result.counts)
    assert counts["records of the member log"] > 500
    assert counts["members that the log expired"] > 10
    assert counts["a client moves to another replica"] > 30
    assert counts["a replica is replaced"] > 15
    assert counts["vice: keeps its partitions when JoinGroup fails"] > 50


@cache
def old_state_results() -> tuple[Result, ...]:
    return tuple(
        run_seed(seed, fleet=True, old_state=True)
        for seed in (*range(1, OLD_STATE_SEEDS + 1), *OLD_STATE_FAILED_ONCE)
    )


def test_the_invariants_hold_with_what_is_out_of_date() -> None:
    for result in old_state_results():
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


def test_everything_that_can_be_out_of_date_occurs() -> None:
    counts: Counter[str] = Counter()
    for result in old_state_results():
        counts.update(result.counts)
    assert coverage.missing(counts, coverage.OLD_STATE, at_least=10) == [], coverage.table(counts)
