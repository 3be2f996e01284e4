"""DescribeGroups: old tools see a translated group in the classic form."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol_codecs.messages.consumer_protocol import decode_assignment, decode_subscription
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tests.translation.bench import GROUP, TOPIC, TOPIC_ID, Bench

DEAD = DescribedGroup(group_id=GROUP, group_state="Dead")
UNKNOWN = DescribedGroup(group_id=GROUP, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
CLASSIC = DescribedGroup(group_id="another", group_state="Stable", protocol_type="consumer")


@pytest.mark.parametrize(("version", "answer"), [(0, DEAD), (5, DEAD), (6, UNKNOWN)])
def test_a_consumer_group_is_described_in_the_classic_form(version: int, answer: DescribedGroup) -> None:
    bench = Bench()
    connection = bench.connect(client_host="10.1.2.3")
    bench.stable_member(connection, (0, 1))
    request = bench.send(
        connection, ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest(groups=(GROUP, "another"))
    )
    bench.reply(DescribeGroupsResponse(groups=(answer, CLASSIC)))
    (call,) = bench.calls
    assert call.message.group_ids == (GROUP,)
    topic = ConsumerGroupDescribeResponseTopicPartitions(
        topic_id=TOPIC_ID, topic_name=TOPIC, partitions=(0, 1)
    )
    member = ConsumerGroupDescribeResponseMember(
        member_id="epochgate-a",
        client_id="app",
        client_host="/192.0.2.1",
        subscribed_topic_names=(TOPIC,),
        assignment=ConsumerGroupDescribeResponseAssignment(topic_partitions=(topic,)),
    )
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, group_state="Reconciling", assignor_name="range", members=(member,)
    )
    bench.reply(ConsumerGroupDescribeResponse(groups=(group,)))
    described, another = bench.answers[request].groups
    assert another == CLASSIC
    assert described.error_code == ErrorCode.NONE
    assert (described.group_state, described.protocol_type) == ("CompletingRebalance", "consumer")
    (shown,) = described.members
    assert shown.client_host == "/10.1.2.3"  # the client's, not the proxy's
    assert decode_subscription(shown.member_metadata)[1].topics == (TOPIC,)
    (assigned,) = decode_assignment(shown.member_assignment)[1].assigned_partitions
    assert (assigned.topic, assigned.partitions) == (TOPIC, (0, 1))


def test_a_group_that_nobody_knows_is_answered_as_the_broker_does() -> None:
    bench = Bench()
    request = bench.send(bench.connect(), ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=(GROUP,)))
    bench.reply(DescribeGroupsResponse(groups=(DEAD,)))
    unknown = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, error_code=ErrorCode.GROUP_ID_NOT_FOUND
    )
    bench.reply(ConsumerGroupDescribeResponse(groups=(unknown,)))
    assert bench.answers[request].groups == (DEAD,)
