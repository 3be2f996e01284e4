"""When a live classic group may be converted, and what its members do until then."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TRANSLATE_ALL, Bench
from tests.translation.live_groups import (
    OBSERVE_ALL,
    A,
    B,
    classic_group,
    given_another_id,
    joins_cut_short,
    leaves,
    mixed_group,
    told_to_move,
)
from translation.actions import RequestId
from translation.settings import TranslatorSettings


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (classic_group(protocol_type="connect"), "protocol type is 'connect', not 'consumer'"),
        (classic_group(assignor="stream"), "assignor 'stream' is of Kafka Streams"),
    ],
)
def test_no_member_of_a_group_that_can_not_be_converted_is_disturbed(
    group: DescribeGroupsResponse, reason: str
) -> None:
    bench = Bench()
    connection = bench.connect()
    first = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(group)
    second = bench.heartbeat(connection, A, 4)
    assert bench.forwarded == [first, second]
    assert bench.events[-1].reason == f"not converted: {reason}"


@pytest.mark.parametrize("group", [classic_group(user_data=b"sticky"), classic_group(cut_short=True)])
def test_eager_members_of_a_group_that_has_to_be_empty_rejoin_in_a_rebalance_although_they_joined_elsewhere(
    group: DescribeGroupsResponse,
) -> None:
    """Assignors that keep user data (sarama's sticky), subscriptions that are cut short (kafka-go)."""
    bench = Bench()
    told = told_to_move(bench, bench.connect(), group)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_cooperative_group_that_the_broker_converts_only_without_members_is_moved_all_at_once() -> None:
    """librdkafka's cooperative-sticky keeps user data, and its clients keep their partitions in a rebalance."""
    group = classic_group(user_data=b"sticky", assignor="cooperative-sticky")
    bench = Bench()
    first, second = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    told = told_to_move(bench, first, group)
    told_too = bench.heartbeat(second, B, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(HeartbeatResponse())
    assert {bench.error(told), bench.error(told_too)} == {ErrorCode.UNKNOWN_MEMBER_ID}
    bench.join(first, "")
    join = bench.join(first, "epochgate-uuid-1")
    bench.reply(LeaveGroupResponse())
    bench.answer_lookups()
    bench.beat(1, orders=(0, 1))
    bench.settle(1)
    assert bench.answers[join].generation_id == 1


def is_converted_next(bench: Bench) -> None:
    """The Heartbeat of A waits for the broker's answer, by which A is converted (or has to rejoin first)."""
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.HEARTBEAT, A)


def test_a_group_that_rebalances_is_converted_later() -> None:
    bench = Bench()
    connection = bench.connect()
    first = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.forwarded == [first]
    bench.advance(1.2)
    second = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    is_converted_next(bench)
    assert second not in bench.forwarded


def test_a_group_in_the_middle_of_a_cooperative_rebalance_is_converted_when_all_have_given_up_or_had_time_to() -> (
    None
):
    """The broker would take what the leader assigned for what the members hold."""
    bench = Bench()
    connection = bench.connect()

    def tell(claims: tuple[int, ...]) -> RequestId:
        heartbeat = bench.heartbeat(connection, A, 4)
        bench.reply(NO_CONSUMER_GROUP)
        bench.reply(classic_group(claims=claims))
        return heartbeat

    assert bench.forwarded == [tell((1, 2))]
    bench.advance(299.0)
    assert tell((1, 2)) in bench.forwarded
    bench.advance(2.0)
    assert tell((1, 2)) not in bench.forwarded
    is_converted_next(bench)


def test_the_time_to_give_up_partitions_runs_on_when_the_members_ids_are_forgotten_meanwhile() -> None:
    bench = Bench()
    connection = bench.connect()
    for wait in (0.0, 299.0, 2.0):
        bench.advance(wait)
        bench.commit(connection, A, 4)  # looked up, relayed, and not remembered
        bench.reply(NO_CONSUMER_GROUP)
        heartbeat = bench.heartbeat(connection, A, 4)
        bench.reply(NO_CONSUMER_GROUP)
        bench.reply(classic_group(claims=(1, 2)))
    assert heartbeat not in bench.forwarded
    is_converted_next(bench)


def test_another_policy_gives_members_time_anew_to_give_up_partitions() -> None:
    bench = Bench()
    connection = bench.connect()
    for _ in range(2):
        heartbeat = bench.heartbeat(connection, A, 4)
        bench.reply(NO_CONSUMER_GROUP)
        bench.reply(classic_group(claims=(1, 2)))
        assert heartbeat in bench.forwarded
        bench.advance(400.0)
        bench.translator.set_policy(bench.now, TRANSLATE_ALL)


def test_to_translate_a_rebalance_does_not_wait_for_a_client_that_waits_for_the_rebalance() -> None:
    bench = Bench()
    connection = bench.connect()
    given_another_id(bench, connection)
    bench.join(connection, "epochgate-uuid-1")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    leaves(bench, A)
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0


CONVERTED = {
    "Kafka": DescribedGroup(group_id=GROUP, group_state="Dead"),
    "kfake": DescribedGroup(group_id=GROUP, group_state="Stable"),
}
"""How brokers describe a consumer group to those that ask for a classic one: kfake says no protocol type."""

each_broker = pytest.mark.parametrize("converted", CONVERTED.values(), ids=CONVERTED.keys())


@each_broker
def test_a_new_member_joins_a_group_that_another_converts_while_the_broker_is_asked(
    converted: DescribedGroup,
) -> None:
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, "")
    bench.join(connection, "epochgate-uuid-1")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(DescribeGroupsResponse(groups=(converted,)))
    assert bench.heartbeat_call().message.member_epoch == 0


