"""What a connection knows of its share session: only what the broker has said (KIP-932)."""

from collections.abc import Callable
from functools import partial

import pytest

from protocol_codecs import ErrorCode
from proxy.config.schema import Limits
from proxy.wire.frame_splitter import STREAM_ABOVE
from tests.proxy.fakes import share
from tests.proxy.fakes.talk import Talk, broker_sends, client_sends, negotiated, session, taken


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def talk(clock: Callable[[], float]) -> Talk:
    return negotiated(session(clock=clock), share.VERSIONS)


def exchange(talk: Talk, request: bytes, response: bytes) -> None:
    assert client_sends(talk, request) == request
    assert broker_sends(talk, response) == response


def holding(talk: Talk, offsets: range) -> None:
    """The client opens a session, and acquires records."""
    exchange(talk, share.fetch(1, 0), share.fetched(1, offsets))
    assert talk.share_session.has_locks


def test_a_session_is_open_once_the_broker_has_accepted_it(talk):
    request = share.fetch(1, 0)
    client_sends(talk, request)
    assert not talk.share_session.is_open
    broker_sends(talk, share.fetched(1))
    assert talk.share_session.is_open
    assert talk.share_session.group_id == "g"
    assert not talk.share_session.has_locks


def test_a_session_that_is_refused_is_none(talk):
    exchange(talk, share.fetch(1, 0), share.fetched(1, error=ErrorCode.SHARE_SESSION_LIMIT_REACHED))
    assert not talk.share_session.is_open


def test_records_are_locked_until_they_are_acknowledged(talk):
    holding(talk, range(10))
    exchange(talk, share.acknowledge(2, 1, range(6)), share.acknowledged(2))
    assert talk.share_session.has_locks
    exchange(talk, share.fetch(3, 2, range(6, 10)), share.fetched(3))
    assert not talk.share_session.has_locks
    exchange(talk, share.fetch(4, 3), share.fetched(4, range(10, 11)))
    assert talk.share_session.has_locks


def test_a_type_for_each_offset_is_counted_by_offset(talk):
    holding(talk, range(3))
    exchange(talk, share.acknowledge(2, 1, range(3), (1, 2, share.RENEW)), share.acknowledged(2))
    assert talk.share_session.has_locks
    exchange(talk, share.acknowledge(3, 2, range(2, 3)), share.acknowledged(3))
    assert not talk.share_session.has_locks


def test_acknowledgements_that_are_refused_leave_the_records_locked(talk):
    holding(talk, range(10))
    refused = ErrorCode.INVALID_RECORD_STATE
    exchange(talk, share.acknowledge(2, 1, range(10)), share.acknowledged(2, partition_error=refused))
    exchange(talk, share.fetch(3, 2, range(10)), share.fetched(3, acknowledge_error=refused))
    assert talk.share_session.has_locks
    counted = talk.metrics.registry.get_sample_value(
        "epochgate_share_acknowledge_errors_total", {"error_code": "INVALID_RECORD_STATE"}
    )
    assert counted == 2


def test_a_share_acknowledge_that_is_refused_as_a_whole_is_counted_and_a_share_fetch_is_not(talk):
    holding(talk, range(10))
    gone = ErrorCode.SHARE_SESSION_NOT_FOUND
    exchange(talk, share.fetch(2, 7), share.fetched(2, error=gone))
    counted = partial(
        talk.metrics.registry.get_sample_value,
        "epochgate_share_acknowledge_errors_total",
        {"error_code": gone.name},
    )
    assert counted() is None
    exchange(talk, share.acknowledge(3, 8, range(10)), share.acknowledged(3, error=gone))
    assert counted() == 1


