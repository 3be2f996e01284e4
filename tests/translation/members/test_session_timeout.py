"""For how long the session timeout of a client runs, and when it does not."""

import math
from types import SimpleNamespace
from typing import Any

from translation.members import session_timeout


def a_member(waiting: object = None) -> Any:
    return SimpleNamespace(
        client=SimpleNamespace(session_timeout_ms=10_000),
        deadlines=SimpleNamespace(
            session_deadline=math.inf, rebalance_deadline=math.inf, suspended_until=math.inf
        ),
        join=SimpleNamespace(waiting=waiting),
    )


def test_it_runs_from_the_last_sign_of_life_for_as_long_as_the_client_declared() -> None:
    member = a_member()
    for now in (100.0, 105.0):
        session_timeout.renew(member, now)
        assert member.deadlines.session_deadline == now + 10


def test_it_does_not_run_while_a_join_group_waits_for_its_answer() -> None:
    member = a_member(waiting=object())
    session_timeout.renew(member, 100.0)
    assert member.deadlines.session_deadline == math.inf


def test_a_client_whose_timeouts_were_suspended_has_a_whole_session_also_to_rejoin() -> None:
    member = a_member()
    member.deadlines.session_deadline, member.deadlines.rebalance_deadline = 20.0, 12.0
    member.deadlines.suspended_until = 1_000.0
    session_timeout.renew(member, 100.0)
    assert member.deadlines.session_deadline == member.deadlines.rebalance_deadline == 110.0
    assert member.deadlines.suspended_until == math.inf