@each_broker
def test_a_classic_member_with_partitions_stays_classic_when_its_group_is_converted_while_the_broker_is_asked(
    converted: DescribedGroup,
) -> None:
    """The broker has the group as no consumer group at first, and a moment later as no classic one."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(DescribeGroupsResponse(groups=(converted,)))
    bench.reply(mixed_group(A))
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


def test_a_consumer_group_that_becomes_a_classic_one_when_its_first_mover_leaves_is_asked_for_again() -> None:
    """All its members were classic. The broker takes their targets for what they hold until they have joined again."""
    bench = Bench()
    connection = bench.connect()
    given_another_id(bench, connection)
    bench.join(connection, "epochgate-uuid-1")
    bench.reply(mixed_group(A, B))
    leaves(bench, A)
    bench.reply(LeaveGroupResponse())
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0


def test_a_consumer_group_that_becomes_a_classic_one_when_a_member_joins_anew_by_itself_is_asked_for_again() -> (
    None
):
    """The same as above, of a client that was not told: brokers can't read its JoinGroup in a consumer group, as
    kafka-go's."""
    bench = Bench(new_group=False)
    joins_cut_short(bench, bench.connect(), A)
    bench.reply(mixed_group(A, B))
    leaves(bench, A)
    bench.reply(LeaveGroupResponse())
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0


def test_a_new_member_waits_until_the_classic_group_has_finished_its_rebalance() -> None:
    """The conversion would fail the JoinGroups that wait there, which ends aiokafka's and old Java clients."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, "")
    join = bench.join(connection, "epochgate-uuid-1")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0
    bench.beat(5, orders=(0,))
    assert bench.error(join) == ErrorCode.NONE


def test_a_client_that_was_to_go_back_and_then_not_rejoins_as_the_member_that_it_is() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(connection, "epochgate-a", 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    join = bench.join(connection, "epochgate-a", claims=(0, 1))
    rejoined = bench.heartbeat_call().message
    assert (rejoined.member_id, rejoined.member_epoch) == ("epochgate-a", 1)
    bench.beat(1, orders=(0, 1))
    assert bench.answers[join].generation_id == 1


def test_that_the_group_was_a_consumer_group_once_does_not_count() -> None:
    """Its last member of the new protocol may have left since, by another process."""
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.client_disconnected(connection)
    bench._new_group = False
    joining = bench.connect("10.0.0.2")
    bench.join(joining, "")
    bench.join(joining, "epochgate-uuid-1")
    (call,) = bench.calls
    assert call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE


def test_a_client_that_lost_its_membership_while_it_waited_does_not_convert_the_group_in_a_rebalance() -> (
    None
):
    """All members of the new protocol are gone, so that the broker has made those that are still classic a group."""
    bench = Bench()
    join = bench.join(bench.connect(), "m-1")
    bench.beat(4)
    bench.advance(0.25)
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    bench.beat(5, orders=(0,))
    assert bench.answers[join].generation_id == 5


@pytest.mark.parametrize(("seconds", "asks"), [(4, False), (6, True)])
def test_that_the_group_is_a_consumer_group_counts_while_the_broker_was_heard_of_late(
    seconds: float, *, asks: bool
) -> None:
    """A process that stood still does not know whether the members that it has are members still."""
    bench = Bench(new_group=False)
    for member_id in ("m-1", "m-2"):
        bench.translator._context.ids.issued(member_id)
    bench.join(bench.connect(), "m-1")
    bench.answer_lookups()
    bench.beat(1, orders=(0,))
    bench.settle(1)
    bench.now += seconds  # and its timers are late
    bench.join(bench.connect(), "m-2")
    kinds = {call.api_key for call in bench.calls if getattr(call.message, "member_id", "m-2") == "m-2"}
    assert kinds == {ApiKey.CONSUMER_GROUP_DESCRIBE if asks else ApiKey.CONSUMER_GROUP_HEARTBEAT}
