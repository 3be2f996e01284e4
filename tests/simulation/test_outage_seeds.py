"""Histories in which brokers and member log go away for up to a minute, for one process and for two to four replicas.

``python -m tests.simulation --outage [--fleet] --seeds 1000`` plays more of them.
"""

from collections import Counter
from functools import cache
from unittest.mock import patch

import pytest

from tests.simulation.__main__ import run_seed
from tests.simulation.simulation import Result
from translation.engine.reach import Reach
from translation.members.member import Member
from translation.membership.expiry import Expiry

ALONE, TOGETHER, CHUNK = 60, 60, 20
BROKEN = 40
ASKS_LOG = Expiry.asks_log


@cache
def results(first: int, *, fleet: bool) -> tuple[Result, ...]:
    return tuple(run_seed(seed, fleet=fleet, outage=True) for seed in range(first, first + CHUNK))


@pytest.mark.parametrize("first", range(1, ALONE + 1, CHUNK))
def test_the_invariants_hold_for_one_process(first: int) -> None:
    for result in results(first, fleet=False):
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


@pytest.mark.parametrize("first", range(1, TOGETHER + 1, CHUNK))
def test_the_invariants_hold_for_a_fleet(first: int) -> None:
    for result in results(first, fleet=True):
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


def test_members_are_left_behind_in_outages() -> None:
    counts: Counter[str] = Counter()
    for first in range(1, TOGETHER + 1, CHUNK):
        for fleet in (False, True):
            for result in results(first, fleet=fleet):
                counts.update(result.counts)
    assert counts["outages of brokers"] > 20
    assert counts["outages of log"] > 1
    assert counts["outages of brokers and log"] > 20
    assert counts["outages judged"] > 100
    assert counts["clients whose own session timer ended"] > 10


def _without_a_word(expiry: Expiry, member: Member) -> bool:
    """As it was: the log was not asked for a member that had no connection."""
    return member.connection_id is not None and ASKS_LOG(expiry, member)


@pytest.mark.parametrize("fleet", [False, True])
def test_a_process_that_forgets_who_fell_silent_in_an_outage_is_noticed(fleet: bool) -> None:
    """It did so once: the broker's session timeout of 45 s ended their memberships."""
    with (
        patch.object(Reach, "suspend", lambda *_: False),
        patch.object(Expiry, "asks_log", _without_a_word),
    ):
        failures = (run_seed(seed, fleet=fleet, outage=True).failure for seed in range(1, BROKEN + 1))
        assert any(failure is not None and failure.startswith("invariant 12") for failure in failures)
