"""Who may act for a member: nothing that a call says counts before the broker has accepted its sender."""

from collections.abc import Callable
from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.bench import GROUP, OTHER_TOPIC, TOPIC, Bench, owned
from tests.translation.live_groups import described
from tests.translation.victim import ACCEPTED, INSTANCE, REFUSED, VICTIM, a_victim, heartbeat_succeeds
from translation.actions import Connection, EventKind, RequestId
from translation.members.group_migration import GroupMigration, Routing
from translation.members.member import Member
from translation.policy.policy import Mode, Policy, Rule
from translation.policy.rule_cache import RuleCache
from translation.settings import TranslatorSettings

Call = Callable[[Bench, Connection], RequestId]

CALLS: dict[str, Call] = {
    "JoinGroup with its instance id": lambda bench, by: bench.join(by, "", instance_id=INSTANCE, version=5),
    "JoinGroup with its id and a session of 1 ms": lambda bench, by: bench.join(
        by, VICTIM, session_timeout_ms=1
    ),
    "JoinGroup with its id and other topics": lambda bench, by: bench.join(by, VICTIM, topics=(OTHER_TOPIC,)),
    "JoinGroup of another protocol type": lambda bench, by: bench.join(by, "", protocol_type="connect"),
    "JoinGroup of somebody new": lambda bench, by: bench.join(by, ""),
    "SyncGroup": lambda bench, by: bench.sync(by, VICTIM, 1),
    "Heartbeat with its generation": lambda bench, by: bench.heartbeat(by, VICTIM, 1),
    "Heartbeat with another generation": lambda bench, by: bench.heartbeat(by, VICTIM, 7),
    "Heartbeat with its instance id": lambda bench, by: bench.heartbeat(by, "other", 1, instance_id=INSTANCE),
    "Heartbeat of nobody": lambda bench, by: bench.heartbeat(by, "epochgate-other", 1),
    "LeaveGroup": lambda bench, by: bench.leave(by, VICTIM),
    "OffsetCommit": lambda bench, by: bench.commit(by, VICTIM, 1),
}
"""What a stranger may say of somebody's member."""


def state_of(bench: Bench) -> Any:
    """All that the translation knows of groups and members, and when it wants to be called."""
    context = bench.translator._context
    groups = {
        group.group_id: (
            {member.member_id: state_of_member(member) for member in group.members.values()},
            dict(group.static_members),
            [getattr(group.migration, name) for name in GroupMigration.__slots__],
            dict(group.relayed_until),
            dict(group.pending_switches),
        )
        for group in context.registry.groups.values()
    }
    issued, joining = dict(context.ids._issued), dict(context.ids._joins_classic)
    return groups, issued, joining, bench.translator.next_deadline(), len(bench.events)


def state_of_member(member: Member) -> Any:
    apart = ("group", "_owner", "queue", "machine", "timer_at")
    parts = (member, member.client, member.partitions, member.broker, member.deadlines, member.join)
    apart += ("client", "partitions", "broker", "deadlines", "join")
    values = [repr(getattr(part, name)) for part in parts for name in part.__slots__ if name not in apart]
    return member.state, member.queue.idle, values


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("sole_process", [True, False], ids=["the only process", "one of several"])
def test_a_call_without_a_right_changes_nothing_and_the_broker_refuses_it(
    what: str, *, sole_process: bool
) -> None:
    bench, own = a_victim(sole_process=sole_process)
    stranger = bench.connect("/10.6.6.6")
    before = state_of(bench)
    request = CALLS[what](bench, stranger)
    (question,) = bench.questions()
    assert question.connection_id == stranger.id
    assert question.message.group_id == GROUP
    assert state_of(bench) == before
    bench.reply(REFUSED, question)
    assert state_of(bench) == before
    assert bench.forwarded[-1] == request  # the broker itself says no
    assert bench.calls == []
    heartbeat_succeeds(bench, own)


@pytest.mark.parametrize("what", CALLS)
def test_a_call_on_a_connection_that_the_broker_closes_changes_nothing(what: str) -> None:
    """As it does with one that has not authenticated."""
    bench, own = a_victim()
    stranger = bench.connect("/10.6.6.6")
    before = state_of(bench)
    CALLS[what](bench, stranger)
    bench.upstream_lost(stranger)
    assert state_of(bench) == before
    heartbeat_succeeds(bench, own)


@pytest.mark.parametrize("what", CALLS)
def test_a_connection_on_which_nobody_answers_holds_up_nobody(what: str) -> None:
    bench, own = a_victim()
    CALLS[what](bench, bench.connect("/10.6.6.6"))
    for _ in range(20):
        bench.advance(3)
        heartbeat_succeeds(bench, own)