def test_open_sessions_are_counted(talk):
    def count() -> float | None:
        return talk.metrics.registry.get_sample_value("epochgate_share_sessions_open")

    assert count() == 0
    exchange(talk, share.fetch(1, 0), share.fetched(1))
    exchange(talk, share.fetch(2, 0, member="other"), share.fetched(2))
    assert count() == 1, "a connection has one"
    exchange(talk, share.fetch(3, -1, member="other"), share.fetched(3))
    assert count() == 0
    exchange(talk, share.fetch(4, 0), share.fetched(4))
    talk.share_session.connection_ended()
    talk.share_session.connection_ended()
    assert count() == 0


def test_a_lock_ends_by_itself(talk, clock):
    holding(talk, range(10))
    clock.now = share.LOCK_S - 1
    assert talk.share_session.has_locks
    clock.now = share.LOCK_S
    assert not talk.share_session.has_locks
    exchange(talk, share.fetch(2, 1), share.fetched(2, range(10, 11)))
    exchange(talk, share.fetch(3, 2, range(10, 11)), share.fetched(3))
    assert not talk.share_session.has_locks, "those whose locks have ended are not counted any more"


def test_a_renewed_lock_begins_anew(talk, clock):
    holding(talk, range(10))
    clock.now = share.LOCK_S - 1
    exchange(talk, share.acknowledge(2, 1, range(10), (share.RENEW,)), share.acknowledged(2))
    clock.now = 2 * share.LOCK_S - 2
    assert talk.share_session.has_locks


def test_a_renewal_that_the_broker_answers_late_was_in_time(talk, clock):
    """The broker's clock decides: it has accepted the renewal before the lock ended."""
    holding(talk, range(10))
    clock.now = share.LOCK_S + 0.1
    exchange(talk, share.acknowledge(2, 1, range(10), (share.RENEW,)), share.acknowledged(2))
    assert talk.share_session.has_locks


def test_no_lock_is_longer_than_brokers_allow(talk, clock):
    exchange(talk, share.fetch(1, 0), share.fetched(1, range(10), lock_s=1_000_000))
    clock.now = 3599
    assert talk.share_session.has_locks
    clock.now = 3600
    assert not talk.share_session.has_locks


@pytest.mark.parametrize("request_frame", [share.acknowledge(2, -1), share.fetch(2, -1)])
def test_the_final_epoch_closes_it(talk, request_frame):
    holding(talk, range(10))
    answer = share.fetched(2) if request_frame == share.fetch(2, -1) else share.acknowledged(2)
    exchange(talk, request_frame, answer)
    assert not talk.share_session.is_open
    assert not talk.share_session.has_locks
    exchange(talk, share.fetch(3, 0), share.fetched(3))
    assert talk.share_session.is_open
    assert not talk.share_session.has_locks, "the broker has released them with the session before"


def test_a_session_that_the_broker_does_not_know_is_closed(talk):
    holding(talk, range(10))
    exchange(talk, share.fetch(2, 1), share.fetched(2, error=ErrorCode.INVALID_SHARE_SESSION_EPOCH))
    assert talk.share_session.has_locks
    exchange(talk, share.fetch(3, 1), share.fetched(3, error=ErrorCode.SHARE_SESSION_NOT_FOUND))
    assert not talk.share_session.is_open


def test_opened_anew_by_the_same_member_it_keeps_the_locks(talk):
    """As at the broker, which releases records at the end of a connection, not of a session."""
    holding(talk, range(10))
    exchange(talk, share.fetch(2, 0), share.fetched(2))
    assert talk.share_session.has_locks


def test_another_member_takes_the_place_of_the_first(talk):
    """The broker ends the session that was opened last when the connection ends, and no other."""
    holding(talk, range(10))
    exchange(talk, share.fetch(2, 0, member="n"), share.fetched(2))
    assert talk.share_session.is_open
    assert not talk.share_session.has_locks
    exchange(talk, share.fetch(3, 1), share.fetched(3, range(10, 20)))
    assert not talk.share_session.has_locks, "these end with another connection"
    exchange(talk, share.fetch(4, -1), share.fetched(4))
    assert talk.share_session.is_open


