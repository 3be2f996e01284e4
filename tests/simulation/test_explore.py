"""Explores every interleaving of a small group. ``make explore`` goes further: with a fault to the full horizon."""

import msgspec
import pytest

from tests.simulation.explore import SCOPES, Scope, explore
from tests.simulation.mutations import Mutation
from tests.simulation.mutations.partitions import acknowledge_early, hand_out_withheld_partitions


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_without_faults_all_interleavings_keep_the_invariants_and_settle(scope: Scope) -> None:
    found = explore(msgspec.structs.replace(scope, faults=0, until_ms=4_000))
    assert found.failure is None, found.story
    assert found.complete
    print(f"{scope.name}: {found.states} states")


@pytest.mark.timeout(600)
def test_with_one_fault_at_any_moment_of_the_joining_all_interleavings_keep_the_invariants() -> None:
    found = explore(msgspec.structs.replace(SCOPES[0], until_ms=2_000))
    assert found.failure is None, found.story
    assert found.complete
    assert found.settled > 1


@pytest.mark.parametrize("mutation", [acknowledge_early, hand_out_withheld_partitions])
def test_the_exploration_finds_what_is_broken_on_purpose(mutation: Mutation) -> None:
    with mutation():
        found = explore(msgspec.structs.replace(SCOPES[1], faults=0), limit=20_000)
    assert found.failure is not None
    assert "invariant" in found.failure
