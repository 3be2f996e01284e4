"""For how long the session timeout of a client runs, and when it does not."""

import math
from types import SimpleNamespace
from typing import Any

from translation import session_timeout


def a_member(waiting: object = None) -> Any:
    return SimpleNamespace(
        client=SimpleNamespace(session_timeout_ms=10_000),
        deadlines=SimpleNamespace(session_deadline=math.inf),
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
