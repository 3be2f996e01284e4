"""What the broker is sent for a member, and what its responses change."""

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.translation.answers import A
from tests.translation.bench import OTHER_TOPIC, TOPIC, TOPIC_ID, Bench, owned
from translation.settings import TranslatorSettings

ONE_OF_SEVERAL = TranslatorSettings(sole_process=False)

HIDDEN = MetadataResponse(
    topics=(
        MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID),
        MetadataResponseTopic(name=OTHER_TOPIC, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    )
)
"""What the broker answers to a principal that may not describe the other topic."""


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


def test_an_answer_without_a_heartbeat_interval_leaves_the_one_before() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="a")
    bench.heartbeat(connection, "a", 1)
    bench.reply(ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=1, heartbeat_interval_ms=0))
    bench.advance(1)
    assert bench.translator.next_deadline() > bench.now
