"""Heartbeats, rebalances, commits and the ways out, of members that have joined."""

import gc

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from translation.actions import EventKind
from translation.member import Member
from translation.settings import TranslatorSettings

from .bench import GROUP, TOPIC, Bench, owned

A = "member-a"


def commit_answer(error: ErrorCode = ErrorCode.NONE) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=error)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name=TOPIC, partitions=(partition,)),))


def commit_error(bench: Bench, request: int) -> ErrorCode:
    return ErrorCode(bench.answers[request].topics[0].partitions[0].error_code)


# -- heartbeats and rebalances ---------------------------------------------------------------------------------


def test_a_heartbeat_is_one_heartbeat_with_everything_null() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.heartbeat(connection, A, 1)
    upstream = bench.heartbeat_call().message
    assert upstream.member_epoch == 1
    assert upstream.topic_partitions is None
    assert upstream.subscribed_topic_names is None
    assert upstream.rebalance_timeout_ms == -1
    bench.beat(1)
    assert bench.error(request) == ErrorCode.NONE


def test_a_moved_epoch_without_a_change_of_partitions_is_not_told() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.heartbeat(connection, A, 1)
    bench.beat(2, orders=(0, 1))
    assert bench.error(request) == ErrorCode.NONE
    assert EventKind.EPOCH_MOVED in bench.kinds()
    bench.settle(2)
    again = bench.heartbeat(connection, A, 1)  # still with its own generation
    assert bench.heartbeat_call().message.member_epoch == 2
    bench.beat(2)
    assert bench.error(again) == ErrorCode.NONE


def test_an_eager_member_gives_up_a_partition_by_joining_without_it() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1, 2, 3))
    heartbeat = bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    join = bench.join(connection, A)
    upstream = bench.heartbeat_call().message
    assert (upstream.member_epoch, owned(upstream)) == (1, {})
    bench.beat(2, orders=(0, 1))
    assert bench.answers[join].generation_id == 2
    assert bench.handed(bench.sync(connection, A, 2)) == {TOPIC: (0, 1)}
    stable = bench.heartbeat(connection, A, 2)
    bench.beat(2)
    assert bench.error(stable) == ErrorCode.NONE


def test_a_cooperative_member_joins_twice_and_the_revocation_is_acknowledged_by_the_second() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1, 2, 3), protocol="cooperative-sticky")
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    # It still holds everything, so nothing is acknowledged yet.
    bench.join(connection, A, claims=(0, 1, 2, 3), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1, 2, 3)}
    bench.beat(1, orders=(0, 1))
    assert bench.handed(bench.sync(connection, A, 1)) == {TOPIC: (0, 1)}
    # Clients that do not join again by themselves are told to.
    told = bench.heartbeat(connection, A, 1)
    assert bench.heartbeat_call().message.topic_partitions is None
    bench.beat(1)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}
    bench.beat(2, orders=(0, 1))
    bench.sync(connection, A, 2)
    stable = bench.heartbeat(connection, A, 2)
    bench.beat(2)
    assert bench.error(stable) == ErrorCode.NONE


