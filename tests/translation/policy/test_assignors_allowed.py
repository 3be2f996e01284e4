"""Custom assignors that the policy allows: whose groups are translated then, and whose never are."""

import pytest

from protocol_codecs import ErrorCode
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.bench import NO_CONSUMER_GROUP, TRANSLATE_ALL, Bench
from tests.translation.live_groups import A, classic_group, told_to_move
from translation.actions import EventKind
from translation.policy.policy import Mode, Policy, Rule

RULE = Rule(pattern=".*", mode=Mode.TRANSLATE)
UNIFORM = Rule(pattern=".*", mode=Mode.TRANSLATE, assignor="uniform")
ALLOWED = Policy(rules=(RULE,), assignors_allowed=("lag-aware",))
ALLOWED_WITH_ASSIGNOR = Policy(rules=(UNIFORM,), assignors_allowed=("lag-aware",))
STREAMS_ALLOWED = Policy(rules=(UNIFORM,), assignors_allowed=("stream",))


def relayed_reason(policy: Policy, **join: object) -> str:
    """Why a client's JoinGroup passes through."""
    bench = Bench(policy)
    request = bench.join(bench.connect(), "epochgate-a", **join)
    assert bench.forwarded == [request]
    assert bench.events[-1].kind is EventKind.PASSED_THROUGH
    reason: str = bench.events[-1].reason
    return reason


def test_a_client_with_an_allowed_assignor_is_translated_from_join_group_to_its_partitions() -> None:
    bench = Bench(ALLOWED)
    connection = bench.connect()
    request = bench.join(connection, "epochgate-a", protocol="lag-aware")
    assert bench.heartbeat_call().message.server_assignor == "uniform"
    bench.beat(1, orders=(0, 1))
    assert bench.answers[request].protocol_name == "lag-aware"
    assert bench.handed(bench.sync(connection, "epochgate-a", 1)) == {"orders": (0, 1)}


def test_without_the_policy_it_passes_through_as_unknown() -> None:
    assert relayed_reason(TRANSLATE_ALL, protocol="lag-aware") == "assignor 'lag-aware' is unknown"


def test_an_allowed_assignor_that_sends_user_data_passes_through_unless_the_rule_names_one_that_assigns_without() -> (
    None
):
    reason = "user data in the subscriptions of assignor 'lag-aware'"
    for policy in (TRANSLATE_ALL, ALLOWED, Policy(rules=(UNIFORM,))):
        assert relayed_reason(policy, protocol="lag-aware", user_data=b"7") == reason
    bench = Bench(ALLOWED_WITH_ASSIGNOR)
    bench.join(bench.connect(), "epochgate-a", protocol="lag-aware", user_data=b"7")
    assert bench.heartbeat_call().message.server_assignor == "uniform"


@pytest.mark.parametrize("protocol", ["sticky", "cooperative-sticky", "rack-affinity"])
def test_user_data_of_known_assignors_is_no_obstacle(protocol: str) -> None:
    bench = Bench()
    bench.join(bench.connect(), "epochgate-a", protocol=protocol, user_data=b"what it had")
    assert bench.heartbeat_call().message.member_epoch == 0


@pytest.mark.parametrize("user_data", [None, b"tasks"])
def test_kafka_streams_is_never_translated(user_data: bytes | None) -> None:
    reason = relayed_reason(STREAMS_ALLOWED, protocol="stream", user_data=user_data)
    assert reason == "assignor 'stream' is of Kafka Streams"


def test_a_live_group_of_kafka_streams_is_never_told_to_move() -> None:
    bench = Bench(STREAMS_ALLOWED)
    heartbeat = bench.heartbeat(bench.connect(), A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(assignor="stream", user_data=b"tasks"))
    assert bench.forwarded == [heartbeat]
    assert bench.events[-1].reason == "not converted: assignor 'stream' is of Kafka Streams"


