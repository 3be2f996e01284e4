"""The plan of a run: the same for the same seed, with everything in it, and failovers every few minutes."""

import itertools

import pytest

from tests.held.plan import BETWEEN_FAILOVERS_S, FAILOVERS, WEIGHTS, plan


@pytest.mark.parametrize("seconds", [60.0, 3600.0])
def test_everything_happens(seconds):
    steps = list(plan(1, seconds))
    assert steps == list(plan(1, seconds)) != list(plan(2, seconds))
    assert {one.change for one in steps} == {*WEIGHTS, *FAILOVERS}
    assert all(before.at_s < after.at_s < seconds for before, after in itertools.pairwise(steps))


def test_the_coordinator_fails_over_every_four_minutes():
    times = [one.at_s for one in plan(3, 3600.0) if one.change in FAILOVERS]
    assert len(times) == 15
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert max(abs(gap - BETWEEN_FAILOVERS_S) for gap in gaps) < 20