def test_a_client_that_never_saw_its_assignment_still_holds_what_it_claimed() -> None:
    """The SyncGroup answer got lost: the second claim is the old one, and acknowledges nothing."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1, 2, 3), protocol="cooperative-sticky")
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    bench.join(connection, A, claims=(0, 1, 2, 3), protocol="cooperative-sticky")
    bench.beat(1, orders=(0, 1))
    bench.sync(connection, A, 1)
    bench.join(connection, A, claims=(0, 1, 2, 3), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1, 2, 3)}


def test_a_claim_is_cut_to_what_the_client_was_handed() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    bench.join(connection, A, claims=(0, 1, 2, 3), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}


def test_a_change_between_join_and_sync_is_in_the_sync_answer() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, A)
    bench.beat(1, orders=(0, 1))
    bench.heartbeat(connection, A, 1)
    sync = bench.sync(connection, A, 1)
    assert sync not in bench.answers  # not while one of its heartbeats is under way
    bench.beat(2, orders=(0, 1, 2))
    assert bench.handed(sync) == {TOPIC: (0, 1, 2)}


def test_a_revocation_between_join_and_sync_is_acknowledged_without_another_join() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, A)
    bench.beat(1, orders=(0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0,))
    assert bench.handed(bench.sync(connection, A, 1)) == {TOPIC: (0,)}
    told = bench.heartbeat(connection, A, 1)
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0,)}  # it never had the other one
    bench.beat(1)
    assert bench.error(told) == ErrorCode.NONE


def test_additions_for_an_eager_member_are_gathered() -> None:
    bench = Bench(settings=TranslatorSettings(gather_s=0.5))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=60_000)
    first = bench.heartbeat(connection, A, 1)
    bench.beat(2, orders=(0, 1, 2))
    assert bench.error(first) == ErrorCode.NONE
    bench.advance(0.4)
    while bench.calls:
        bench.beat(2)
    not_yet = bench.heartbeat(connection, A, 1)
    bench.beat(2)
    assert bench.error(not_yet) == ErrorCode.NONE
    bench.advance(0.2)
    while bench.calls:
        bench.beat(2)
    told = bench.heartbeat(connection, A, 1)
    bench.beat(2)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_same_addition_is_gathered_and_told_again_after_it_was_taken_away() -> None:
    """Seen with Kafka: a member joined and left, joined and left, and the rest went to one member each time."""
    bench = Bench()
    connection = bench.connect()
    generation = bench.stable_member(connection, (0, 1), session_timeout_ms=60_000)
    for _ in range(2):
        bench.heartbeat(connection, A, generation)
        bench.beat(generation + 1, orders=(0, 1, 2))
        bench.settle(generation + 1)
        told = bench.heartbeat(connection, A, generation)
        bench.beat(generation + 1)
        assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
        bench.join(connection, A)
        bench.beat(generation + 2, orders=(0, 1))
        generation += 2
        bench.sync(connection, A, generation)
        bench.settle(generation)


def test_additions_for_a_cooperative_member_are_told_at_once() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    told = bench.heartbeat(connection, A, 1)
    bench.beat(2, orders=(0, 1, 2))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_group_may_be_repeated() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    assert bench.handed(bench.sync(connection, A, 1)) == {TOPIC: (0, 1)}


def test_the_others_are_heartbeated_when_a_member_joins() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.advance(1)
    bench.join(bench.connect(), "member-b")
    bench.beat(1)
    bench.advance(0)
    assert bench.heartbeat_call().message.member_id == A
    bench.beat(1)
    bench.advance(0.25)
    bench.beat(2)  # the joiner's own poll
    bench.advance(0.85)
    assert any(call.message.member_id == A for call in bench.calls)


# -- wrong calls -------------------------------------------------------------------------------------------------


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


# -- commits -----------------------------------------------------------------------------------------------------


def test_a_commit_goes_out_with_the_epoch_and_at_version_9() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(3)
    request = bench.commit(connection, A, 1, version=2)
    (call,) = bench.calls
    assert (call.version, call.message.generation_id_or_member_epoch) == (9, 3)
    bench.reply(commit_answer())
    assert commit_error(bench, request) == ErrorCode.NONE


def test_the_retention_of_an_old_commit_is_left_out() -> None:
    """OffsetCommit v2 to v4 have one, v9 has not."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    message = OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=1, member_id=A, retention_time_ms=86_400_000
    )
    bench.send(connection, ApiKey.OFFSET_COMMIT, 2, message)
    (call,) = bench.calls
    assert (call.version, call.message.retention_time_ms) == (9, -1)


def test_the_previous_generation_may_commit_until_sync() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.join(connection, A)
    bench.beat(2, orders=(0, 1))
    allowed = bench.commit(connection, A, 1)
    bench.reply(commit_answer())
    assert commit_error(bench, allowed) == ErrorCode.NONE
    bench.sync(connection, A, 2)
    assert commit_error(bench, bench.commit(connection, A, 1)) == ErrorCode.ILLEGAL_GENERATION


