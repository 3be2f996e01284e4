"""Rules of docs/reference/rules.md that belong to no other history told here."""

import msgspec

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, OTHER_TOPIC, TOPIC, TOPIC_ID, Bench, owned
from translation.settings import TranslatorSettings

ONE_OF_SEVERAL = TranslatorSettings(sole_process=False)

HIDDEN = MetadataResponse(
    topics=(
        MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID),
        MetadataResponseTopic(name=OTHER_TOPIC, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    )
)
"""What the broker answers to a principal that may not describe the other topic."""


def test_a_sync_group_waits_for_the_heartbeat_that_is_under_way() -> None:
    """What that heartbeat brings is in the answer: an older assignment is never handed out after a newer one came."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    bench.heartbeat(connection, "epochgate-a", 1)
    sync = bench.sync(bench.connect(), "epochgate-a", 1)
    assert sync not in bench.answers
    bench.beat(1, orders=(0,))
    assert bench.error(sync) == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_id_that_nobody_knows_joins_under_that_id() -> None:
    """The client is not told that its membership is lost: some keep their partitions when JoinGroup fails."""
    bench = Bench(new_group=False)
    join = bench.join(bench.connect(), "epochgate-a", claims=(0,), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    while any(call.api_key == ApiKey.DESCRIBE_GROUPS for call in bench.calls):
        bench.reply(
            DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Dead"),)),
        )
        if any(call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE for call in bench.calls):
            bench.reply(NO_CONSUMER_GROUP)  # nor has it become one meanwhile
    bench.reply_names()  # of what it claims
    request = bench.heartbeat_call().message
    assert (request.member_id, request.member_epoch, owned(request)) == ("epochgate-a", 0, {})
    assert join not in bench.answers


def test_a_hidden_topic_stays_left_out_when_a_full_heartbeat_follows_a_lost_answer() -> None:
    bench = Bench()
    first, second = bench.connect(), bench.connect()
    bench.join(first, "epochgate-a", topics=(TOPIC, OTHER_TOPIC))
    bench.reply(bench.heartbeat_answer(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    bench.reply(HIDDEN)
    bench.beat(1, orders=(0,))
    bench.sync(first, "epochgate-a", 1)
    bench.settle(1)
    bench.heartbeat(first, "epochgate-a", 1)
    bench.upstream_lost(first)
    bench.heartbeat(second, "epochgate-a", 1)
    request = bench.heartbeat_call().message
    assert (request.subscribed_topic_names, owned(request)) == ((TOPIC,), {TOPIC: (0,)})


def test_a_topic_that_is_hidden_while_a_member_lives_is_left_out_of_its_full_heartbeats() -> None:
    """A process that is not alone sends full ones; without this a client would be answered errors for ever."""
    bench = Bench(settings=ONE_OF_SEVERAL)
    connection = bench.connect()
    bench.stable_member(connection, (0,), topics=(TOPIC, OTHER_TOPIC))
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    bench.reply(bench.heartbeat_answer(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    bench.reply(HIDDEN)
    assert bench.heartbeat_call().message.subscribed_topic_names == (TOPIC,)
    bench.beat(1, orders=(0,))
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_leave_group_that_the_broker_does_not_do_becomes_epoch_minus_1() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0,))
    leave = bench.leave(connection, "epochgate-a")
    refused = MemberResponse(member_id="epochgate-a", error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    bench.reply(LeaveGroupResponse(members=(refused,)))
    request = bench.heartbeat_call().message
    assert (request.member_id, request.member_epoch) == ("epochgate-a", -1)
    bench.beat(-1)
    assert bench.answers[leave].members[0].error_code == ErrorCode.NONE


def test_sync_group_echoes_the_protocol_type_and_the_clients_first_protocol() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0,), protocol="roundrobin")
    answer = bench.answers[bench.sync(connection, "epochgate-a", 1)]
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "roundrobin")


def test_a_topic_that_was_created_again_is_another_topic() -> None:
    """The same partition of the same name under another id: the client gives up the one and is given the other."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0,))
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    new_id = Uuid(b"orders, anew....")
    assignment = ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=(ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=new_id, partitions=(0,)),)
    )
    bench.reply(msgspec.structs.replace(bench.heartbeat_answer(1), assignment=assignment))
    bench.reply(MetadataResponse(topics=(MetadataResponseTopic(name=TOPIC, topic_id=new_id),)))
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
