"""SyncGroup: nothing goes upstream for it, whichever connection it comes on, but who may act in the group is asked."""

import msgspec

from protocol_codecs import ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.translation.bench import TOPIC, Bench
from translation.actions import Connection, RequestId


def test_on_the_connection_of_the_join_group_nothing_goes_upstream() -> None:
    bench = Bench()
    line = bench.connect()
    bench.stable_member(line, (0, 1), epoch=5)
    bench.settle(5)
    bench.sync(line, "epochgate-a", 5)
    assert bench.calls == []


def synced_on_another_connection(bench: Bench) -> tuple[Connection, RequestId]:
    """The other connection and its SyncGroup, for a member that is stable at epoch 5."""
    line, other = bench.connect(), bench.connect()
    bench.stable_member(line, (0, 1), epoch=5)
    bench.settle(5)
    bench._lets_in = False
    return other, bench.sync(other, "epochgate-a", 5)


def test_on_another_connection_the_broker_is_asked_first() -> None:
    bench = Bench()
    other, request = synced_on_another_connection(bench)
    assert request not in bench.answers
    (question,) = bench.questions()
    assert question.connection_id == other.id
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert bench.answers[request].assignment
    assert bench.calls == []


def test_who_may_not_read_the_group_gets_no_assignment() -> None:
    bench = Bench()
    _, request = synced_on_another_connection(bench)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert request not in bench.answers
    assert bench.forwarded == [request]  # the broker itself refuses it


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
