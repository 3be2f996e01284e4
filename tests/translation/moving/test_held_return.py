"""A client that goes back is answered once, when its group is a classic one: one rebalance, not two."""

from typing import Any

import msgspec
import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
    encode_assignment,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.answers import commit_answer, commit_error
from tests.translation.bench import GROUP, TOPIC, Bench
from tests.translation.classic_group import CLASSIC, NEW, consumer_group, joined, to_observe, to_translate
from translation.actions import Call, Connection, RequestId
from translation.members.conversion import HELPER_PREFIX
from translation.settings import TranslatorSettings

A, B = "epochgate-a", "epochgate-b"
NATIVE = "mK2xYc0tQ7mWcWQx3r3O1g"
HAD, HAS = 1, 3
"""The generation of the client, and the one at which the broker has its member."""


def held(*, others: bool = True, sole_process: bool = True) -> tuple[Bench, Connection, RequestId]:
    """The broker has A as a classic member of a consumer group, and its client waits for the answer."""
    bench = Bench(settings=TranslatorSettings(sole_process=sole_process))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id=A)
    if others:
        bench.stable_member(bench.connect(), (2, 3), member_id=B)
    bench._new_group = False
    to_observe(bench)
    bench.heartbeat(connection, A, HAD)
    join = bench.join(connection, A)
    if not sole_process:
        bench.reply(consumer_group({A: (NEW, HAD, (0, 1))}, HAD))
    if not others:
        bench.reply(bench.heartbeat_answer(HAS))
    bench.reply(of_consumer_group())
    sync = only(bench, ApiKey.SYNC_GROUP)
    assert (sync.message.member_id, sync.message.generation_id) == (A, HAS)
    bench.reply(SyncGroupResponse(assignment=assignment_of(0, 1)), sync)
    return bench, connection, join


def commit_behind_the_join_group() -> tuple[Bench, RequestId]:
    """A commit of A's client comes on another connection while its JoinGroup, by which it goes back, is under way. The
    broker has answered that by now, and still has to answer the SyncGroup."""
    bench = Bench()
    connection, other = bench.connect(), bench.connect()
    bench.stable_member(connection, (0, 1), member_id=A)
    bench.stable_member(bench.connect(), (2, 3), member_id=B)
    bench._new_group = False
    to_observe(bench)
    bench.heartbeat(connection, A, HAD)
    bench.join(connection, A)
    commit = bench.commit(other, A, HAD, version=7)
    bench.reply(of_consumer_group(), only(bench, ApiKey.JOIN_GROUP))
    return bench, commit


def of_consumer_group() -> JoinGroupResponse:
    """The answer to a classic JoinGroup in a consumer group: it has no leader."""
    return JoinGroupResponse(generation_id=HAS, protocol_type="consumer", protocol_name="range", member_id=A)


def assignment_of(*partitions: int) -> bytes:
    topics = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=partitions),)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), 0)


def only(bench: Bench, api_key: ApiKey) -> Call:
    calls = [call for call in bench.calls if call.api_key == api_key]
    assert len(calls) == 1
    return calls[0]


def beat(bench: Bench, code: ErrorCode = ErrorCode.NONE, seconds: float = 0.3) -> None:
    """The next Heartbeat of the proxy for A is answered; all else that the proxy has asked stays unanswered."""
    bench.advance(seconds)
    heartbeat = only(bench, ApiKey.HEARTBEAT)
    assert (heartbeat.message.member_id, heartbeat.message.generation_id) == (A, HAS)
    bench.reply(HeartbeatResponse(error_code=code), heartbeat)


def until_answered(bench: Bench, join: RequestId, members: Any = None) -> float:
    """Let time pass until the client is answered, while all of its member's Heartbeats are accepted; how long it was.

    ``members`` are those that the broker describes.
    """
    began = bench.now
    while join not in bench.answers:
        assert bench.now < began + 60
        bench.advance(0.25)
        for call in list(bench.calls):
            if call.api_key == ApiKey.HEARTBEAT:
                bench.reply(HeartbeatResponse(), call)
            elif call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE and members is not None:
                bench.reply(consumer_group(members, HAS), call)
            elif call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
                bench.reply(bench.heartbeat_answer(HAS), call)
    return bench.now - began


