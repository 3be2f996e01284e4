"""The short way of a Heartbeat at rest, in histories that nobody thought of
(``tests/translation/apis/test_heartbeat_at_rest.py``)."""

from unittest.mock import patch

import pytest

from tests.simulation.simulation import run
from translation import translator

SEEDS = 60
CHUNK = 10


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
def test_a_history_is_the_same_without_it(first: int) -> None:
    is_at_rest = translator.is_at_rest
    taken = 0

    def counted(*about: object) -> bool:
        nonlocal taken
        at_rest = is_at_rest(*about)  # type: ignore[arg-type]
        taken += at_rest
        return at_rest

    for seed in range(first, first + CHUNK):
        with patch.object(translator, "is_at_rest", counted):
            with_it = run(seed, always_story=True).story
        with patch.object(translator, "is_at_rest", lambda *_: False):
            assert run(seed, always_story=True).story == with_it, seed
    assert taken > 10 * CHUNK
