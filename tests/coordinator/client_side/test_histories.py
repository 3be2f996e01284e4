"""Histories with client-side assignors that are slow, wrong, out of date or die: what must hold, holds.

``python -m tests.coordinator.client_side --seeds 1-20000`` plays many more.
"""

from collections import Counter

import pytest

from tests.coordinator.client_side.mutations import MUTATIONS, Mutation, noticed
from tests.coordinator.client_side.world import play

SEEDS = range(1, 121)


def test_everything_holds_whatever_assignors_do():
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        result = play(seed)
        assert not result.failure, f"seed {seed}: {result.failure}\n" + "\n".join(result.story)
        counts.update(result.counts)

    # None of this is worth anything if the histories do not contain it.
    for what in (
        "installed",
        "installed for an older epoch",
        "installed for a replaced member",
        "timed out",
        "assigned by the coordinator",
        "computes: dies in between",
        "computes: right, and slow",
        "refused: a partition twice",
        "refused: a partition to nobody",
        "refused: a member that is none",
        "refused: another epoch",
    ):
        assert counts[what], what


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_a_breakage_is_noticed(mutation: Mutation):
    assert noticed(mutation, mutation.seed), (
        "a history that noticed this does not any more: --search finds another"
    )


def test_the_same_seed_is_the_same_history():
    assert play(7) == play(7)


@pytest.mark.long
def test_everything_holds_in_many_histories():
    failures = {result.seed: result.failure for result in map(play, range(1, 2_001)) if result.failure}
    assert failures == {}
