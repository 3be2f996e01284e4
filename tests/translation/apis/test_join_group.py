"""JoinGroup and SyncGroup: a classic client becomes a member of the new protocol."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.translation.answers import described, member
from tests.translation.bench import (
    GROUP,
    OTHER_TOPIC,
    TOPIC,
    TOPIC_ID,
    Bench,
    owned,
)
from tests.translation.live_groups import classic_group
from translation.actions import EventKind
from translation.policy.policy import Mode, Policy, Rule


def test_a_client_without_member_id_is_given_one() -> None:
    bench = Bench()
    answer = bench.answers[bench.join(bench.connect(), "")]
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "epochgate-uuid-1"
    assert bench.calls == []


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_client_that_does_not_know_member_id_required_joins_at_once(version: int) -> None:
    bench = Bench()
    bench.join(bench.connect(), "", version=version)
    assert bench.heartbeat_call().message.member_id == "epochgate-uuid-1"


def test_the_first_join_is_a_full_heartbeat_with_epoch_0() -> None:
    bench = Bench()
    bench.join(bench.connect(), "epochgate-a", topics=(OTHER_TOPIC, TOPIC), protocol="cooperative-sticky")
    call = bench.heartbeat_call()
    request = call.message
    assert call.client_id == "app"
    assert (request.group_id, request.member_id, request.member_epoch) == (GROUP, "epochgate-a", 0)
    assert request.subscribed_topic_names == (TOPIC, OTHER_TOPIC)
    assert owned(request) == {}
    assert request.server_assignor == "uniform"
    # the client's rebalance timeout, its session timeout, and a margin
    assert request.rebalance_timeout_ms == 60_000 + 10_000 + 10_000


def test_the_client_becomes_a_follower_and_its_generation_is_the_member_epoch() -> None:
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a")
    bench.beat(7, orders=(0, 1))
    answer = bench.answers[request]
    assert answer.error_code == ErrorCode.NONE
    assert answer.generation_id == 7
    assert answer.leader == ""
    assert answer.members == ()
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert bench.handed(bench.sync(connection, "epochgate-a", 7)) == {TOPIC: (0, 1)}


@pytest.mark.parametrize("embedded_version", [0, 1, 2, 3])
def test_the_assignment_has_the_clients_embedded_version(embedded_version: int) -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, "epochgate-a", embedded_version=embedded_version)
    bench.beat(1, orders=(0,))
    assignment = bench.answers[bench.sync(connection, "epochgate-a", 1)].assignment
    assert int.from_bytes(assignment[:2], "big") == embedded_version


def test_partitions_of_topics_that_the_client_did_not_subscribe_to_are_not_handed_out() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, "epochgate-a")
    bench.beat(1, orders=(0,), refunds=(5,))
    assert bench.handed(bench.sync(connection, "epochgate-a", 1)) == {TOPIC: (0,)}


def test_a_client_that_holds_nothing_waits_for_partitions() -> None:
    """Kafka 4.3 answers a joiner with its old epoch and nothing, and assigns in a later heartbeat."""
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a")
    bench.beat(4)
    assert request not in bench.answers
    bench.advance(0.25)
    assert bench.heartbeat_call().message.topic_partitions is None
    bench.beat(5, orders=(3,))
    bench.reply(described(member("epochgate-a", target=(3,))))
    assert bench.answers[request].generation_id == 5
    assert bench.handed(bench.sync(connection, "epochgate-a", 5)) == {TOPIC: (3,)}


def test_the_wait_ends_empty_handed_after_fifteen_seconds_and_the_session_does_not_run_meanwhile() -> None:
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a", session_timeout_ms=6000)
    bench.beat(4)
    for _ in range(60):
        assert request not in bench.answers
        bench.advance(0.25)
        bench.beat(4)
    assert bench.answers[request].error_code == ErrorCode.NONE
    sync = bench.sync(connection, "epochgate-a", 4)
    assert bench.handed(sync) == {}
    assert bench.answers[sync].assignment != b""


def test_a_client_without_topics_is_answered_at_once() -> None:
    """It subscribes to a pattern that matches nothing yet, and joins again when something does."""
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a", topics=())
    assert bench.heartbeat_call().message.subscribed_topic_names == ()
    bench.beat(4)
    assert bench.answers[request].generation_id == 4
    assert bench.handed(bench.sync(connection, "epochgate-a", 4)) == {}


def test_the_wait_is_at_most_three_quarters_of_a_short_rebalance_timeout() -> None:
    bench = Bench()
    request = bench.join(bench.connect(), "epochgate-a", rebalance_timeout_ms=1000)
    bench.beat(4)
    for _ in range(3):
        assert request not in bench.answers
        bench.advance(0.25)
        bench.beat(4)
    assert bench.answers[request].generation_id == 4


def test_a_client_whose_topics_do_not_exist_waits_for_three_seconds_and_is_told_when_there_is_one() -> None:
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a", topics=(TOPIC, OTHER_TOPIC))
    bench.beat(4)
    for _ in range(11):
        bench.advance(0.25)
        bench.beat(4)
    assert [call.api_key for call in bench.calls] == []
    bench.advance(0.25)
    bench.reply(bench.heartbeat_answer(4), bench.heartbeat_call())
    assert request not in bench.answers
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.reply(
        MetadataResponse(
            topics=(
                MetadataResponseTopic(name=TOPIC, error_code=unknown),
                MetadataResponseTopic(name=OTHER_TOPIC, error_code=unknown),
            )
        )
    )
    assert bench.answers[request].generation_id == 4
    assert bench.handed(bench.sync(connection, "epochgate-a", 4)) == {}

    heartbeat = bench.heartbeat(connection, "epochgate-a", 4)
    bench.beat(5, refunds=(0,))
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_client_of_whose_topics_one_exists_waits_on_and_they_are_asked_for_once() -> None:
    bench = Bench()
    request = bench.join(bench.connect(), "epochgate-a", topics=(TOPIC, "nowhere"))
    bench.beat(4)
    asked = 0
    for _ in range(39):
        bench.advance(0.25)
        bench.reply(bench.heartbeat_answer(4), bench.heartbeat_call())
        if bench.calls:
            asked += 1
            bench.reply_names()
    assert asked == 1
    assert request not in bench.answers


def test_a_membership_that_ends_while_its_topics_are_asked_for_is_not_answered_with_a_generation() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    older = bench.join(old, "older", instance_id="i-1", topics=("nowhere",))
    bench.beat(4)
    for _ in range(12):
        bench.advance(0.25)
        bench.reply(bench.heartbeat_answer(4), bench.heartbeat_call())
    newer = bench.join(new, "", instance_id="i-1")
    bench.reply(
        bench.heartbeat_answer(0, ErrorCode.UNRELEASED_INSTANCE_ID),
        bench.heartbeat_call(),
    )
    (describe,) = [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE]
    holder = ConsumerGroupDescribeResponseMember(member_id="older", instance_id="i-1", member_type=1)
    group = ConsumerGroupDescribeResponseDescribedGroup(group_id=GROUP, members=(holder,))
    bench.reply(ConsumerGroupDescribeResponse(groups=(group,)), describe)
    bench.reply(bench.heartbeat_answer(-2), bench.heartbeat_call())  # the older one is away
    bench.reply(bench.heartbeat_answer(5, orders=(0,)), bench.heartbeat_call())
    bench.reply_names()  # there is no topic "nowhere"
    holder = ConsumerGroupDescribeResponseMember(
        member_id="epochgate-uuid-1", instance_id="i-1", member_type=1
    )
    group = ConsumerGroupDescribeResponseDescribedGroup(group_id=GROUP, members=(holder,))
    (describe,) = [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE]
    bench.reply(ConsumerGroupDescribeResponse(groups=(group,)), describe)
    assert bench.error(older) == ErrorCode.FENCED_INSTANCE_ID
    bench.reply_names()
    assert bench.answers[newer].generation_id == 5


def test_a_commit_does_not_wait_behind_a_waiting_join() -> None:
    bench = Bench()
    connection, other = bench.connect(), bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.heartbeat(connection, "epochgate-a", 1)
    bench.beat(2, refunds=(0,))  # orders is taken away
    bench.join(connection, "epochgate-a")
    bench.beat(3, refunds=(0,))  # nothing that it subscribes to: waits
    commit = bench.commit(other, "epochgate-a", 1)
    assert [call.api_key for call in bench.calls] == [ApiKey.OFFSET_COMMIT]
    assert commit not in bench.answers


def test_two_joins_that_race_get_the_same_answer() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    first = bench.join(old, "epochgate-a")
    bench.beat(1)
    second = bench.join(new, "epochgate-a")
    bench.beat(2, orders=(0,))
    assert bench.answers[first] == bench.answers[second]
    assert bench.answers[second].generation_id == 2


def test_a_join_whose_client_went_away_ends_without_answer() -> None:
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a")
    bench.beat(1)
    bench.client_disconnected(connection)
    assert request not in bench.answers
    bench.advance(9.9)
    while bench.calls:  # kept alive until its session ends
        bench.beat(1)
    bench.advance(0.2)
    assert bench.heartbeat_call().message.member_epoch == -1
    bench.beat(-1)
    assert bench.released == [connection.id]


def test_the_coordinator_that_still_loads_is_asked_again_inside_join() -> None:
    bench = Bench()
    request = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert request not in bench.answers
    bench.advance(0.2)
    bench.answer_lookups()
    bench.beat(1, orders=(0,))
    assert bench.answers[request].error_code == ErrorCode.NONE


def test_a_group_in_which_others_have_to_give_up_when_it_is_loaded_is_not_converted_yet() -> None:
    """The coordinator has forgotten the rebalance in which they were to do so."""
    bench = Bench()
    request = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.advance(0.2)
    bench.reply(classic_group(claims=(0, 1, 2)))
    assert bench.calls == []
    bench.advance(0.3)
    bench.reply(classic_group(claims=(0, 1)))
    bench.beat(1, orders=(0,))
    assert bench.answers[request].error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("upstream", "client"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.GROUP_MAX_SIZE_REACHED),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_errors_of_the_broker_reach_the_joining_client(upstream: ErrorCode, client: ErrorCode) -> None:
    bench = Bench()
    request = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, upstream)
    assert bench.error(request) == client


def test_a_group_that_the_broker_can_not_convert_yet_is_asked_again_inside_join() -> None:
    """Kafka answers UNKNOWN_SERVER_ERROR while a classic group has not completed its first rebalance."""
    bench = Bench()
    join = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert join not in bench.answers
    bench.advance(0.2)
    bench.reply(classic_group(state="CompletingRebalance"))  # trying would fail those that wait there
    bench.advance(0.25)
    bench.reply(classic_group())
    bench.beat(1, orders=(0,))
    assert bench.error(join) == ErrorCode.NONE


def test_topics_that_the_principal_may_not_describe_are_left_out() -> None:
    bench = Bench()
    request = bench.join(bench.connect(), "epochgate-a", topics=(TOPIC, OTHER_TOPIC))
    bench.reply(bench.heartbeat_answer(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    bench.reply(
        MetadataResponse(
            topics=(
                MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID),
                MetadataResponseTopic(name=OTHER_TOPIC, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            )
        )
    )
    assert bench.heartbeat_call().message.subscribed_topic_names == (TOPIC,)
    bench.beat(1, orders=(0,))
    assert bench.error(request) == ErrorCode.NONE


@pytest.mark.parametrize("error", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_group_that_the_broker_does_not_convert_passes_through(error: ErrorCode) -> None:
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a")
    bench.beat(0, error)
    if error is ErrorCode.GROUP_ID_NOT_FOUND:  # it may have been a member that came meanwhile
        bench.answer_lookups()
        bench.beat(0, error)
    again = bench.join(connection, "epochgate-b")
    heartbeat = bench.heartbeat(connection, "epochgate-b", 3)
    assert bench.forwarded == [request, again, heartbeat]
    assert error.name in bench.events[-1].reason


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "reason"),
    [
        ("connect", "default", "protocol type is 'connect', not 'consumer'"),
        ("consumer", "stream", "assignor 'stream' is of Kafka Streams"),
    ],
)
def test_groups_that_are_not_consumers_of_a_known_kind_pass_through(
    protocol_type: str, protocol: str, reason: str
) -> None:
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, "", protocol_type=protocol_type, protocol=protocol)
    bench.relayed_response(connection, request, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED))
    heartbeat = bench.heartbeat(connection, "whoever", 1)
    assert bench.forwarded == [request, heartbeat]
    assert bench.events[-1].kind is EventKind.PASSED_THROUGH
    assert bench.events[-1].reason == reason


@pytest.mark.parametrize(
    ("protocol", "assignor"), [("range", "range"), ("roundrobin", "uniform"), ("sticky", "uniform")]
)
def test_the_server_assignor_follows_the_clients_first(protocol: str, assignor: str) -> None:
    bench = Bench()
    bench.join(bench.connect(), "epochgate-a", protocol=protocol)
    assert bench.heartbeat_call().message.server_assignor == assignor


@pytest.mark.parametrize(
    ("first", "second"), [("range", "cooperative-sticky"), ("cooperative-sticky", "range")]
)
def test_a_client_between_two_rolling_bounces_gets_the_first_of_its_assignors(
    first: str, second: str
) -> None:
    """KIP-429's first bounce adds the new assignor, the second takes the old one out."""
    bench = Bench()
    joined = bench.join(bench.connect(), "epochgate-a", protocol=first, more_protocols=(second,))
    bench.beat(1, orders=(0, 1))
    assert bench.answers[joined].protocol_name == first


