"""Explores every interleaving of a small group, and of one member and two replicas with a member log.

``make explore`` and ``make explore-fleet`` go further: with a fault to the full horizon.
"""

import msgspec
import pytest

from tests.simulation.explore import fleet
from tests.simulation.explore.fleet import TwoReplicas
from tests.simulation.explore.search import explore
from tests.simulation.explore.three_members import SCOPES, ThreeMembers
from tests.simulation.mutations import Mutation
from tests.simulation.mutations.member_log import (
    expire_at_once,
    expire_what_was_lost,
    let_whatever_is_read_count,
)
from tests.simulation.mutations.partitions import acknowledge_early, hand_out_withheld_partitions


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_without_faults_all_interleavings_keep_the_invariants_and_settle(scope: ThreeMembers) -> None:
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


@pytest.mark.parametrize("scope", fleet.SCOPES, ids=lambda scope: scope.name)
@pytest.mark.parametrize(("moves", "faults", "until_ms"), [(1, 0, 6_000), (2, 0, 4_500), (0, 1, 4_000)])
def test_a_member_of_two_replicas_keeps_the_invariants_in_all_interleavings_with_the_log(
    scope: TwoReplicas, moves: int, faults: int, until_ms: int
) -> None:
    found = explore(msgspec.structs.replace(scope, moves=moves, faults=faults, until_ms=until_ms))
    assert found.failure is None, found.story
    assert found.complete
    assert found.settled > 1


@pytest.mark.parametrize(
    ("mutation", "faults"), [(expire_what_was_lost, 0), (expire_at_once, 1), (let_whatever_is_read_count, 1)]
)
def test_the_exploration_of_two_replicas_finds_what_is_broken_on_purpose(
    mutation: Mutation, faults: int
) -> None:
    with mutation():
        found = explore(msgspec.structs.replace(fleet.SCOPES[0], faults=faults, until_ms=4_000), limit=20_000)
    assert found.failure is not None
    assert "invariant" in found.failure