def test_a_session_that_nobody_could_end_begins_once_again_however_often_strangers_call() -> None:
    """Else a stranger's calls could keep the member of a dead client alive."""
    bench, own = a_victim()

    def epochs() -> list[int]:
        return [one.message.member_epoch for one in bench.calls if hasattr(one.message, "member_epoch")]

    bench.client_disconnected(own)
    bench.upstream_lost(own)
    bench.advance(60)  # its session timeout is 10 s
    assert EventKind.SESSION_EXPIRED not in bench.kinds()
    for _ in range(4):
        bench.heartbeat(bench.connect("/10.6.6.6"), "somebody", 1)
        bench.reply(ACCEPTED, bench.questions()[0])
        bench.calls.clear()
        bench.advance(2.4)
    assert epochs() == []
    bench.advance(0.5)
    assert epochs() == [-1]
    bench.beat(-1)
    assert EventKind.SESSION_EXPIRED in bench.kinds()


def test_a_rebalance_timeout_does_not_end_while_the_broker_is_asked_about_the_rejoin() -> None:
    """The connection of the JoinGroup is another than that of the Heartbeats, as librdkafka's is."""
    bench = Bench()
    joins, beats = bench.connect(), bench.connect()
    bench.stable_member(joins, (0, 1), member_id=VICTIM, rebalance_timeout_ms=4_000)
    told = bench.heartbeat(beats, VICTIM, 1)
    bench.beat(1, orders=(0,))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.advance(3.9)
    bench._lets_in = False
    bench.join(joins, VICTIM, rebalance_timeout_ms=4_000)
    (question,) = bench.questions()
    bench.advance(1)
    bench.reply(ACCEPTED, question)
    assert {call.message.member_epoch for call in bench.calls} == {1}
    assert EventKind.REBALANCE_EXPIRED not in bench.kinds()


def test_the_broker_is_asked_once_for_each_connection_and_group() -> None:
    bench, _ = a_victim()
    connection = bench.connect()
    bench.heartbeat(connection, VICTIM, 1, instance_id=INSTANCE)
    bench.reply(ACCEPTED)
    bench.beat(1)
    bench.heartbeat(connection, VICTIM, 1, instance_id=INSTANCE)
    assert bench.questions() == []
    bench.beat(1)
    bench.heartbeat(bench.connect(), VICTIM, 1, instance_id=INSTANCE)
    assert len(bench.questions()) == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
def test_whatever_the_broker_says_after_it_has_looked_at_the_right_is_a_yes(code: ErrorCode) -> None:
    bench, _ = a_victim()
    heartbeat = bench.heartbeat(bench.connect(), VICTIM, 1, instance_id=INSTANCE)
    bench.reply(HeartbeatResponse(error_code=code))
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_what_was_accepted_for_one_group_does_not_count_for_another() -> None:
    bench, _ = a_victim()
    authorized = bench.translator._context.authorized_groups
    connection = bench.connect()
    bench.heartbeat(connection, VICTIM, 1, instance_id=INSTANCE)
    bench.reply(ACCEPTED)
    assert authorized.includes(connection.id, GROUP)
    assert not authorized.includes(connection.id, "another")


