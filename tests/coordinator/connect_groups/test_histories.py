"""Histories of a Connect group in virtual time: what the simulation holds them to, and that it notices breakages.

``python -m tests.coordinator.connect_groups.simulation --seeds 2000`` runs more, ``--mutants`` looks for the seeds.
"""

from collections import Counter

import pytest

from tests.coordinator.connect_groups.simulation import mutations as mutated
from tests.coordinator.connect_groups.simulation.mutations import MUTATIONS, Mutation
from tests.coordinator.connect_groups.simulation.world import Outcome, World

SEEDS = range(1, 7)
MANY_SEEDS = range(7, 207)
ONCE_FAILED = (4580, 9918, 15908, 16927)
"""Of the seeds 1 to 20,000. In all of them the model was wrong, not the coordinator: `test_model.py` has the causes."""
HAPPENS = (
    "ConnectGroupInstallAssignmentRequest 0",
    "ConnectGroupInstallAssignmentRequest 10001",
    "ConnectGroupInstallAssignmentRequest 25",
    "ConnectGroupPrepareAssignmentRequest 0",
    "targets",
    "crashes",
    "leave",
    "add",
    "config",
    "restarts",
    "deaths",
)
"""Without these in some history nothing would be shown. Numbers are error codes."""
NOTICED_BY: dict[Mutation, int] = {
    mutated.give_what_others_still_hold: 2,
    mutated.take_without_waiting: 1,
    mutated.forget_what_is_not_given_up_yet: 1,
    mutated.fence_at_once_as_the_kip_says: 5,
    mutated.never_fence: 1,
    mutated.never_take_another_to_compute: 3,
    mutated.ask_the_same_worker_again: 1,
    mutated.install_what_names_nobody: 1,
    mutated.install_a_task_twice: 1,
    mutated.install_for_an_unknown_worker: 1,
    mutated.install_what_is_not_configured: 3,
    mutated.install_for_an_old_epoch: 1,
    mutated.give_metadata_before_its_epoch: 1,
    mutated.keep_the_epoch_when_a_worker_goes: 1,
}
"""A seed for each mutation."""
AT_ONCE: tuple[Mutation, ...] = (
    mutated.give_what_others_still_hold,
    mutated.take_without_waiting,
    mutated.forget_what_is_not_given_up_yet,
    mutated.never_take_another_to_compute,
    mutated.install_a_task_twice,
    mutated.install_what_names_nobody,
    mutated.install_for_an_unknown_worker,
    mutated.give_metadata_before_its_epoch,
)
"""Those that are noticed soon after a history begins."""
LATE = tuple(mutation for mutation in MUTATIONS if mutation not in AT_ONCE)


def failures(seeds: range) -> tuple[list[str], Counter[str]]:
    outcomes: list[tuple[int, Outcome]] = [(seed, World(seed).run()) for seed in seeds]
    counts = sum((outcome.counts for _, outcome in outcomes), Counter[str]())
    return [f"{seed}: {outcome.violation}" for seed, outcome in outcomes if outcome.violation], counts


def test_a_few_histories_keep_all_rules():
    failed, counts = failures(SEEDS)

    assert failed == []
    assert [what for what in HAPPENS if not counts[what]] == []


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_history_that_failed_once_keeps_all_rules(seed: int):
    assert World(seed).run().violation is None


@pytest.mark.long
@pytest.mark.parametrize("first", range(MANY_SEEDS.start, MANY_SEEDS.stop, 50))
def test_many_histories_keep_all_rules(first: int):
    failed, _ = failures(range(first, first + 50))

    assert failed == []


def test_a_seed_is_a_history():
    assert World(3).run() == World(3).run()


@pytest.mark.parametrize("mutation", AT_ONCE, ids=lambda mutation: mutation.__name__)
def test_a_planted_breakage_is_noticed(mutation: Mutation):
    with mutation():
        assert World(NOTICED_BY[mutation]).run().violation is not None


@pytest.mark.long
@pytest.mark.parametrize("mutation", LATE, ids=lambda mutation: mutation.__name__)
def test_a_planted_breakage_is_noticed_later(mutation: Mutation):
    with mutation():
        assert World(NOTICED_BY[mutation]).run().violation is not None
