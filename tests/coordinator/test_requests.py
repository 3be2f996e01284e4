"""Requests and fields that the scenarios do not show: an empty group id, who the answer is about, hosts, topic ids."""

import pytest

from protocol_codecs import ErrorCode, Uuid
from protocol_codecs import all_messages as m
from tests.coordinator.core_backend import CONFIG, CoreBackend
from tests.coordinator.script import Script

UNKNOWN = Uuid(bytes(15) + b"\x01")


@pytest.fixture
def s() -> Script:
    script = Script(CoreBackend(config=CONFIG), "requests")
    script.configure(interval=0)
    script.topic("foo", 2)
    return script


def joining(group_id: str = "g", member_id: str = "a") -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("requests-foo",),
        topic_partitions=(),
    )


@pytest.mark.parametrize("group_id", ["", " "])
def test_a_heartbeat_names_its_group(s: Script, group_id: str):
    assert s.call(joining(group_id)).error_code == ErrorCode.INVALID_REQUEST


def test_a_description_names_its_groups(s: Script):
    empty, missing = s.call(m.ConsumerGroupDescribeRequest(group_ids=("", "missing"))).groups

    assert empty.error_code == ErrorCode.INVALID_GROUP_ID
    assert (missing.error_code, missing.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "missing")
    assert missing.error_message


def test_a_member_keeps_the_id_that_it_made(s: Script):
    joined = s.call(joining(member_id="mine"))
    later = s.call(
        m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="mine", member_epoch=joined.member_epoch)
    )

    assert (joined.member_id, later.member_id) == ("mine", "mine")


def test_a_member_of_version_0_is_given_an_id(s: Script):
    given = s.call(joining(member_id=""), 0).member_id

    assert given
    described = s.call(m.ConsumerGroupDescribeRequest(group_ids=("g",))).groups[0]
    assert [member.member_id for member in described.members] == [given]


def test_an_answer_says_what_is_wrong_and_nothing_if_nothing_is(s: Script):
    assert s.call(joining()).error_message is None
    assert s.call(joining("")).error_message


def test_a_description_has_clients_hosts_and_names_of_topics(s: Script):
    s.call(joining(), client_id="client-1")
    (member,) = s.call(m.ConsumerGroupDescribeRequest(group_ids=("g",))).groups[0].members

    assert member.client_id == "client-1"
    assert member.client_host
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("requests-foo", (0, 1))


def test_offsets_of_an_unknown_topic_id_are_refused(s: Script):
    partition = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = m.OffsetCommitRequestTopic(topic_id=UNKNOWN, partitions=(partition,))
    committed = s.call(m.OffsetCommitRequest(group_id="g", topics=(topic,)), 10).topics[0].partitions[0]
    wanted = m.OffsetFetchRequestTopics(topic_id=UNKNOWN, partition_indexes=(0,))
    group = m.OffsetFetchRequestGroup(group_id="g", topics=(wanted,))
    fetched = s.call(m.OffsetFetchRequest(groups=(group,)), 10).groups[0].topics[0].partitions[0]

    assert committed.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def offsets_of(
    s: Script, *, member_id: str | None = None, epoch: int = -1, stable: bool = False
) -> m.OffsetFetchResponseGroup:
    wanted = m.OffsetFetchRequestTopics(name="requests-foo", partition_indexes=(0,))
    group = m.OffsetFetchRequestGroup(
        group_id=s.group_id, member_id=member_id, member_epoch=epoch, topics=(wanted,)
    )
    answer: m.OffsetFetchResponse = s.call(m.OffsetFetchRequest(groups=(group,), require_stable=stable), 9)
    return answer.groups[0]


def test_an_offset_of_an_open_transaction_is_not_stable(s: Script):
    partition = m.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = m.TxnOffsetCommitRequestTopic(name="requests-foo", partitions=(partition,))
    s.call(m.TxnOffsetCommitRequest(group_id=s.group_id, producer_id=1, topics=(topic,)), 3)

    (now,) = offsets_of(s).topics[0].partitions
    (stable,) = offsets_of(s, stable=True).topics[0].partitions

    assert (now.error_code, now.committed_offset) == (ErrorCode.NONE, -1)
    assert stable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_offsets_are_not_for_another_generation_of_a_classic_member(s: Script):
    s.member("N").join()
    classic = s.classic("C")
    classic.join()

    its, another = (
        offsets_of(s, member_id=classic.member_id, epoch=classic.generation + more).error_code
        for more in (0, 1)
    )

    assert (its, another) == (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION)