def test_a_refusal_of_the_broker_ends_what_was_accepted_before() -> None:
    bench, own = a_victim()
    bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    bench.beat(1, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    bench.leave(own, VICTIM)
    assert len(bench.questions()) == 1


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_an_authorizer_that_fails_lets_nobody_in(code: ErrorCode) -> None:
    bench, own = a_victim()
    stranger = bench.connect()
    join = bench.join(stranger, "", instance_id=INSTANCE)
    bench.reply(HeartbeatResponse(error_code=code))
    assert bench.forwarded == [join]
    assert not bench.translator.is_authorized(stranger.id, GROUP)
    heartbeat_succeeds(bench, own)


def test_a_call_for_a_member_that_is_served_elsewhere_is_asked_for_again() -> None:
    """A right that was withdrawn counts no more, and nor does a connection on which no answers come any more."""
    bench, own = a_victim()
    former = bench.connect()
    bench.heartbeat(former, "epochgate-other", 1)
    bench.reply(ACCEPTED)
    bench.reply(described({}))
    served_until = bench.translator._context.registry.find(GROUP, VICTIM).deadlines.session_deadline
    for call in CALLS.values():
        if call is CALLS["Heartbeat of nobody"] or call is CALLS["JoinGroup of somebody new"]:
            continue
        before = state_of(bench)
        another = bench.connect()
        bench.translator._context.authorized_groups.add(another.id, GROUP)
        request = call(bench, another)
        if bench.questions():
            bench.translator._context.registry.find(GROUP, VICTIM).deadlines.session_deadline = served_until
            # But for the session, which a connection that was accepted once prolongs.
            assert state_of(bench) == before
            bench.reply(REFUSED)
            assert request in bench.forwarded
    heartbeat_succeeds(bench, own)


def test_topics_of_one_connection_are_not_given_up_because_of_the_principal_of_another() -> None:
    bench, own = a_victim(sole_process=False)
    bench._lets_in = True
    other = bench.connect()  # whose principal may read the group, and not describe its topics
    heartbeat = bench.heartbeat(other, VICTIM, 1, instance_id=INSTANCE)
    bench.beat(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    silent = bench.heartbeat_call().message
    assert (silent.subscribed_topic_names, silent.topic_partitions) == (None, None)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
    bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    assert bench.heartbeat_call().message.subscribed_topic_names == (TOPIC,)


def test_what_an_unanswered_call_has_lost_is_not_asked_for_with_a_principal_that_may_not_see_the_topics() -> (
    None
):
    """A minimal heartbeat would not bring a lost assignment again, and with the epoch before it fence the member."""
    bench, own = a_victim()
    bench._lets_in = True
    other = bench.connect()  # whose principal may read the group, and not describe its topics
    bench.heartbeat(other, VICTIM, 1, instance_id=INSTANCE)
    bench.upstream_lost(other)
    another = bench.connect()
    heartbeat = bench.heartbeat(another, VICTIM, 1, instance_id=INSTANCE)
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}
    bench.beat(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert bench.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []
    told = bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}
    bench.beat(2, orders=(0,))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_client_on_a_new_connection_that_may_no_longer_see_its_topics_goes_on() -> None:
    """Nobody else can ask for what was lost, so it would be told to try again for ever."""
    bench, own = a_victim()
    bench._lets_in = True
    bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    bench.client_disconnected(own)
    bench.upstream_lost(own)
    heartbeat = bench.heartbeat(bench.connect(), VICTIM, 1, instance_id=INSTANCE)
    bench.beat(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert bench.heartbeat_call().message.subscribed_topic_names is None
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_what_was_lost_fences_nobody_when_only_a_principal_that_may_not_see_the_topics_is_left() -> None:
    """The broker accepts the epoch before its own only with what the client owns; the assignment is asked for again."""
    bench, own = a_victim()
    bench._lets_in = True
    bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    bench.upstream_lost(own)
    other = bench.connect()
    bench.heartbeat(other, VICTIM, 1, instance_id=INSTANCE)
    bench.beat(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    again = bench.heartbeat_call().message
    assert again.subscribed_topic_names is None
    assert owned(again) == {TOPIC: (0, 1)}
    bench.beat(2)
    back = bench.connect()
    told = bench.heartbeat(back, VICTIM, 1, instance_id=INSTANCE)
    assert bench.heartbeat_call().message.subscribed_topic_names == (TOPIC,)
    bench.beat(2, orders=(0,))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_group_that_was_accepted_lets_its_sender_take_the_instance_id_over() -> None:
    bench, own = a_victim()
    join = bench.join(bench.connect(), "", instance_id=INSTANCE)
    bench.reply(ACCEPTED)
    heartbeat = bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    assert bench.error(heartbeat) == ErrorCode.FENCED_INSTANCE_ID
    assert join not in bench.answers


def test_nothing_is_said_of_an_observed_join_group_before_the_broker_accepts_its_sender() -> None:
    bench = Bench(policy=Policy(), lets_in=False)
    request = bench.join(bench.connect(), "")
    assert bench.events == []
    bench.reply(REFUSED)
    assert bench.forwarded == [request]
    assert bench.events == []
    assert bench.translator._context.registry.groups == {}
    accepted = bench.join(bench.connect(), "")
    bench.reply(ACCEPTED)
    assert bench.forwarded == [request, accepted]
    assert bench.kinds() == [EventKind.PASSED_THROUGH]


def test_calls_that_are_relayed_anyway_wait_for_no_question() -> None:
    bench = Bench(policy=Policy(), lets_in=False)
    connection = bench.connect()
    requests = [
        bench.sync(connection, "a", 1),
        bench.heartbeat(connection, "a", 1),
        bench.commit(connection, "a", 1),
        bench.leave(connection, "a"),
    ]
    assert bench.forwarded == requests
    assert bench.calls == []


def test_another_protocol_type_does_not_turn_a_group_with_members_to_pass_through() -> None:
    bench, own = a_victim()
    bench._lets_in = True
    stranger = bench.connect()
    join = bench.join(stranger, "", protocol_type="connect")
    bench.relayed_response(
        stranger, join, JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    )
    assert bench.translator._context.registry.groups[GROUP].migration.routing is Routing.TRANSLATED
    accepted = bench.join(stranger, "", protocol="stream")
    bench.relayed_response(stranger, accepted, JoinGroupResponse(member_id="stream-1", generation_id=3))
    group = bench.translator._context.registry.groups[GROUP]
    assert group.migration.routing is Routing.TRANSLATED
    relayed = bench.heartbeat(stranger, "stream-1", 3)
    assert bench.forwarded[-1] == relayed
    heartbeat_succeeds(bench, own)


def test_a_sync_group_counts_for_a_classic_members_id_when_the_broker_has_accepted_it() -> None:
    bench = Bench(policy=Policy())
    ids = bench.translator._context.ids
    connection, another = bench.connect(), bench.connect()
    bench.join(connection, "app-1")
    sync = bench.sync(another, "app-1", 1)
    assert ids.may_become_classic("app-1", another.id)
    bench.relayed_response(another, sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert ids.may_become_classic("app-1", another.id)
    bench.relayed_response(another, sync, SyncGroupResponse())
    assert not ids.may_become_classic("app-1", another.id)


# -- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [1, 5_999, 1_800_001])
def test_a_session_timeout_that_a_broker_would_refuse_ends_nobody(timeout_ms: int) -> None:
    bench, own = a_victim()
    bench._lets_in = True
    join = bench.join(bench.connect(), VICTIM, session_timeout_ms=timeout_ms, instance_id=INSTANCE)
    assert bench.error(join) == ErrorCode.INVALID_SESSION_TIMEOUT
    bench.advance(1)
    heartbeat_succeeds(bench, own)


# -- connections that outlive their client ----------------------------------------------------------------------------


def test_a_connection_is_released_when_the_answer_for_a_client_that_is_gone_has_come() -> None:
    bench, _ = a_victim()
    stranger = bench.connect()
    bench.heartbeat(stranger, VICTIM, 1, instance_id=INSTANCE)
    bench.client_disconnected(stranger)
    assert bench.released == []
    bench.reply(REFUSED)
    assert bench.released == [stranger.id]
    assert bench.translator._context.authorized_groups._groups.keys() == {1}


def test_groups_of_one_connection_that_are_remembered_are_bounded() -> None:
    bench = Bench(settings=TranslatorSettings(authorized_groups_limit=2))
    authorized = bench.translator._context.authorized_groups
    connection = bench.connect()
    for group_id in ("a", "b", "c"):
        authorized.add(connection.id, group_id)
    assert [authorized.includes(connection.id, group_id) for group_id in ("a", "b", "c")] == [
        False,
        True,
        True,
    ]


def test_a_group_with_a_longer_id_than_anybody_needs_is_relayed_and_nothing_is_kept_of_it() -> None:
    bench = Bench()
    connection = bench.connect()
    message = HeartbeatRequest(group_id="g" * 256, generation_id=1, member_id=VICTIM)
    heartbeat = bench.send(connection, ApiKey.HEARTBEAT, 3, message)
    assert bench.forwarded == [heartbeat]
    assert bench.translator._context.registry.groups == {}


def test_a_group_with_a_long_id_is_rejected_all_the_same() -> None:
    reject = Policy(rules=(Rule(pattern="g+", mode=Mode.REJECT),))
    assert RuleCache(reject).rule_for("g" * 256).mode is Mode.REJECT


def test_groups_without_members_are_forgotten_however_many_have_some() -> None:
    bench = Bench(settings=TranslatorSettings(groups_limit=50))
    context = bench.translator._context
    for n in range(150):
        context.registry.member(f"live-{n}", "m").member_epoch = 1
    for n in range(1000):
        context.registry.group(f"stranger-{n}").migration.relay_until_join()
    assert sum(not group.members for group in context.registry.groups.values()) <= 50
    assert sum(bool(group.members) for group in context.registry.groups.values()) == 150


def test_a_call_without_a_right_does_not_end_the_time_for_which_a_group_is_relayed() -> None:
    bench = Bench(lets_in=False)
    group = bench.translator._context.registry.group(GROUP)
    group.migration.relay_for(1.0, bench.now)
    bench.advance(2)
    before = state_of(bench)
    bench.heartbeat(bench.connect(), "a", 1)
    assert state_of(bench) == before
