"""What a client holds, as far as this process knows. Simulation found each of these histories."""

import msgspec

from protocol_codecs import ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.translation.answers import A, cooperative_member, described, member
from tests.translation.bench import OTHER_TOPIC, TOPIC, Bench, owned
from translation.actions import Connection


def test_what_a_client_has_just_unsubscribed_from_is_not_released_while_it_claims_it() -> None:
    bench = Bench()
    connection = cooperative_member(bench)
    bench.join(connection, A, claims=(0, 1), topics=(OTHER_TOPIC,), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}


def test_a_sync_group_of_a_member_from_elsewhere_is_asked_to_join_whatever_its_protocol() -> None:
    bench = Bench()
    connection = bench.connect()
    sync = bench.sync(connection, A, 5)
    bench.reply(described(member(A, epoch=5)))
    assert bench.error(sync) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_lost_answer_of_a_member_from_elsewhere_releases_nothing() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 5)
    bench.reply(described(member(A, epoch=5)))
    bench.upstream_lost(connection)
    bench.heartbeat(bench.connect(), A, 5)
    assert owned(bench.heartbeat_call().message) is None  # what its client holds is not known here


def test_a_client_that_claims_partitions_waits_until_the_broker_can_say_who_it_is() -> None:
    bench = Bench(new_group=False)
    connection = bench.connect()
    join = bench.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    bench.reply(described(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    bench.advance(0.2)
    bench.reply(described(error=ErrorCode.NOT_COORDINATOR))
    assert bench.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []


def test_the_generation_of_a_member_from_elsewhere_is_the_newest_that_its_client_says() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.commit(connection, A, 4)
    bench.reply(described(member(A, epoch=5)))
    bench.calls.clear()
    other = bench.connect()
    bench.translator.upstream_lost(bench.now, connection.id)
    told = bench.heartbeat(other, A, 5)
    bench.beat(5)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.error(bench.heartbeat(other, A, 4)) == ErrorCode.ILLEGAL_GENERATION


def given_the_topic_created_anew(bench: Bench, partitions: tuple[int, ...]) -> tuple[Connection, Uuid]:
    """A client whose waiting JoinGroup was answered with the same partitions of the new topic, whose id is second."""
    connection = bench.connect()
    bench.stable_member(connection, partitions, protocol="cooperative-sticky")
    bench.join(connection, A, claims=partitions, protocol="cooperative-sticky")
    new_id = Uuid(b"orders, anew....")
    assignment = ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=(
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=new_id, partitions=partitions),
        )
    )
    bench.reply(msgspec.structs.replace(bench.heartbeat_answer(2), assignment=assignment))
    bench.reply(MetadataResponse(topics=(MetadataResponseTopic(name=TOPIC, topic_id=new_id),)))
    bench.sync(connection, A, 2)
    return connection, new_id


def test_of_a_topic_that_was_created_again_a_client_reports_what_is_assigned_now() -> None:
    """A report has names, and the client has been given the new topic's partitions."""
    partitions = tuple(range(8))
    bench = Bench()
    connection, new_id = given_the_topic_created_anew(bench, partitions)
    bench.join(connection, A, claims=partitions, protocol="cooperative-sticky")
    (listed,) = bench.heartbeat_call().message.topic_partitions
    assert (listed.topic_id, listed.partitions) == (new_id, partitions)


def test_the_partitions_of_a_topic_that_was_created_again_need_no_revocation() -> None:
    """The client knows partitions by name: to it nothing changed, so its next Heartbeat is answered NONE."""
    bench = Bench()
    connection, new_id = given_the_topic_created_anew(bench, (0, 1))
    bench.settle(2)
    heartbeat = bench.heartbeat(connection, A, 2)
    (listed,) = bench.heartbeat_call().message.topic_partitions
    assert (listed.topic_id, listed.partitions) == (new_id, (0, 1))
    bench.beat(2)
    assert bench.error(heartbeat) == ErrorCode.NONE
