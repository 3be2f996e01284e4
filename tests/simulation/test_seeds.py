"""Two thousand histories, each made from its seed, on the real translation and the embedded coordinator.

A seed that fails prints its story; `python -m tests.simulation --seeds N` replays it.
"""

import pytest

from tests.simulation.simulation import run

SEEDS = 2_000
CHUNK = 100


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_the_invariants_hold(first: int) -> None:
    for seed in range(first, first + CHUNK):
        result = run(seed)
        assert result.failure is None, f"seed {seed}: {result.failure}\n{result.story}"
