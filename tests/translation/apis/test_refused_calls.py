"""Calls with another generation, or of a membership that the broker does not have."""

import pytest

from protocol_codecs import ErrorCode
from tests.translation.answers import A, commit_error
from tests.translation.bench import Bench, owned
from translation.actions import EventKind


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_any_other_generation_is_illegal(generation: int) -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    assert bench.error(bench.heartbeat(connection, A, generation)) == ErrorCode.ILLEGAL_GENERATION
    assert bench.error(bench.sync(connection, A, generation)) == ErrorCode.ILLEGAL_GENERATION
    assert commit_error(bench, bench.commit(connection, A, generation)) == ErrorCode.ILLEGAL_GENERATION
    assert bench.calls == []


def test_a_lost_membership_on_heartbeat_makes_the_client_join_anew() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.error(request) == ErrorCode.UNKNOWN_MEMBER_ID
    assert EventKind.FENCED in bench.kinds()


def test_a_lost_membership_on_join_is_renewed_without_telling_and_its_claim_is_withheld() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    join = bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.heartbeat_call().message.member_epoch == -1
    bench.beat(-1)
    again = bench.heartbeat_call().message
    assert (again.member_epoch, again.member_id, owned(again)) == (0, A, {})
    bench.beat(5, orders=(1,))
    assert bench.answers[join].generation_id == 5
    bench.sync(connection, A, 5)
    told = bench.heartbeat(connection, A, 5)
    bench.beat(5)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_loading_coordinator_is_kept_from_heartbeats_and_other_errors_become_retriable() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.error(request) == ErrorCode.NONE
    request = bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert bench.error(request) == ErrorCode.COORDINATOR_NOT_AVAILABLE