def test_the_policy_may_choose_the_server_assignor() -> None:
    bench = Bench(policy=Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, assignor="uniform"),)))
    bench.join(bench.connect(), "epochgate-a", protocol="range")
    assert bench.heartbeat_call().message.server_assignor == "uniform"


def test_a_member_from_elsewhere_is_adopted_with_its_claim() -> None:
    """Its process was restarted: the broker knows it, and it goes on without losing a partition."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a", claims=(0, 1), protocol="cooperative-sticky")
    described = ConsumerGroupDescribeResponse(
        groups=(
            ConsumerGroupDescribeResponseDescribedGroup(
                group_id=GROUP,
                members=(
                    ConsumerGroupDescribeResponseMember(
                        member_id="epochgate-a", member_epoch=8, member_type=1
                    ),
                ),
            ),
        )
    )
    bench.reply(described)
    bench.reply_names()
    heartbeat = bench.heartbeat_call().message
    assert heartbeat.member_epoch == 8
    assert owned(heartbeat) == {TOPIC: (0, 1)}
    bench.beat(8, orders=(0, 1))
    assert bench.answers[request].generation_id == 8
    assert bench.handed(bench.sync(connection, "epochgate-a", 8)) == {TOPIC: (0, 1)}
    assert EventKind.ADOPTED in bench.kinds()


def test_an_error_code_that_is_not_known_here_refuses_the_join_and_its_number_is_the_reason() -> None:
    """Kafka adds codes: 137 is none yet."""
    bench = Bench()
    join = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, ErrorCode(137))
    assert bench.answers[join].error_code == 137
    assert "the broker answered 137" in bench.events[-1].reason
