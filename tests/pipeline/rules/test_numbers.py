"""Which of a process's numbers are missing, whatever the order in which they come."""

import random

import pytest

from pipeline.rules import numbers as module
from pipeline.rules.losses import Loss
from pipeline.rules.numbers import Numbers

P = ("r", "b")


def taken(*seqs: int) -> Numbers:
    """Numbers that came in this order; each was written at ten times itself."""
    numbers = Numbers()
    for seq in seqs:
        numbers.take(seq, seq * 10)
    return numbers


def test_a_jump_is_a_loss_between_the_times_around_it() -> None:
    numbers = taken(1, 2, 5, 6, 9)
    assert list(numbers.losses(P)) == [Loss(*P, 3, 4, 20, 50), Loss(*P, 7, 8, 60, 90)]
    assert (numbers.lost, numbers.events, numbers.first_us, numbers.last_us) == (4, 5, 10, 90)


def test_what_is_missing_at_the_beginning_was_lost_at_any_time_before() -> None:
    assert list(taken(4).losses(P)) == [Loss(*P, 1, 3, 0, 40)]


def test_a_number_that_comes_again_is_known() -> None:
    numbers = taken(1, 2, 5)
    assert [numbers.take(seq, 0) for seq in (1, 2, 5, 3)] == [False, False, False, True]
    assert numbers.duplicates == 3


@pytest.mark.parametrize("seed", range(20))
def test_the_order_makes_no_difference(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test
    present = [seq for seq in range(1, 60) if rng.random() < 0.8] or [1]
    mixed = [*present, *rng.choices(present, k=10)]
    rng.shuffle(mixed)
    assert list(taken(*mixed).losses(P)) == list(taken(*present).losses(P))
    assert taken(*mixed).duplicates == 10


def test_of_very_many_holes_the_oldest_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HOLES", 3)
    numbers = taken(*range(1, 20, 2))
    losses = list(numbers.losses(P))
    assert len(losses) == 3
    assert (losses[0].first_seq, losses[0].from_us, losses[-1]) == (2, 10, Loss(*P, 18, 18, 170, 190))
    assert numbers.lost == 9, "what was lost is still counted as it is"
