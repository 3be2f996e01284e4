"""Replays kept histories: those that once broke an invariant, and those that a mutation breaks."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tests.simulation import regressions
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.regressions import Regression
from tests.simulation.simulation import run
from tests.translation import test_several_processes as several
from tests.translation import test_static_members as static_races
from tests.translation.migration import test_upgrade as upgrade
from translation.settings import TranslatorSettings

KEPT = regressions.read()
BY_NAME = {mutation.__name__: mutation for mutation in MUTATIONS}


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_what_was_broken_once_holds(kept: Regression) -> None:
    result = run(kept.plan.seed, kept.plan)
    assert result.failure is None, f"{kept.shows}: {result.failure}\n{result.story}"


BY_HAND: Mapping[str, Callable[[], None]] = {
    "look_for_a_client_where_a_late_call_came": several.test_a_late_commit_does_not_tell_where_its_client_is,
    "let_an_older_process_replace_the_newer_one": partial(
        static_races.test_a_process_that_has_a_member_id_already_replaces_nobody, TranslatorSettings()
    ),
    "keep_an_id_that_an_older_join_group_has": (
        upgrade.test_to_translate_a_client_whose_older_join_group_may_still_arrive_is_given_another_id
    ),
    "keep_an_id_that_another_process_may_be_ending": partial(
        several.test_a_classic_member_that_another_process_may_be_ending_joins_under_another_id,
        TranslatorSettings(sole_process=False),
        {"version": 9},
        another_id=True,
    ),
    "forget_a_group_by_its_name": (
        upgrade.test_the_end_of_a_membership_that_was_left_behind_twice_does_not_forget_who_has_joined_since
    ),
    "forget_a_group_that_gives_up_partitions": (
        upgrade.test_since_when_a_group_gives_partitions_up_is_remembered_while_nobody_of_it_is_here
    ),
}
"""Mutations that no kept history catches since calls wait for the broker's word first: the moments in which they did
harm have become too rare. Histories by hand catch them."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_is_caught(mutation: Mutation) -> None:
    """Each mutation breaks the real code while it is open; at least one kept history must fail."""
    by_hand = BY_HAND.get(mutation.__name__)
    if by_hand is not None:
        by_hand()
        with mutation(), pytest.raises((AssertionError, KeyError)):
            by_hand()
        return
    plans = [kept.plan for kept in KEPT if kept.shown_by == mutation.__name__]
    assert plans, "no history is kept that catches this mutation"
    with mutation():
        results = [run(plan.seed, plan) for plan in plans]
    assert any(result.invariant for result in results), "no invariant was broken"


def test_there_are_mutations_enough_and_each_is_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(MUTATIONS) >= 10