def test_a_session_of_another_connection_is_none_here(talk):
    exchange(talk, share.fetch(1, 5), share.fetched(1, range(10)))
    assert not talk.share_session.is_open


def test_a_session_opened_by_a_request_too_large_to_be_read_is_that_of_the_next_request(talk):
    request = share.fetch(1, 0, forgotten=STREAM_ABOVE // 2)
    assert client_sends(talk, request[:STREAM_ABOVE], request[STREAM_ABOVE:]) == request
    broker_sends(talk, share.fetched(1))
    assert talk.share_session.is_open
    exchange(talk, share.fetch(2, 1), share.fetched(2, range(10)))
    assert talk.share_session.has_locks
    assert talk.share_session.group_id == "g"
    exchange(talk, share.acknowledge(3, 2, range(10)), share.acknowledged(3))
    assert not talk.share_session.has_locks


def test_who_has_no_session_yet_is_not_read_beyond_what_a_client_may_send_before_it_is_let_in(talk):
    large = Limits().first_group_call_max_bytes // 4
    exchange(talk, share.fetch(1, 0, forgotten=large), share.fetched(1))
    assert talk.share_session.is_open
    assert talk.share_session.group_id == ""
    exchange(talk, share.fetch(2, 1, forgotten=large), share.fetched(2))
    assert talk.share_session.group_id == "g", "but a client that the broker has let in is"


def test_renewals_too_large_to_be_read_keep_the_records_locked(talk, clock):
    offsets = range(STREAM_ABOVE)
    holding(talk, offsets)
    clock.now = share.LOCK_S - 1
    request = share.acknowledge(2, 1, offsets, (share.RENEW,) * len(offsets))
    assert client_sends(talk, request[:STREAM_ABOVE], request[STREAM_ABOVE:]) == request
    broker_sends(talk, share.acknowledged(2))
    clock.now = 2 * share.LOCK_S - 2
    assert talk.share_session.has_locks


def test_acknowledgements_too_large_to_be_read_leave_the_records_locked(talk):
    """v1 does not even say for how long."""
    offsets = range(STREAM_ABOVE)
    holding(talk, offsets)
    request = share.acknowledge(2, 1, offsets, (share.ACCEPT,) * len(offsets), version=1)
    assert client_sends(talk, request[:STREAM_ABOVE], request[STREAM_ABOVE:]) == request
    broker_sends(talk, share.acknowledged(2, version=1))
    assert talk.share_session.has_locks


def test_a_response_in_pieces_is_counted_once_it_is_complete(talk):
    client_sends(talk, share.fetch(1, 0))
    response = share.fetched(1, range(10), size=2 * STREAM_ABOVE)
    for start in range(0, len(response), STREAM_ABOVE):
        assert not talk.share_session.has_locks
        broker_sends(talk, response[start : start + STREAM_ABOVE])
    assert talk.share_session.has_locks


def test_a_response_that_the_client_did_not_live_to_see_is_not_read(talk):
    client_sends(talk, share.fetch(1, 0))
    talk.client_closed()
    talk.responses.receive(share.fetched(1, range(10)))
    assert not taken(talk.to_client)
    assert not talk.share_session.is_open


# -- what follows from it ------------------------------------------------------------------------------------


def test_a_connection_is_not_quiescent_while_records_are_locked(talk, clock):
    holding(talk, range(10))
    assert talk.idle
    assert not talk.quiescent
    clock.now = share.LOCK_S
    assert talk.quiescent


def test_a_session_that_is_being_opened_does_not_outlive_its_client(talk):
    assert talk.may_outlive_client
    client_sends(talk, share.fetch(1, 0))
    assert not talk.may_outlive_client


def test_an_open_session_does_not_outlive_its_client(talk):
    assert talk.may_outlive_client
    exchange(talk, share.fetch(1, 0), share.fetched(1))
    assert not talk.may_outlive_client
    exchange(talk, share.fetch(2, -1), share.fetched(2))
    assert talk.may_outlive_client
