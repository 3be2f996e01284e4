"""Calls with another generation, or of a membership that the broker does not have."""

import pytest

from protocol_codecs import ErrorCode
from tests.translation.answers import A, commit_error, described
from tests.translation.bench import Bench, owned
from tests.translation.live_groups import classic_group
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
    bench.answer_lookups()  # it may have been the last one of the new protocol
    again = bench.heartbeat_call().message
    assert (again.member_epoch, again.member_id, owned(again)) == (0, A, {})
    bench.beat(5, orders=(1,))
    assert bench.answers[join].generation_id == 5
    bench.sync(connection, A, 5)
    told = bench.heartbeat(connection, A, 5)
    bench.beat(5)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_membership_lost_in_join_group_is_not_renewed_while_its_group_is_a_classic_one_that_rebalances() -> (
    None
):
    """Its loss made the group a classic one, whose members have yet to give up what they were not assigned again."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    bench.beat(-1, ErrorCode.GROUP_ID_NOT_FOUND)
    for state in ("PreparingRebalance", "CompletingRebalance"):
        bench.reply(classic_group(state=state))
        assert bench.calls == []
        bench.advance(0.3)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0


def test_a_membership_renewed_inside_join_group_is_reported_with_what_the_client_still_owns() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    assert EventKind.REJOINED_AFTER_LOSS not in bench.kinds()
    bench.events.clear()
    bench.join(connection, A, claims=(1,), protocol="cooperative-sticky")
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    bench.beat(-1)
    bench.answer_lookups()
    bench.beat(5, orders=(1,))
    kinds = [event.kind for event in bench.events if event.kind is not EventKind.STATE_CHANGED]
    assert kinds == [EventKind.REVOKED, EventKind.FENCED, EventKind.REJOINED_AFTER_LOSS, EventKind.JOINED]
    (renewed,) = [event for event in bench.events if event.kind is EventKind.REJOINED_AFTER_LOSS]
    assert (renewed.member_id, renewed.epoch) == (A, 5)
    assert renewed.owned is not None
    assert [one.partitions for one in renewed.owned] == [(1,)]


def test_a_membership_lost_while_its_join_group_waits_is_reported_when_it_is_renewed() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, A)
    bench.beat(1)  # nothing is assigned yet, so the JoinGroup waits
    bench.advance(0.25)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    bench.reply(described())
    bench.beat(2, orders=(0,))
    assert bench.kinds().count(EventKind.REJOINED_AFTER_LOSS) == 1


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
