"""Which rebalance timeout a client has, and which the broker is told."""

from types import SimpleNamespace

import pytest

from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.members import rebalance_timeout


@pytest.mark.parametrize(("declared_ms", "counts_ms"), [(-1, 10_000), (0, 0), (300_000, 300_000)])
def test_the_session_timeout_counts_only_where_none_is_declared(declared_ms: int, counts_ms: int) -> None:
    message = JoinGroupRequest(session_timeout_ms=10_000, rebalance_timeout_ms=declared_ms)
    assert rebalance_timeout.of_client_ms(message) == counts_ms


@pytest.mark.parametrize(
    ("client_ms", "told_ms"), [(60_000, 60_000 + 10_000 + 5_000), (2**31 - 1, 2**31 - 1)]
)
def test_the_broker_is_told_more_than_the_client_has_as_far_as_the_field_reaches(
    client_ms: int, told_ms: int
) -> None:
    client = SimpleNamespace(session_timeout_ms=10_000, rebalance_timeout_ms=client_ms)
    assert rebalance_timeout.told_to_broker_ms(client, margin_ms=5_000) == told_ms


def test_it_runs_from_the_moment_at_which_it_is_started() -> None:
    client = SimpleNamespace(session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    member = SimpleNamespace(client=client, deadlines=SimpleNamespace(rebalance_deadline=0.0))
    rebalance_timeout.start(member, now=100.0)
    assert member.deadlines.rebalance_deadline == 160.0