def test_until_sync_a_generation_may_commit_however_many_join_groups_were_answered_since() -> None:
    """The first answer went to a connection that the client had given up: it has never heard of generation 2."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    for epoch in (2, 3):
        bench.join(bench.connect(), A, claims=(0, 1))
        bench.beat(epoch, orders=(0, 1))
    for generation in (1, 2, 3):
        allowed = bench.commit(connection, A, generation)
        bench.reply(commit_answer())
        assert commit_error(bench, allowed) == ErrorCode.NONE
    bench.sync(connection, A, 3)
    assert commit_error(bench, bench.commit(connection, A, 2)) == ErrorCode.ILLEGAL_GENERATION


def test_a_commit_with_a_moved_epoch_is_tried_once_more() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.commit(connection, A, 1)
    bench.reply(commit_answer(ErrorCode.STALE_MEMBER_EPOCH))
    bench.beat(4)
    (call,) = bench.calls
    assert call.message.generation_id_or_member_epoch == 4
    bench.reply(commit_answer())
    assert commit_error(bench, request) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("upstream", "client"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_errors_of_a_commit(upstream: ErrorCode, client: ErrorCode) -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.commit(connection, A, 1)
    bench.reply(commit_answer(upstream))
    assert commit_error(bench, request) == client


def test_a_commit_without_member_id_passes_through() -> None:
    bench = Bench()
    request = bench.commit(bench.connect(), "", -1)
    assert bench.forwarded == [request]


# -- the ways out ------------------------------------------------------------------------------------------------


def test_leave_group_is_the_brokers_and_ends_the_member() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.leave(connection, A)
    (call,) = bench.calls
    assert call.api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)))
    assert bench.answers[request].members[0].error_code == ErrorCode.NONE
    assert bench.kinds()[-1] is EventKind.LEFT
    bench.client_gone(connection)
    assert bench.released == [connection.id]


def test_a_silent_client_is_removed_when_its_session_ends_and_its_partitions_are_nudged() -> None:
    bench = Bench()
    silent, other = bench.connect(), bench.connect()
    bench.stable_member(silent, (0, 1), session_timeout_ms=10_000)
    bench.client_gone(silent)
    assert bench.released == []  # heartbeats for it still travel there
    bench.advance(6)
    bench.beat(1)  # the broker's session is kept
    bench.advance(4)
    assert bench.heartbeat_call().message.member_epoch == -1
    bench.beat(-1)
    assert EventKind.SESSION_EXPIRED in bench.kinds()
    assert bench.released == [silent.id]
    del other


def test_a_member_that_is_gone_needs_no_garbage_collector() -> None:
    """Full collections are seldom (``proxy.process``); what waits for one grows with the clients that come and go."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=10_000)
    gc.collect()
    gc.disable()
    try:
        before = members_alive()
        bench.advance(6)
        bench.beat(1)
        bench.client_gone(connection)
        bench.advance(4)
        bench.beat(-1)
        assert members_alive() == before - 1
    finally:
        gc.enable()


def members_alive() -> int:
    return sum(isinstance(one, Member) for one in gc.get_objects())


def test_a_process_that_is_not_alone_leaves_a_silent_client_to_the_brokers_session_timeout() -> None:
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=4_000)
    bench.client_gone(connection)
    bench.advance(5)
    assert bench.calls == []
    assert bench.released == [connection.id]


def test_a_client_that_does_not_rejoin_within_its_rebalance_timeout_is_removed() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), rebalance_timeout_ms=20_000)
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0,))
    for _ in range(6):
        bench.advance(3)
        bench.heartbeat(connection, A, 1)
        bench.beat(1)
    bench.advance(2)
    assert bench.heartbeat_call().message.member_epoch == -1
    late = bench.join(connection, A)
    bench.beat(-1)
    assert EventKind.REBALANCE_EXPIRED in bench.kinds()
    assert late not in bench.answers  # it joins as a new member, behind the -1
    bench.answer_lookups()
    assert bench.calls[0].api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT
    assert bench.calls[0].message.member_epoch == 0


def test_a_client_that_lives_but_never_asks_for_its_assignment_is_asked_to_join_again() -> None:
    """It goes on from before a JoinGroup that a newer one had overtaken, and never sees that one's answer."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), rebalance_timeout_ms=20_000)
    join = bench.join(connection, A, claims=(0, 1), rebalance_timeout_ms=20_000)
    bench.beat(1, orders=(0, 1))
    assert join in bench.answers
    for _ in range(6):
        bench.advance(3)
        bench.heartbeat(connection, A, 1)
        bench.beat(1)
    bench.advance(3)
    told = bench.heartbeat(connection, A, 1)
    bench.beat(1)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    assert EventKind.REBALANCE_EXPIRED not in bench.kinds()


def test_a_client_that_heartbeats_slowly_is_kept_alive_at_the_brokers_pace() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=300_000)
    for _ in range(5):
        bench.advance(5)
        bench.beat(1)
    assert bench.calls == []


def test_after_a_lost_answer_the_next_heartbeat_is_a_full_one_with_all_that_the_client_may_hold() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    bench.stable_member(old, (0, 1))
    bench.heartbeat(old, A, 1)
    bench.upstream_lost(old)
    request = bench.heartbeat(new, A, 1)
    upstream = bench.heartbeat_call().message
    assert upstream.member_epoch == 1
    assert upstream.subscribed_topic_names == (TOPIC,)
    assert owned(upstream) == {TOPIC: (0, 1)}
    bench.beat(2, orders=(0, 1))
    assert bench.error(request) == ErrorCode.NONE
    bench.heartbeat(new, A, 1)
    assert bench.heartbeat_call().message.topic_partitions is None


def test_join_on_one_connection_and_heartbeat_on_another() -> None:
    bench = Bench()
    joins, heartbeats = bench.connect(), bench.connect()
    bench.stable_member(joins, (0, 1))
    bench.heartbeat(heartbeats, A, 1)
    assert bench.heartbeat_call().connection_id == heartbeats.id
    bench.beat(1)
    bench.client_gone(joins)
    assert bench.released == [joins.id]


def test_nothing_is_remembered_of_a_group_that_everybody_left() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.leave(connection, A)
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)))
    assert GROUP not in bench.translator._context.groups
