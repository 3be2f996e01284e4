"""Two to four member logs on one simulated log, under faults (:mod:`tests.translation.member_log.replicas`).

``python -m tests.translation.member_log.test_member_logs_together 0 10000`` plays more seeds (25 a second).
"""

import sys

import pytest

from tests.simulation.mutations import Mutation, member_log
from tests.translation.member_log.replicas import plays


@pytest.mark.parametrize("block", range(4))
def test_nobody_is_expired_who_was_heard_and_all_agree_and_settle(block: int) -> None:
    failed = {seed: story for seed in range(block * 50, block * 50 + 50) if (story := plays(seed))}
    assert not failed


MUTATIONS = [
    member_log.serve_on_an_unconfirmed_connection,
    member_log.never_lapse,
    member_log.confirm_claims_that_came_after_the_write,
    member_log.expire_at_once,
    member_log.expire_what_was_lost,
    member_log.expire_who_came_back,
    member_log.write_before_the_first_is_read_back,
    member_log.write_while_away,
    member_log.serve_a_dead_id,
    member_log.forget_a_late_served,
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_each_rule_is_needed(mutation: Mutation) -> None:
    with mutation():
        assert any(plays(seed) for seed in range(200))


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    found = {seed: story for seed in range(first, last) if (story := plays(seed))}
    sys.exit(f"{len(found)} of {last - first} seeds failed: {dict(list(found.items())[:5])}" if found else 0)
