"""Replays kept histories: those that once broke an invariant, and those that a mutation breaks."""

from pathlib import Path

import pytest

from tests.simulation import regressions
from tests.simulation.by_hand import BY_HAND, fails_by_hand
from tests.simulation.mutants import what_it_breaks
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.regressions import Regression
from tests.simulation.simulation import run

KEPT = regressions.read()
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "simulation.md"
BY_NAME = {mutation.__name__: mutation for mutation in MUTATIONS}


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_what_was_broken_once_holds(kept: Regression) -> None:
    result = run(kept.plan.seed, kept.plan)
    assert result.failure is None, f"{kept.shows}: {result.failure}\n{result.story}"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_is_caught(mutation: Mutation) -> None:
    """Each mutation breaks the real code while it is open; at least one kept history must fail."""
    if mutation.__name__ in BY_HAND:
        assert fails_by_hand(mutation), f"{BY_HAND[mutation.__name__].name} does not notice it"
        return
    plans = [kept.plan for kept in KEPT if kept.shown_by == mutation.__name__]
    assert plans, "no history is kept that catches this mutation"
    with mutation():
        results = [run(plan.seed, plan) for plan in plans]
    assert any(result.invariant for result in results), "no invariant was broken"


def test_the_page_has_a_row_for_each_mutation_in_their_order() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index("| what is broken |") : page.index("\n\n", page.index("| what is broken |"))]
    rows = [line.removeprefix("| ").split(" | ")[0] for line in table.splitlines()[2:]]
    assert rows == [what_it_breaks(mutation) for mutation in MUTATIONS]


def test_there_are_mutations_enough_and_each_is_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(MUTATIONS) >= 10
