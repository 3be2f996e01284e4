"""Calls around a membership, on its own connection or on another one: commits of producers, fetches, leaves."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from protocol_codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from protocol_codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.translation.answers import described, member
from tests.translation.bench import GROUP, TOPIC, Bench
from translation.actions import Connection, RequestId
from translation.policy.policy import Policy


def transactional(bench: Bench, connection: Connection, generation: int, version: int = 3) -> RequestId:
    partitions = (TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42),)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=GROUP,
        producer_id=1,
        producer_epoch=0,
        generation_id_or_member_epoch=generation,
        member_id="epochgate-a",
        topics=(TxnOffsetCommitRequestTopic(name=TOPIC, partitions=partitions),),
    )
    return bench.send(connection, ApiKey.TXN_OFFSET_COMMIT, version, request)


def transactional_answer(code: ErrorCode) -> TxnOffsetCommitResponse:
    partitions = (TxnOffsetCommitResponsePartition(partition_index=0, error_code=code),)
    return TxnOffsetCommitResponse(topics=(TxnOffsetCommitResponseTopic(name=TOPIC, partitions=partitions),))


@pytest.mark.parametrize("version", range(3, 6))
def test_a_transactional_commit_comes_from_the_producers_connection_and_keeps_its_version(
    version: int,
) -> None:
    bench = Bench()
    consumer, producer = bench.connect(), bench.connect()
    bench.stable_member(consumer, (0, 1), epoch=7)
    transactional(bench, producer, 7, version)
    (call,) = bench.calls
    assert (call.connection_id, call.api_key, call.version) == (
        producer.id,
        ApiKey.TXN_OFFSET_COMMIT,
        version,
    )
    assert call.message.generation_id_or_member_epoch == 7
    bench.reply(transactional_answer(ErrorCode.NONE))
    heartbeat = bench.heartbeat(
        consumer, "epochgate-a", 7
    )  # the member is still reached through its own connection
    assert bench.calls[-1].connection_id == consumer.id
    bench.beat(7)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_transactional_commit_with_an_old_generation_is_refused() -> None:
    bench = Bench()
    bench.stable_member(bench.connect(), (0, 1), epoch=7)
    answer = bench.answers[transactional(bench, bench.connect(), 6)]
    assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_transactional_commit_in_another_process_goes_out_with_the_described_epoch() -> None:
    bench = Bench()
    transactional(bench, bench.connect(), 4)
    bench.reply(described(member("epochgate-a", epoch=5)))
    (call,) = bench.calls
    assert (call.api_key, call.message.generation_id_or_member_epoch) == (ApiKey.TXN_OFFSET_COMMIT, 5)


@pytest.mark.parametrize("known", [True, False])
def test_an_offset_fetch_names_no_member_upstream_on_whatever_connection_or_process(*, known: bool) -> None:
    """franz-go sends its generation, which the broker would take for an epoch."""
    bench = Bench()
    if known:
        bench.stable_member(bench.connect(), (0, 1), epoch=7)
    groups = (OffsetFetchRequestGroup(group_id=GROUP, member_id="epochgate-a", member_epoch=6, topics=None),)
    bench.send(bench.connect(), ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
    (call,) = bench.calls
    (group,) = call.message.groups
    assert (group.group_id, group.member_id, group.member_epoch) == (GROUP, None, -1)


def test_an_offset_fetch_without_member_fields_is_relayed_as_it_is() -> None:
    bench = Bench()
    groups = (OffsetFetchRequestGroup(group_id=GROUP, topics=None),)
    fetch = bench.send(bench.connect(), ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
    assert bench.forwarded == [fetch]


ONE_GROUP = OffsetFetchRequest(
    group_id=GROUP, topics=(OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0, 2)),)
)


@pytest.mark.parametrize("version", range(2, 8))
@pytest.mark.parametrize(
    ("code", "of_partitions"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_an_error_of_offset_fetch_is_said_in_every_partition_too(
    version: int, code: ErrorCode, of_partitions: ErrorCode
) -> None:
    """aiokafka looks nowhere else, and would read from the beginning."""
    bench = Bench()
    fetch = bench.send(bench.connect(), ApiKey.OFFSET_FETCH, version, ONE_GROUP)
    (call,) = bench.calls
    assert (call.version, call.message) == (version, ONE_GROUP)
    bench.reply(OffsetFetchResponse(error_code=code))
    answer = bench.answers[fetch]
    assert answer.error_code == code
    (topic,) = answer.topics
    assert topic.name == TOPIC
    assert [(at.partition_index, at.committed_offset, at.error_code) for at in topic.partitions] == [
        (0, -1, of_partitions),
        (2, -1, of_partitions),
    ]


def test_offsets_and_an_error_without_partitions_are_answered_as_they_come() -> None:
    bench = Bench()
    offset = OffsetFetchResponsePartition(partition_index=0, committed_offset=42, metadata="")
    found = OffsetFetchResponse(topics=(OffsetFetchResponseTopic(name=TOPIC, partitions=(offset,)),))
    of_all_topics = OffsetFetchRequest(group_id=GROUP, topics=None)
    loading = OffsetFetchResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for request, response in ((ONE_GROUP, found), (of_all_topics, loading)):
        fetch = bench.send(bench.connect(), ApiKey.OFFSET_FETCH, 5, request)
        bench.reply(response)
        assert bench.answers[fetch] == response


def test_an_offset_fetch_that_names_its_errors_by_partition_is_relayed_as_it_is() -> None:
    bench = Bench()
    fetch = bench.send(bench.connect(), ApiKey.OFFSET_FETCH, 1, ONE_GROUP)
    assert bench.forwarded == [fetch]


def test_the_offset_fetch_of_a_group_that_is_not_translated_is_relayed_as_it_is() -> None:
    bench = Bench(Policy())
    fetch = bench.send(bench.connect(), ApiKey.OFFSET_FETCH, 3, ONE_GROUP)
    assert bench.forwarded == [fetch]


def test_leave_group_of_several_members_by_member_id_and_by_instance_id() -> None:
    bench = Bench()
    bench.stable_member(bench.connect(), (0,), member_id="epochgate-a", protocol="cooperative-sticky")
    bench.stable_member(
        bench.connect(), (1,), member_id="epochgate-b", instance_id="i-1", protocol="cooperative-sticky"
    )
    identities = (
        MemberIdentity(member_id="epochgate-a"),
        MemberIdentity(member_id="", group_instance_id="i-1"),
        MemberIdentity(member_id="stranger"),
    )
    admin = bench.connect()
    leave = bench.send(admin, ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=GROUP, members=identities))
    bench.reply(
        LeaveGroupResponse(
            members=(
                MemberResponse(member_id="epochgate-a"),
                MemberResponse(member_id="", group_instance_id="i-1"),
                MemberResponse(member_id="stranger", error_code=ErrorCode.UNKNOWN_MEMBER_ID),
            )
        )
    )
    codes = [one.error_code for one in bench.answers[leave].members]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.translator._context.registry.find(GROUP, "epochgate-a") is None
    assert bench.translator._context.registry.find(GROUP, "epochgate-b") is None


def test_leave_group_before_version_3_names_one_member() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = LeaveGroupRequest(group_id=GROUP, member_id="epochgate-a")
    leave = bench.send(connection, ApiKey.LEAVE_GROUP, 2, request)
    bench.answer_lookups()
    bench.reply(LeaveGroupResponse())
    assert bench.error(leave) == ErrorCode.NONE
    assert bench.translator._context.registry.find(GROUP, "epochgate-a") is None


@pytest.mark.parametrize("version", range(10))
def test_join_group_in_every_version(version: int) -> None:
    bench = Bench()
    connection = bench.connect()
    join = bench.join(connection, "epochgate-a", version=version)
    bench.beat(3, orders=(0,))
    assert bench.answers[join].generation_id == 3
    assert bench.handed(bench.sync(connection, "epochgate-a", 3)) == {TOPIC: (0,)}


def test_join_group_version_0_has_no_rebalance_timeout_so_it_is_the_session_timeout() -> None:
    bench = Bench()
    bench.join(bench.connect(), "epochgate-a", version=0, rebalance_timeout_ms=-1, session_timeout_ms=10_000)
    assert bench.heartbeat_call().message.rebalance_timeout_ms == 10_000 + 10_000 + 10_000


def test_a_share_group_is_left_to_the_broker_which_refuses_a_classic_join() -> None:
    """GROUP_ID_NOT_FOUND at epoch 0; to the JoinGroup itself a broker says INCONSISTENT_GROUP_PROTOCOL."""
    bench = Bench()
    join = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    bench.answer_lookups()
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    assert bench.forwarded == [join]
