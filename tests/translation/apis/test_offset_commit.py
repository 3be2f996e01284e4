"""OffsetCommit of members that have joined."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode, encode
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol_codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.translation.answers import A, commit_answer, commit_error, described, member
from tests.translation.bench import GROUP, TOPIC, TOPIC_ID, Bench
from translation.actions import Connection, RequestId


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


def test_a_commit_of_version_1_goes_out_without_its_timestamps() -> None:
    """Only v1 has one for each partition; sarama up to 1.38 commits so."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(3)
    at = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=42, commit_timestamp=1_600_000_000_000
    )
    message = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=1,
        member_id=A,
        topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(at,)),),
    )
    request = bench.send(connection, ApiKey.OFFSET_COMMIT, 1, message)
    (call,) = bench.calls
    assert (call.version, call.message.generation_id_or_member_epoch) == (9, 3)
    encode(call.message, call.version)  # which refuses what the version can't say
    ((partition,),) = (topic.partitions for topic in call.message.topics)
    assert (partition.committed_offset, partition.commit_timestamp) == (42, -1)
    bench.reply(commit_answer())
    assert commit_error(bench, request) == ErrorCode.NONE


def test_a_commit_of_version_0_names_no_member_and_is_passed_on() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.send(connection, ApiKey.OFFSET_COMMIT, 0, OffsetCommitRequest(group_id=GROUP))
    assert bench.forwarded == [request]


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


@pytest.mark.parametrize(
    ("claims", "assigned", "code"),
    [
        ((0, 1), (1,), ErrorCode.NONE),  # it works on it until it has heard that it is to give it up
        ((1,), (0, 1), ErrorCode.NONE),
        ((1,), (1,), ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_until_sync_an_older_generation_commits_for_partitions_that_its_client_has_not_given_up(
    claims: tuple[int, ...], assigned: tuple[int, ...], code: ErrorCode
) -> None:
    """Sent behind the JoinGroup, it is handled after that: partition 0 may have another owner by then."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    bench.join(connection, A, claims=claims, protocol="cooperative-sticky")
    commit = bench.commit(connection, A, 1)
    bench.beat(2, orders=assigned)
    if code == ErrorCode.NONE:
        bench.reply(commit_answer())
    assert commit_error(bench, commit) == code
    assert bench.calls == []


def test_until_sync_a_commit_by_topic_id_counts_for_partitions_that_its_client_has() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.join(connection, A, claims=(0, 1))
    bench.beat(2, orders=(0, 1))
    partitions = (OffsetCommitRequestPartition(partition_index=0, committed_offset=42),)
    message = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=1,
        member_id=A,
        topics=(OffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=partitions),),
    )
    request = bench.send(connection, ApiKey.OFFSET_COMMIT, 10, message)
    bench.reply(commit_answer())
    assert commit_error(bench, request) == ErrorCode.NONE


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


BY_TOPIC_ID = 6
"""The version of TxnOffsetCommit since which topics have ids instead of names (KIP-1319)."""


def transactional(bench: Bench, connection: Connection, generation: int, version: int = 3) -> RequestId:
    named: dict[str, Any] = {"topic_id": TOPIC_ID} if version >= BY_TOPIC_ID else {"name": TOPIC}
    partitions = (TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42),)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=GROUP,
        producer_id=1,
        producer_epoch=0,
        generation_id_or_member_epoch=generation,
        member_id="epochgate-a",
        topics=(TxnOffsetCommitRequestTopic(**named, partitions=partitions),),
    )
    return bench.send(connection, ApiKey.TXN_OFFSET_COMMIT, version, request)


def transactional_answer(code: ErrorCode) -> TxnOffsetCommitResponse:
    partitions = (TxnOffsetCommitResponsePartition(partition_index=0, error_code=code),)
    return TxnOffsetCommitResponse(topics=(TxnOffsetCommitResponseTopic(name=TOPIC, partitions=partitions),))


@pytest.mark.parametrize("version", range(3, 7))
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
    # The member is still reached through its own connection.
    heartbeat = bench.heartbeat(consumer, "epochgate-a", 7)
    assert bench.calls[-1].connection_id == consumer.id
    bench.beat(7)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_transactional_commit_with_an_old_generation_is_refused() -> None:
    bench = Bench()
    bench.stable_member(bench.connect(), (0, 1), epoch=7)
    answer = bench.answers[transactional(bench, bench.connect(), 6)]
    assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_transactional_commit_by_topic_id_with_a_moved_epoch_is_tried_once_more() -> None:
    """Since v6 the broker answers STALE_MEMBER_EPOCH, which means nothing to a classic member."""
    bench = Bench()
    consumer, producer = bench.connect(), bench.connect()
    bench.stable_member(consumer, (0, 1), epoch=7)
    request = transactional(bench, producer, 7, BY_TOPIC_ID)
    partitions = (TxnOffsetCommitResponsePartition(error_code=ErrorCode.STALE_MEMBER_EPOCH),)
    stale = TxnOffsetCommitResponse(
        topics=(TxnOffsetCommitResponseTopic(topic_id=TOPIC_ID, partitions=partitions),)
    )
    bench.reply(stale)
    bench.beat(8)
    (call,) = bench.calls
    (topic,) = call.message.topics
    assert (call.version, call.message.generation_id_or_member_epoch) == (BY_TOPIC_ID, 8)
    assert (topic.topic_id, topic.name) == (TOPIC_ID, "")
    bench.reply(stale)
    (answered,) = bench.answers[request].topics
    assert answered.topic_id == TOPIC_ID
    assert answered.partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_transactional_commit_in_another_process_goes_out_with_the_described_epoch() -> None:
    bench = Bench()
    transactional(bench, bench.connect(), 4)
    bench.reply(described(member("epochgate-a", epoch=5)))
    (call,) = bench.calls
    assert (call.api_key, call.message.generation_id_or_member_epoch) == (ApiKey.TXN_OFFSET_COMMIT, 5)
