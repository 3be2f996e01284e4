"""A member goes back to the classic protocol by its client's own JoinGroup, with all that it owns."""

import math

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
    encode_subscription,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.answers import commit_answer, commit_error
from tests.translation.bench import GROUP, TOPIC, Bench
from tests.translation.classic_group import joined, to_observe
from translation.actions import Call, Connection, EventKind, RequestId
from translation.members.conversion import is_helper

A, B = "epochgate-a", "epochgate-b"
EPOCH = 1


def is_member(bench: Bench, member_id: str = A) -> bool:
    """Whether it has a membership of the new protocol here."""
    member = bench.translator._context.registry.find(GROUP, member_id)
    return member is not None and member.joined


def asked_to_rejoin(*, others: bool = True, instance_id: str | None = None) -> tuple[Bench, Connection]:
    """The policy says observe, and the member's Heartbeat has had its client rejoin; ``others``: B is a member too."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id=A, instance_id=instance_id)
    if others:
        bench.stable_member(bench.connect(), (2, 3), member_id=B)
    bench._new_group = False
    to_observe(bench)
    told = bench.heartbeat(connection, A, EPOCH, instance_id=instance_id)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.calls == []
    return bench, connection


def relayed_join(bench: Bench) -> Call:
    """The JoinGroup that is on its way to the broker; nothing else is."""
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP
    return call


# -- it goes well ------------------------------------------------------------------------------------------------------


def test_the_join_group_of_a_member_is_relayed_under_its_id_with_what_it_owns() -> None:
    bench, connection = asked_to_rejoin()
    join = bench.join(connection, A, claims=(0, 1))
    message = relayed_join(bench).message
    assert message == bench._requests[join].message
    assert message.member_id == A
    bench.reply(joined(A, EPOCH))
    assert bench.answers[join] == joined(A, EPOCH)
    assert bench.calls == []  # nothing is left, and nobody else is told
    assert bench.kinds()[-1] is EventKind.POLICY_CHANGED
    for request in (bench.sync(connection, A, EPOCH), bench.heartbeat(connection, A, EPOCH)):
        assert request in bench.forwarded


def test_its_membership_ends_only_when_the_broker_has_accepted_the_join_group() -> None:
    bench, connection = asked_to_rejoin()
    bench.join(connection, A)
    relayed_join(bench)
    assert is_member(bench)
    bench.reply(joined(A, EPOCH))
    assert not is_member(bench)


def test_no_heartbeat_is_sent_for_a_member_whose_join_group_is_on_its_way() -> None:
    """It would make the member one of the new protocol again, without an error."""
    bench, connection = asked_to_rejoin()
    bench.join(connection, A)
    for _ in range(20):
        bench.advance(1.0)
        for call in list(bench.calls):
            if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
                assert call.message.member_id == B
                bench.reply(bench.heartbeat_answer(EPOCH), call)
    bench.reply(joined(A, EPOCH), relayed_join(bench))
    bench.advance(20.0)
    assert all(A not in repr(call) for call in bench.calls)


def test_no_deadline_of_a_client_runs_while_it_waits_for_the_answer() -> None:
    """A JoinGroup to a classic group that rebalances may wait for longer than a session lasts."""
    bench, connection = asked_to_rejoin()
    bench.join(connection, A)
    member = bench.translator._context.registry.find(GROUP, A)
    assert member is not None
    assert member.deadlines.session_deadline == member.deadlines.rebalance_deadline == math.inf


def test_a_join_group_waits_for_the_heartbeat_that_is_on_its_way() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id=A)
    bench.stable_member(bench.connect(), (2, 3), member_id=B)
    bench._new_group = False
    bench.heartbeat(connection, A, EPOCH)
    to_observe(bench)
    bench.join(connection, A, claims=(0, 1))
    (heartbeat,) = bench.calls
    bench.reply(bench.heartbeat_answer(EPOCH), heartbeat)
    assert relayed_join(bench).message.member_id == A


@pytest.mark.parametrize("version", [8, 9])
def test_commits_of_a_client_that_gives_up_its_partitions_count(version: int) -> None:
    """The callback that its Heartbeat has it call, before it rejoins."""
    bench, connection = asked_to_rejoin()
    commit = bench.commit(connection, A, EPOCH, version=version)
    (call,) = bench.calls
    assert (call.api_key, call.message.generation_id_or_member_epoch) == (ApiKey.OFFSET_COMMIT, EPOCH)
    bench.reply(commit_answer())
    assert commit_error(bench, commit) == ErrorCode.NONE


def test_a_subscription_without_an_owned_list_gets_an_empty_one() -> None:
    """kafka-go's is of version 1 and ends where the owned partitions begin; no broker can read that of a member of a
    consumer group."""
    bench, connection = asked_to_rejoin()
    subscription = ConsumerProtocolSubscription(topics=(TOPIC,), user_data=b"its own")
    cut_short = b"\0\1" + encode_subscription(subscription, 0)[2:]
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=A,
        protocol_type="consumer",
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=cut_short) for name in ("range", "roundrobin")
        ),
    )
    join = bench.send(connection, ApiKey.JOIN_GROUP, 2, request)
    message = relayed_join(bench).message
    assert [protocol.name for protocol in message.protocols] == ["range", "roundrobin"]
    for protocol in message.protocols:
        assert decode_subscription(protocol.metadata) == (1, subscription)
        assert protocol.metadata == encode_subscription(subscription, 1)
    answer = JoinGroupResponse(generation_id=EPOCH, protocol_name="range", member_id=A)
    bench.reply(answer)
    bench.reply(SyncGroupResponse())
    bench.advance(0.25)
    (beat,) = [call for call in bench.calls if call.api_key == ApiKey.HEARTBEAT]
    bench.reply(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), beat)
    # The group is a classic one now, and kafka-go may lead it: it can't read another form than its own.
    assert relayed_join(bench).message == request
    assert join not in bench.answers


# -- the last one ------------------------------------------------------------------------------------------------------


def test_a_helper_joins_before_the_last_member_goes_back() -> None:
    """The group stays a consumer group until the helper leaves, so that a broker makes it a classic one."""
    bench, connection = asked_to_rejoin(others=False)
    bench.join(connection, A, claims=(0, 1))
    (helper,) = bench.calls
    assert is_helper(helper.message.member_id)
    bench.reply(bench.heartbeat_answer(EPOCH), helper)
    assert relayed_join(bench).message.member_id == A
    bench.reply(joined(A, EPOCH))
    assert not is_member(bench)
    conversion = bench.translator._context.registry.groups[GROUP].conversion
    assert conversion is not None
    assert conversion.helper_id == helper.message.member_id


def test_clients_that_join_on_new_connections_at_once_have_one_helper() -> None:
    """As kafka-go's do, which closes its connection with each generation: none counts as served here any more, so each
    member seems to be the last. A second helper would have no heartbeats, and hold the group until it expires."""
    bench = Bench()
    connections = {member_id: bench.connect() for member_id in (A, B)}
    for number, (member_id, connection) in enumerate(connections.items()):
        bench.stable_member(connection, (2 * number, 2 * number + 1), member_id=member_id)
    bench._new_group = False
    to_observe(bench)
    for member_id, connection in connections.items():
        bench.heartbeat(connection, member_id, EPOCH)
    for connection in connections.values():
        bench.client_disconnected(connection)
    for member_id in (A, B):
        bench.join(bench.connect(), member_id)
    helper, join = bench.calls
    assert is_helper(helper.message.member_id)
    assert join.message.member_id == B
    bench.reply(bench.heartbeat_answer(EPOCH), helper)
    assert [call.message.member_id for call in bench.calls] == [B, A]


def test_a_helper_goes_on_when_its_clients_come_back_on_new_connections() -> None:
    """kafka-go closes its connection before each JoinGroup. A helper that was given up would hold the group until its
    session is over at the broker."""
    bench, connection = asked_to_rejoin(others=False)
    bench.join(connection, A, claims=(0, 1))
    bench.reply(bench.heartbeat_answer(EPOCH))
    bench.reply(joined(A, EPOCH))
    bench.advance(1.0)
    bench.upstream_lost(connection)
    bench.client_disconnected(connection)
    bench.advance(10.0)
    assert not bench.calls
    again = bench.connect()
    bench.join(again, A)
    bench.reply(JoinGroupResponse(generation_id=EPOCH, protocol_name="range", member_id=A))
    bench.advance(1.0)
    (heartbeat,) = bench.calls
    assert is_helper(heartbeat.message.member_id)
    assert heartbeat.connection_id == again.id


def test_where_no_helper_finds_room_the_membership_ends_first() -> None:
    bench, connection = asked_to_rejoin(others=False)
    join = bench.join(connection, A)
    bench.reply(bench.heartbeat_answer(0, ErrorCode.GROUP_MAX_SIZE_REACHED))
    leaves_first(bench, join)


def test_where_no_helper_finds_room_a_client_that_owns_partitions_gives_them_up_first() -> None:
    """The end of its membership would give away what it works on: its Heartbeat makes it give that up."""
    bench, connection = asked_to_rejoin(others=False)
    join = bench.join(connection, A, claims=(0, 1))
    bench.reply(bench.heartbeat_answer(0, ErrorCode.GROUP_MAX_SIZE_REACHED))
    assert bench.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert is_member(bench)
    assert bench.error(bench.heartbeat(connection, A, 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_where_the_coordinator_is_away_the_client_tries_again_and_stays_a_member() -> None:
    bench, connection = asked_to_rejoin(others=False)
    join = bench.join(connection, A, claims=(0, 1))
    bench.reply(bench.heartbeat_answer(0, ErrorCode.NOT_COORDINATOR))
    assert bench.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert is_member(bench)
    assert bench.error(bench.heartbeat(connection, A, 1)) == ErrorCode.REBALANCE_IN_PROGRESS


# -- the broker's answers ----------------------------------------------------------------------------------------------


def leaves_first(bench: Bench, join: RequestId) -> None:
    """The member leaves the new protocol, and then its client joins without an id."""
    while any(call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE for call in bench.calls):
        bench.answer_lookups()
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT
    assert (leave.message.member_id, leave.message.member_epoch) == (A, -1)
    assert join not in bench.answers
    bench.reply(bench.heartbeat_answer(-1))
    assert relayed_join(bench).message.member_id == ""
    bench.reply(joined("a-new-id", 2))
    assert bench.answers[join].member_id == "a-new-id"
    assert not is_member(bench)


def test_where_the_broker_lets_no_classic_member_in_the_membership_ends_first() -> None:
    """``group.consumer.migration.policy`` is upgrade or disabled."""
    bench, connection = asked_to_rejoin()
    join = bench.join(connection, A)
    bench.reply(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    assert join not in bench.answers
    leaves_first(bench, join)


def test_a_member_that_the_broker_has_lost_ends_and_its_client_joins_without_an_id() -> None:
    bench, connection = asked_to_rejoin()
    join = bench.join(connection, A)
    bench.reply(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert bench.error(join) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not is_member(bench)
    assert EventKind.FENCED in bench.kinds()
    assert bench.calls == []


def test_a_join_group_that_the_coordinator_does_not_accept_now_leaves_the_member_as_it_is() -> None:
    bench, connection = asked_to_rejoin()
    join = bench.join(connection, A)
    bench.reply(JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert bench.error(join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert is_member(bench)
    bench.join(connection, A)
    bench.reply(joined(A, EPOCH), relayed_join(bench))
    assert not is_member(bench)


@pytest.mark.parametrize("others", [True, False], ids=["its JoinGroup is under way", "the helper is joining"])
def test_a_member_whose_connection_is_lost_meanwhile_keeps_its_membership_until_its_session_ends(
    *, others: bool
) -> None:
    bench, connection = asked_to_rejoin(others=others)
    bench.join(connection, A)
    assert len(bench.calls) == 1
    bench.upstream_lost(connection)
    assert is_member(bench)
    member = bench.translator._context.registry.find(GROUP, A)
    assert member is not None
    assert member.deadlines.session_deadline == pytest.approx(bench.now + 10.0)


def test_a_join_group_that_is_out_of_date_does_not_take_a_member_back() -> None:
    """Its client has joined again on another connection since, and works on partitions."""
    bench = Bench()
    stalled, connection = bench.connect(), bench.connect()
    bench.stable_member(stalled, (0, 1), member_id=A)
    bench.join(connection, A, claims=(0, 1))
    bench.beat(2, orders=(0, 1))
    bench.sync(connection, A, 2)
    to_observe(bench)
    assert bench.error(bench.heartbeat(connection, A, 2)) == ErrorCode.REBALANCE_IN_PROGRESS
    join = bench.join(stalled, A)
    assert bench.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []
    assert is_member(bench)


def test_the_instance_id_of_a_member_that_has_gone_back_is_free_here() -> None:
    bench, connection = asked_to_rejoin(instance_id="one")
    group = bench.translator._context.registry.groups[GROUP]
    assert group.static_member("one") is not None
    bench.join(connection, A, instance_id="one")
    bench.reply(joined(A, EPOCH))
    assert group.static_member("one") is None
