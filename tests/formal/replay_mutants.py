"""Breakages of the translation that the replay has to notice: those of the simulation that need no passing of time."""

from collections.abc import Mapping, Sequence

from tests.formal.replay import play_all
from tests.formal.traces import Setting, Trace
from tests.simulation.mutations import Mutation, partitions, sessions

MUTANTS: tuple[Mutation, ...] = (
    partitions.acknowledge_early,
    partitions.hand_out_withheld_partitions,
    partitions.ignore_a_lost_answer,
    partitions.ignore_the_claim,
    partitions.forget_what_is_withheld,
    partitions.adopt_with_the_described_assignment,
    partitions.rejoin_at_every_epoch,
    partitions.never_tell,
    sessions.no_keep_alive,
    sessions.trust_to_be_the_only_process,
    sessions.trust_a_client_that_was_away,
)


def first_failure(mutant: Mutation, drawn: Mapping[Setting, Sequence[Trace]]) -> str | None:
    """Play traces on the broken code; return the first divergence in any setting, None if there is none."""
    with mutant():
        failures = (play_all(setting, traces).failure for setting, traces in drawn.items())
        return next((failure for failure in failures if failure is not None), None)