def test_a_live_group_with_user_data_in_its_assignments_is_not_moved_though_its_assignor_is_allowed() -> None:
    """Its clients may not work without. Those of sarama's and librdkafka's sticky do."""
    bench = Bench(ALLOWED_WITH_ASSIGNOR)
    heartbeat = bench.heartbeat(bench.connect(), A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(assignor="lag-aware", user_data=b"plan"))
    assert bench.forwarded == [heartbeat]
    reason = "user data in the assignments of assignor 'lag-aware'"
    assert bench.events[-1].reason == f"not converted: {reason}"


def test_a_live_group_with_user_data_in_its_subscriptions_is_moved_if_the_rule_names_an_assignor() -> None:
    group = classic_group(assignor="lag-aware", subscription_user_data=b"7")
    bench = Bench(ALLOWED)
    bench.heartbeat(bench.connect(), A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(group)
    reason = "user data in the subscriptions of assignor 'lag-aware'"
    assert bench.events[-1].reason == f"not converted: {reason}"
    bench = Bench(ALLOWED_WITH_ASSIGNOR)
    told = told_to_move(bench, bench.connect(), group)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS  # it is not known here: converted after that


def test_a_live_group_is_moved_when_a_new_policy_allows_its_assignor() -> None:
    bench = Bench()
    connection = bench.connect()
    request = bench.join(connection, A, protocol="lag-aware")
    bench.relayed_response(connection, request, JoinGroupResponse(member_id=A, generation_id=4))
    assert bench.heartbeat(connection, A, 4) in bench.forwarded
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    assert bench.heartbeat(connection, A, 4) in bench.forwarded, "it is not asked for again"
    bench.translator.set_policy(bench.now, ALLOWED)
    told = told_to_move(bench, connection, classic_group(assignor="lag-aware"))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS  # its SyncGroup is not known here


def test_a_translated_member_stays_one_when_its_assignor_is_not_allowed_any_more() -> None:
    bench = Bench(ALLOWED)
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="lag-aware")
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    again = bench.join(connection, "epochgate-a", protocol="lag-aware")
    bench.beat(1, orders=(0, 1))
    assert bench.error(again) == ErrorCode.NONE
    new = bench.join(connection, "epochgate-b", protocol="lag-aware")
    assert new in bench.forwarded


def test_what_a_client_offers_is_told_with_the_event() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, "epochgate-a", protocol="lag-aware", user_data=b"7", rack="a")
    offer = bench.events[-1].offer
    assert (offer.assignors, offer.user_data, offer.rack_aware) == (("lag-aware",), ("lag-aware",), True)
    bench.join(connection, "epochgate-b", protocol="roundrobin", rack="a")
    bench.beat(1, orders=(0,))
    (joined,) = [event for event in bench.events if event.kind is EventKind.JOINED]
    assert (joined.offer.assignors, joined.offer.rack_aware) == (("roundrobin",), False)


@pytest.mark.parametrize(
    ("protocol", "rack", "user_data", "aware"),
    [
        ("range", "a", None, True),
        ("range", "", None, False),
        ("range", None, None, False),
        ("cooperative-sticky", "a", b"\0\0\0\1", True),
        ("roundrobin", "a", None, False),
        ("rack-affinity", None, b"zone", True),
        ("rack-affinity", None, b"", False),
    ],
)
def test_clients_that_may_be_assigned_by_their_racks(
    protocol: str, rack: str | None, user_data: bytes | None, aware: bool
) -> None:
    bench = Bench(Policy(default=Mode.OBSERVE))
    bench.join(bench.connect(), "epochgate-a", protocol=protocol, rack=rack, user_data=user_data)
    assert bench.events[-1].offer.rack_aware is aware


def test_an_offer_that_no_client_makes_is_not_kept() -> None:
    bench = Bench(Policy(default=Mode.OBSERVE))
    bench.join(bench.connect(), "epochgate-a", protocol="x" * 300)
    assert bench.events[-1].reason.startswith("observed: assignor 'xxx")
    assert bench.events[-1].offer is None
