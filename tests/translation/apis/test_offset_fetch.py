"""OffsetFetch: relayed, but for the member fields and for errors that aiokafka does not see."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tests.translation.bench import GROUP, TOPIC, Bench
from translation.policy.policy import Policy

ONE_GROUP = OffsetFetchRequest(
    group_id=GROUP, topics=(OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0, 2)),)
)


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
