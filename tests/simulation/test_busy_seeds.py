"""Histories of clients that commit all the time (``python -m tests.simulation --busy`` for more)."""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.__main__ import run_seed
from tests.simulation.proxy_process import PIPELINED
from tests.simulation.simulation import Result

SEEDS = 20
FLEET_SEEDS = 10
CHUNK = 10


@cache
def results(first: int) -> tuple[Result, ...]:
    return tuple(run_seed(seed, busy=True) for seed in range(first, first + CHUNK))


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_the_invariants_hold(first: int) -> None:
    for result in results(first):
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


@pytest.mark.parametrize("seed", range(1, FLEET_SEEDS + 1))
def test_the_invariants_hold_in_a_fleet(seed: int) -> None:
    result = run_seed(seed, busy=True, fleet=True)
    assert result.failure is None, f"{result.failure}\n{result.story}"


def test_commits_are_under_way_beside_each_other() -> None:
    counts: Counter[str] = Counter()
    for first in range(1, SEEDS + 1, CHUNK):
        for result in results(first):
            counts.update(result.counts)
    assert counts[PIPELINED] > 1_000
    assert counts["rejoins"] > 10