def test_a_client_is_answered_when_its_group_is_a_classic_one() -> None:
    bench, _, join = held()
    beat(bench)
    assert join not in bench.answers
    beat(bench, ErrorCode.REBALANCE_IN_PROGRESS)  # the last member of the new protocol has left
    again = only(bench, ApiKey.JOIN_GROUP)
    assert again.message == bench._requests[join].message
    bench.advance(30.0)  # the broker answers when all have joined
    assert join not in bench.answers
    answer = joined(A, HAS + 1)
    bench.reply(answer, again)
    assert bench.answers[join] == answer


def test_a_client_that_joins_a_classic_group_is_answered_at_once() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id=A)
    bench.stable_member(bench.connect(), (2, 3), member_id=B)
    to_observe(bench)
    join = bench.join(connection, A)
    bench.reply(joined(A, HAS))
    assert bench.answers[join] == joined(A, HAS)


@pytest.mark.parametrize("assigned", [(0, 1), (0,)])
def test_a_client_hears_of_another_epoch_of_its_consumer_group_only_with_another_assignment(
    assigned: tuple[int, ...],
) -> None:
    """REBALANCE_IN_PROGRESS of a consumer group: its partitions have changed, or one of several helpers has left."""
    bench, _, join = held()
    beat(bench, ErrorCode.REBALANCE_IN_PROGRESS)
    answer = msgspec.structs.replace(of_consumer_group(), generation_id=HAS + 1)
    bench.reply(answer, only(bench, ApiKey.JOIN_GROUP))
    sync = only(bench, ApiKey.SYNC_GROUP)
    assert sync.message.generation_id == HAS + 1
    bench.reply(SyncGroupResponse(assignment=assignment_of(*assigned)), sync)
    if assigned != (0, 1):
        assert bench.answers[join] == answer
        return
    assert join not in bench.answers
    bench.advance(0.3)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), only(bench, ApiKey.HEARTBEAT))
    bench.reply(joined(A, HAS + 2), only(bench, ApiKey.JOIN_GROUP))
    assert bench.answers[join] == joined(A, HAS + 2)


def test_a_member_that_the_broker_has_lost_meanwhile_is_refused_by_the_broker() -> None:
    bench, _, join = held()
    beat(bench, ErrorCode.UNKNOWN_MEMBER_ID)
    bench.reply(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), only(bench, ApiKey.JOIN_GROUP))
    assert bench.error(join) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_that_has_begun_already_answers_the_client() -> None:
    """SyncGroup is refused, and its client would be refused in the same way."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id=A)
    bench.stable_member(bench.connect(), (2, 3), member_id=B)
    to_observe(bench)
    join = bench.join(connection, A)
    bench.reply(of_consumer_group())
    bench.reply(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), only(bench, ApiKey.SYNC_GROUP))
    assert bench.answers[join] == of_consumer_group()


# -- where it is not certain -------------------------------------------------------------------------------------------


def test_a_client_does_not_wait_for_others_for_ever() -> None:
    """Another one does not rejoin: those that wait go on with what they have, and rejoin once more later."""
    bench, _, join = held()
    waited = until_answered(bench, join, {A: (CLASSIC, HAS, ()), B: (NEW, HAS, (2, 3))})
    assert waited == pytest.approx(15.0, abs=0.5)
    assert bench.answers[join] == of_consumer_group()


def test_a_client_does_not_wait_for_native_members() -> None:
    bench, _, join = held()
    assert until_answered(bench, join, {A: (CLASSIC, HAS, ()), NATIVE: (NEW, HAS, (2, 3))}) < 2.0
    assert bench.answers[join] == of_consumer_group()


@pytest.mark.parametrize("other_helper", [True, False])
def test_a_client_waits_while_the_helper_of_another_process_is_in_the_group(other_helper: bool) -> None:
    """It saw the policy's change later: its members are still to go back, and then the group becomes a classic one."""
    bench, _, join = held(others=False, sole_process=False)
    elsewhere = {f"{HELPER_PREFIX}another": (NEW, HAS, ())} if other_helper else {}
    waited = until_answered(bench, join, {A: (CLASSIC, HAS, (0, 1)), **elsewhere})
    assert waited == pytest.approx(15.0, abs=0.5) if other_helper else waited < 5.0


