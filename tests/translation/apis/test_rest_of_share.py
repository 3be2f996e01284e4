"""A client that joins others waits in JoinGroup for all that they give up to it, so that it rebalances once."""

import pytest

from protocol_codecs import ErrorCode
from tests.translation.answers import A, described, member
from tests.translation.bench import TOPIC, Bench
from translation.actions import Connection, RequestId
from translation.settings import TranslatorSettings

POLL_S = TranslatorSettings().join_poll_s
LIMIT_S = TranslatorSettings().rest_wait_s


def with_its_first_partition(**join: int) -> tuple[Bench, Connection, RequestId]:
    """A client that is to have partitions 0, 1 and 2, of which another member has given up the first."""
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, A, **join)
    bench.beat(4)
    bench.advance(POLL_S)
    bench.beat(5, orders=(0,))
    bench.reply(described(member("other"), member(A, target=(0, 1, 2))))
    return bench, connection, request


def test_a_client_that_joins_others_is_answered_with_its_whole_share() -> None:
    bench, connection, request = with_its_first_partition()
    for partitions in (0,), (0, 1):
        assert request not in bench.answers
        bench.advance(POLL_S)
        assert bench.heartbeat_call().message.topic_partitions is None
        bench.beat(5, orders=partitions)
    bench.advance(POLL_S)
    bench.beat(5, orders=(0, 1, 2))
    assert bench.answers[request].generation_id == 5
    assert bench.handed(bench.sync(connection, A, 5)) == {TOPIC: (0, 1, 2)}


def test_the_wait_for_the_rest_ends_after_an_interval_of_heartbeats() -> None:
    """Another member does not give up what it has, as its application is busy."""
    bench, connection, request = with_its_first_partition()
    for _ in range(round(LIMIT_S / POLL_S)):
        assert request not in bench.answers
        bench.advance(POLL_S)
        bench.beat(5)
    assert bench.answers[request].error_code == ErrorCode.NONE
    assert bench.handed(bench.sync(connection, A, 5)) == {TOPIC: (0,)}


def test_the_wait_for_the_rest_is_not_longer_than_the_rebalance_timeout_allows() -> None:
    bench, _, request = with_its_first_partition(rebalance_timeout_ms=400)
    assert request not in bench.answers
    bench.advance(0.05)
    bench.beat(5)
    assert request in bench.answers


def test_what_goes_to_others_before_the_client_had_it_ends_the_wait() -> None:
    """They wait for it, and it is given up with the client's SyncGroup."""
    bench, _, request = with_its_first_partition()
    bench.advance(POLL_S)
    bench.beat(5, orders=())
    assert bench.answers[request].generation_id == 5


def test_a_client_whose_membership_ends_while_it_waits_for_the_rest_begins_another() -> None:
    bench, _, request = with_its_first_partition()
    bench.advance(POLL_S)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    bench.answer_lookups()
    assert bench.heartbeat_call().message.member_epoch == 0
    bench.beat(7, orders=(0, 1, 2))
    assert bench.answers[request].generation_id == 7


@pytest.mark.parametrize("error", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_client_whose_group_is_not_described_waits_no_longer(error: ErrorCode) -> None:
    bench = Bench()
    request = bench.join(bench.connect(), A)
    bench.beat(4)
    bench.advance(POLL_S)
    bench.beat(5, orders=(0,))
    bench.reply(described(error=error))
    assert bench.answers[request].generation_id == 5


def test_a_client_that_gets_its_share_at_once_is_not_looked_up() -> None:
    bench = Bench()
    request = bench.join(bench.connect(), A)
    bench.beat(5, orders=(0,))
    assert bench.answers[request].generation_id == 5
    assert not bench.calls


def test_a_membership_that_ends_while_its_share_is_looked_up_is_not_answered_with_a_generation() -> None:
    """A newer process takes its instance id while the broker describes the group."""
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    older = bench.join(old, "older", instance_id="i-1")
    bench.beat(4)
    bench.advance(POLL_S)
    bench.beat(5, orders=(0,))
    (share,) = bench.calls
    bench._new_group = False
    newer = bench.join(new, "", instance_id="i-1")
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    (holder,) = [call for call in bench.calls if call is not share]
    bench.reply(described(member("older", instance_id="i-1")), holder)
    bench.beat(-2)
    bench.beat(6, orders=(0,))
    assert bench.answers[newer].generation_id == 6
    bench.reply(described(member("epochgate-uuid-1", instance_id="i-1")), share)
    for call in list(bench.calls):
        bench.reply(described(member("epochgate-uuid-1", instance_id="i-1")), call)
    assert bench.error(older) == ErrorCode.FENCED_INSTANCE_ID
