"""Checks predicted Heartbeats in random histories (``tests/translation/apis/test_predicted_heartbeat.py``)."""

from unittest.mock import patch

import pytest

from tests.simulation.simulation import run
from translation.routing import call_routing

SEEDS = 60
CHUNK = 10


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_a_history_is_the_same_without_it(first: int) -> None:
    is_predictable = call_routing.is_predictable
    taken = 0

    def counted(*about: object) -> bool:
        nonlocal taken
        predicted = is_predictable(*about)  # type: ignore[arg-type]
        taken += predicted
        return predicted

    for seed in range(first, first + CHUNK):
        with patch.object(call_routing, "is_predictable", counted):
            with_it = run(seed, always_story=True).story
        with patch.object(call_routing, "is_predictable", lambda *_: False):
            assert run(seed, always_story=True).story == with_it, seed
    assert taken > 10 * CHUNK