def test_a_client_does_not_wait_if_its_group_is_to_be_translated_after_all() -> None:
    bench, _, join = held()
    to_translate(bench)
    assert until_answered(bench, join) < 0.6
    assert bench.answers[join] == of_consumer_group()


def test_a_client_waits_no_longer_when_the_helper_has_left_in_vain() -> None:
    """A broker whose migration policy has no downgrade leaves the group a consumer group."""
    bench, _, join = held(others=False)
    helper_id = bench.translator._context.registry.groups[GROUP].conversion.helper_id  # type: ignore[union-attr]
    members = {A: (CLASSIC, HAS, (0, 1)), helper_id: (NEW, HAS, ())}
    assert until_answered(bench, join, members) < 4.0
    assert bench.answers[join] == of_consumer_group()


def test_a_client_that_has_hung_up_keeps_nothing_alive() -> None:
    bench, connection, _ = held()
    bench.client_disconnected(connection)
    bench.advance(1.0)
    assert not [call for call in bench.calls if call.api_key in (ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP)]


def test_a_newer_join_group_of_the_client_goes_to_the_broker() -> None:
    bench, connection, join = held()
    newer = bench.join(connection, A)
    bench.reply(of_consumer_group(), only(bench, ApiKey.JOIN_GROUP))
    assert bench.answers[newer] == of_consumer_group()
    assert bench.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.advance(1.0)
    assert not [call for call in bench.calls if call.api_key == ApiKey.HEARTBEAT]


# -- its calls meanwhile -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 7, 9])
def test_a_commit_of_a_client_that_waits_counts(version: int) -> None:
    """A cooperative client works on what it keeps, and still has the generation from before."""
    bench, connection, _ = held()
    commit = bench.commit(connection, A, HAD, version=version)
    call = only(bench, ApiKey.OFFSET_COMMIT)
    assert (call.version, call.message.generation_id_or_member_epoch) == (version, HAS)
    bench.reply(commit_answer(), call)
    assert commit_error(bench, commit) == ErrorCode.NONE


def test_a_commit_that_waited_behind_the_join_group_counts() -> None:
    """Else its client would take itself for no member any more, and join beside its own JoinGroup."""
    bench, commit = commit_behind_the_join_group()
    bench.reply(SyncGroupResponse(), only(bench, ApiKey.SYNC_GROUP))
    call = only(bench, ApiKey.OFFSET_COMMIT)
    assert (call.version, call.message.generation_id_or_member_epoch) == (7, HAS)
    bench.reply(commit_answer(), call)
    assert commit_error(bench, commit) == ErrorCode.NONE


def test_a_commit_that_waited_behind_a_join_group_that_is_not_held_is_the_brokers_to_answer() -> None:
    bench, commit = commit_behind_the_join_group()
    refused = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    bench.reply(refused, only(bench, ApiKey.SYNC_GROUP))
    assert commit in bench.forwarded


def test_a_commit_with_another_generation_is_the_brokers_to_refuse() -> None:
    bench, connection, _ = held()
    assert bench.commit(connection, A, HAS + 1, version=9) in bench.forwarded


def test_a_heartbeat_of_a_client_that_waits_is_answered_by_the_broker() -> None:
    bench, connection, _ = held()
    heartbeat = bench.heartbeat(connection, A, HAD)
    call = only(bench, ApiKey.HEARTBEAT)
    assert call.message.generation_id == HAS
    bench.reply(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), call)
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS


def test_afterwards_the_generation_is_the_brokers_own() -> None:
    bench, connection, join = held()
    until_answered(bench, join, {A: (CLASSIC, HAS, ()), NATIVE: (NEW, HAS, (2, 3))})
    assert bench.heartbeat(connection, A, HAS) in bench.forwarded
    assert bench.commit(connection, A, HAD, version=9) in bench.forwarded
