"""A hundred histories of two to four replicas with one member log (``python -m tests.simulation --fleet`` for more)."""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.__main__ import run_seed
from tests.simulation.simulation import Result

SEEDS = 100
CHUNK = 20


@cache
def results(first: int) -> tuple[Result, ...]:
    return tuple(run_seed(seed, fleet=True) for seed in range(first, first + CHUNK))


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_the_invariants_hold(first: int) -> None:
    for result in results(first):
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


def test_members_are_expired_and_taken_over_by_the_log() -> None:
    counts: Counter[str] = Counter()
    for first in range(1, SEEDS + 1, CHUNK):
        for result in results(first):
            counts.update(result.counts)
    assert counts["records of the member log"] > 500
    assert counts["members that the log expired"] > 10
    assert counts["a client moves to another replica"] > 30
    assert counts["a replica is replaced"] > 15
