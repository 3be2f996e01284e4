"""Members that another process served are adopted, and end when their client joins anew."""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.answers import A, commit_answer, cooperative_member, described, member
from tests.translation.bench import OTHER_TOPIC, TOPIC, Bench, owned
from translation.actions import Connection, EventKind
from translation.settings import TranslatorSettings


def test_a_heartbeat_of_a_member_from_elsewhere_asks_it_to_join() -> None:
    bench = Bench()
    connection = bench.connect()
    heartbeat = bench.heartbeat(connection, "epochgate-a", 4)
    bench.reply(described(member("epochgate-a", epoch=5)))
    bench.beat(5)
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert EventKind.ADOPTED in bench.kinds()
    join = bench.join(connection, "epochgate-a", claims=(0,), protocol="cooperative-sticky")
    bench.reply_names()
    upstream = bench.heartbeat_call().message
    assert (upstream.member_epoch, owned(upstream)) == (5, {TOPIC: (0,)})
    bench.beat(5, orders=(0,))
    assert bench.answers[join].generation_id == 5


def test_a_commit_of_a_member_from_elsewhere_goes_out_with_the_described_epoch() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.commit(connection, "epochgate-a", 4)
    bench.reply(described(member("epochgate-a", epoch=5)))
    (call,) = bench.calls
    assert (call.api_key, call.message.generation_id_or_member_epoch) == (ApiKey.OFFSET_COMMIT, 5)


def test_a_member_that_the_broker_does_not_know_either_joins_anew() -> None:
    bench = Bench()
    heartbeat = bench.heartbeat(bench.connect(), "epochgate-a", 4)
    bench.reply(described(member("somebody-else")))
    assert bench.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_members_are_hidden_from_the_principal_is_not_adopted() -> None:
    bench = Bench()
    heartbeat = bench.heartbeat(bench.connect(), "epochgate-a", 4)
    bench.reply(described(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert bench.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_with_partitions_whose_group_is_hidden_from_the_principal_is_left_to_the_broker() -> None:
    """An epoch 0 heartbeat would free at once what it works on, if it is a member already."""
    bench = Bench(new_group=False)
    join = bench.join(bench.connect(), "epochgate-a", claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(described(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "epochgate-a")
    bench.reply(JoinGroupResponse(generation_id=6, member_id="epochgate-a"))
    assert bench.answers[join].generation_id == 6


def test_a_new_client_whose_group_is_hidden_from_the_principal_joins() -> None:
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, "")
    bench.join(connection, "epochgate-uuid-1", claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(described(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    bench.reply_names()
    assert bench.heartbeat_call().message.member_epoch == 0


def test_a_description_that_is_hidden_ends_no_membership_whose_join_group_waits() -> None:
    """Somebody else may have sent the Heartbeat: the JoinGroup shows where the client is."""
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    connection = cooperative_member(bench)
    join = bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(described(member(A, epoch=1)))
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    heartbeat = bench.heartbeat(bench.connect(), A, 2)
    bench.reply(described(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert bench.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.advance(1.0)
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}
    bench.beat(1, orders=(0, 1))
    assert bench.error(join) == ErrorCode.NONE


def adopted(bench: Bench) -> Connection:
    """A connection whose client has sent a Heartbeat as a member that another process had served."""
    connection = bench.connect()
    bench.heartbeat(connection, "epochgate-a", 4)
    bench.reply(described(member("epochgate-a", epoch=5)))
    bench.beat(5)
    return connection


def test_an_adopted_member_whose_client_joins_anew_holding_nothing_leaves_at_once() -> None:
    bench = Bench()
    connection = adopted(bench)
    join = bench.join(connection, "epochgate-b")
    left = bench.heartbeat_call().message
    assert (left.member_id, left.member_epoch) == ("epochgate-a", -1)
    bench.beat(-1)
    joined = bench.heartbeat_call().message
    assert (joined.member_id, joined.member_epoch) == ("epochgate-b", 0)
    bench.beat(6, orders=(0,))
    assert bench.error(join) == ErrorCode.NONE


def test_an_adopted_member_stays_if_its_client_still_holds_something() -> None:
    bench = Bench()
    connection = adopted(bench)
    bench.join(connection, "epochgate-b", claims=(0,), protocol="cooperative-sticky")
    bench.reply_names()
    assert bench.heartbeat_call().message.member_id == "epochgate-b"


def test_an_adopted_member_stays_if_another_connection_joins() -> None:
    bench = Bench()
    adopted(bench)
    bench.join(bench.connect(), "epochgate-b")
    assert bench.heartbeat_call().message.member_id == "epochgate-b"


def test_a_member_that_has_joined_here_stays_whoever_joins_on_its_connection() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.join(connection, "epochgate-b")
    assert bench.heartbeat_call().message.member_id == "epochgate-b"


def test_a_static_member_that_is_away_is_not_adopted_with_its_epoch_of_minus_two() -> None:
    bench = Bench(new_group=False)
    connection = bench.connect()
    heartbeat = bench.heartbeat(connection, "away", 4, instance_id="instance-1")
    bench.reply(described(member("away", epoch=-2, instance_id="instance-1")))
    assert bench.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not bench.calls


def test_a_member_that_is_adopted_while_its_join_group_waits_is_what_that_says() -> None:
    """Else partitions of a topic that the JoinGroup adds would be kept from the client, and its session would run."""
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    own, other, third = bench.connect(), bench.connect(), bench.connect()
    generation = bench.stable_member(own, (0, 1))
    bench._new_group = False
    both = (TOPIC, OTHER_TOPIC)
    join = bench.join(
        own, A, claims=(0, 1), topics=both, protocol="cooperative-sticky", session_timeout_ms=8_000
    )
    bench.reply(described(member(A, epoch=1)))
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.heartbeat(other, A, generation)
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.client_disconnected(other)
    bench.commit(third, A, generation)
    bench.reply(described(member(A, epoch=2)))  # it is adopted for the commit
    bench.reply(commit_answer())
    bench.advance(0.5)
    assert bench.heartbeat_call().message.subscribed_topic_names == both
    bench.beat(2, orders=(0, 1))
    bench.sync(own, A, bench.answers[join].generation_id)
    told = bench.heartbeat(own, A, bench.answers[join].generation_id)
    bench.beat(2, orders=(0, 1), refunds=(0,))
    bench.advance(2.0)
    bench.settle(2)
    told = bench.heartbeat(own, A, bench.answers[join].generation_id)
    bench.beat(2)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
