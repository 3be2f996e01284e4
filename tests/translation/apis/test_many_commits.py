"""Commits that a client sends without waiting for their answers, beside the proxy's own heartbeats."""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.translation.answers import A, commit_answer, commit_error
from tests.translation.bench import Bench
from translation.actions import Call, Connection

_HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT


def a_member() -> tuple[Bench, Connection]:
    """A member whose client's own Heartbeats are behind its commits, so that none of them arrives."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=300_000)
    assert bench.calls == []
    return bench, connection


def commits(bench: Bench) -> list[Call]:
    """The commits that the broker has not answered, in the order in which they were sent."""
    return [call for call in bench.calls if call.api_key == ApiKey.OFFSET_COMMIT]


def epochs(bench: Bench) -> list[int]:
    return [call.message.generation_id_or_member_epoch for call in commits(bench)]


def is_heartbeated(bench: Bench) -> bool:
    return any(call.api_key == _HEARTBEAT for call in bench.calls)


def test_commits_do_not_wait_for_the_answers_to_those_before() -> None:
    bench, connection = a_member()
    requests = [bench.commit(connection, A, 1) for _ in range(3)]
    assert epochs(bench) == [1, 1, 1]
    for _ in requests:
        bench.reply(commit_answer(), commits(bench)[0])
    assert [commit_error(bench, request) for request in requests] == [ErrorCode.NONE] * 3


def test_a_keep_alive_waits_for_no_commit() -> None:
    """For the broker only a heartbeat is a sign of life; it removes the member when its session ends."""
    bench, connection = a_member()
    for _ in range(5):
        bench.commit(connection, A, 1)
        bench.advance(5.1)
        assert is_heartbeated(bench)
        bench.beat(1)
        bench.commit(connection, A, 1)
        bench.reply(commit_answer(), commits(bench)[0])
    assert len(commits(bench)) == 5  # at no time was there none


def test_a_keep_alive_has_the_next_turn_after_a_call_that_has_it() -> None:
    bench, connection = a_member()
    heartbeat = bench.heartbeat(connection, A, 1)
    bench.advance(5.1)
    own = bench.heartbeat_call()
    behind = bench.heartbeat(connection, A, 1)
    bench.reply(bench.heartbeat_answer(0, ErrorCode.COORDINATOR_NOT_AVAILABLE), own)
    assert bench.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert is_heartbeated(bench)
    bench.beat(1)
    assert behind not in bench.answers  # that was the answer to the keep-alive
    bench.beat(1)
    assert bench.error(behind) == ErrorCode.NONE


def test_a_keep_alive_is_not_sent_behind_the_heartbeat_of_a_client_that_was_answered() -> None:
    bench, connection = a_member()
    bench.heartbeat(connection, A, 1)
    bench.advance(5.1)
    bench.beat(1)
    assert bench.calls == []


def test_a_keep_alive_that_waited_is_not_sent_for_a_member_that_has_left() -> None:
    bench, connection = a_member()
    bench.leave(connection, A)
    (leave,) = bench.calls
    bench.advance(5.1)
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)), leave)
    assert not is_heartbeated(bench)


def test_a_join_group_on_another_connection_waits_for_the_commits_under_way() -> None:
    """It may give up a partition, and a commit of that, sent again, would set the offset of the next owner back."""
    bench, connection = a_member()
    for _ in range(2):
        bench.commit(connection, A, 1)
    other = bench.connect()
    bench.join(other, A, claims=(0,))
    late = bench.commit(connection, A, 1)
    assert epochs(bench) == [1, 1]
    assert not is_heartbeated(bench)
    bench.reply(commit_answer(), commits(bench)[0])
    assert not is_heartbeated(bench)
    bench.reply(commit_answer(), commits(bench)[0])
    assert is_heartbeated(bench)
    assert commits(bench) == []  # the late one is behind the JoinGroup
    assert late not in bench.answers


def test_commits_do_not_begin_while_a_keep_alive_is_under_way() -> None:
    """Its answer may bring another epoch."""
    bench, connection = a_member()
    bench.advance(5.1)
    requests = [bench.commit(connection, A, 1) for _ in range(2)]
    assert commits(bench) == []
    bench.beat(2)
    assert epochs(bench) == [2, 2]  # beside each other again
    for _ in requests:
        bench.reply(commit_answer(), commits(bench)[0])
    assert [commit_error(bench, request) for request in requests] == [ErrorCode.NONE] * 2


def test_a_commit_with_the_new_epoch_waits_for_those_with_the_old_one() -> None:
    bench, connection = a_member()
    old = [bench.commit(connection, A, 1) for _ in range(2)]
    bench.advance(5.1)
    bench.beat(2)
    new = bench.commit(connection, A, 1)
    assert epochs(bench) == [1, 1]
    for _ in old:
        bench.reply(commit_answer(), commits(bench)[0])
    assert epochs(bench) == [2]
    bench.reply(commit_answer(), commits(bench)[0])
    assert commit_error(bench, new) == ErrorCode.NONE


def test_commits_that_the_broker_refuses_for_their_epoch_are_sent_again_in_their_order() -> None:
    bench, connection = a_member()
    sent = [bench.commit(connection, A, 1, version=version) for version in (2, 6)]  # to tell them apart
    bench.advance(5.1)
    bench.beat(2)
    later = bench.commit(connection, A, 1)
    for _ in sent:
        assert epochs(bench)[0] == 1
        bench.reply(commit_answer(ErrorCode.STALE_MEMBER_EPOCH), commits(bench)[0])
    answered = []
    while commits(bench):
        assert set(epochs(bench)) == {2}
        before = set(bench.answers)
        bench.reply(commit_answer(), commits(bench)[0])
        answered += sorted(set(bench.answers) - before)
    assert answered == [*sent, later]
    assert not is_heartbeated(bench)  # the epoch is known


def test_a_commit_that_is_refused_for_its_epoch_is_checked_again_before_it_is_sent_again() -> None:
    bench, connection = a_member()
    request = bench.commit(connection, A, 1)
    bench.advance(5.1)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    bench.reply(commit_answer(ErrorCode.STALE_MEMBER_EPOCH), commits(bench)[0])
    assert commits(bench) == []
    assert commit_error(bench, request) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_that_goes_unanswered_holds_up_calls_on_other_connections_for_a_bounded_time() -> None:
    bench, own = a_member()
    stalled = bench.connect()
    request = bench.commit(stalled, A, 1)
    (call,) = commits(bench)
    assert (call.connection_id, request in bench.answers) == (stalled.id, False)
    heartbeat = bench.heartbeat(own, A, 1)
    bench.advance(2.9)
    assert bench.closed == []
    bench.advance(0.2)
    assert bench.closed == [stalled.id]
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_member_is_kept_alive_while_commits_on_another_connection_go_unanswered() -> None:
    bench, _ = a_member()
    bench.commit(bench.connect(), A, 1)
    for _ in range(3):
        bench.advance(5.1)
        bench.beat(1)
    assert bench.closed == []


def test_the_record_of_a_member_whose_membership_ends_lasts_until_its_commits_are_answered() -> None:
    bench, connection = a_member()
    request = bench.commit(connection, A, 1)
    bench.advance(5.1)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    registry = bench.translator._context.registry
    assert registry.find("payments", A) is not None
    bench.reply(commit_answer(ErrorCode.UNKNOWN_MEMBER_ID), commits(bench)[0])
    assert commit_error(bench, request) == ErrorCode.UNKNOWN_MEMBER_ID
    assert registry.find("payments", A) is None
