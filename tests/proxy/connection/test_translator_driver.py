"""Whom the driver asks about a group, and what it tells of a member that is translated from one call to the next."""

import math
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
    encode_assignment,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.metadata import MetadataResponse
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from proxy.connection.translator_driver import TranslatorDriver
from proxy.groups.broker_queries import BrokerQuery
from proxy.metrics.registry import Metrics
from proxy.session.request_metrics import RequestMetrics
from tests.proxy.fakes.translators import Scripted
from translation.actions import (
    Answer,
    Authorized,
    Call,
    Connection,
    ConnectionId,
    Event,
    EventKind,
    Forward,
    Relayed,
    Request,
    RequestId,
)


class Shell:
    """A connection that notes what it is to do."""

    def answer(self, request_id: RequestId, message: Any) -> None:
        pass

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def call(self, call: Call) -> None:
        self.calls.append(call)

    def forward(self, request_id: RequestId) -> None:
        pass

    def release(self) -> None:
        pass


def heard(driver: TranslatorDriver, shell: Any, number: int, group_id: str = "g") -> None:
    message = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
    connection = Connection(ConnectionId(number), "host", {})
    driver.request(shell, Request(RequestId(number), connection, ApiKey.HEARTBEAT, 3, "c", message))


def ask(driver: TranslatorDriver, group_id: str = "g") -> bool:
    return driver.ask(group_id, lambda _: BrokerQuery(ApiKey.METADATA, 9, None), lambda _: None)


async def test_the_connection_heard_last_is_asked_and_both_may_end_in_any_order():
    driver = TranslatorDriver(Scripted(), RequestMetrics(Metrics()), lambda _: None)
    first, second = Shell(), Shell()
    heard(driver, first, 1)
    heard(driver, second, 2)
    assert ask(driver)
    assert (len(first.calls), len(second.calls)) == (0, 1)

    driver.client_disconnected(ConnectionId(2))
    assert not ask(driver)
    driver.client_disconnected(ConnectionId(1))
    assert not ask(driver)


async def test_a_client_that_names_groups_without_end_fills_no_memory():
    driver = TranslatorDriver(Scripted(), RequestMetrics(Metrics()), lambda _: None)
    for n in range(5000):
        heard(driver, Shell(), 1, f"made up {n}")
    remembered = [n for n in range(5000) if ask(driver, f"made up {n}")]
    assert remembered == list(range(100))
    heard(driver, Shell(), 2)
    assert ask(driver), "others are not concerned"


@pytest.mark.parametrize("client_gone", [False, True])
async def test_what_a_member_held_ends_with_the_join_group_that_is_translated_not_with_its_answer(
    client_gone,
):
    """Else another member would be seen to get a partition that this one still seems to own."""
    translator, events = Scripted(), list[Event]()
    driver = TranslatorDriver(translator, RequestMetrics(Metrics()), events.append)
    shell, connection = Shell(), Connection(ConnectionId(1), "host", {})
    join = JoinGroupRequest(group_id="g", member_id="m", protocol_type="consumer", session_timeout_ms=45_000)
    topics = (ConsumerProtocolTopicPartition(topic="t", partitions=(0, 1)),)
    handed = SyncGroupResponse(assignment=encode_assignment(ConsumerProtocolAssignment(topics), 0))
    for number, key, message, response in (
        (1, ApiKey.JOIN_GROUP, join, JoinGroupResponse(member_id="m", generation_id=1)),
        (2, ApiKey.SYNC_GROUP, SyncGroupRequest(group_id="g", member_id="m", generation_id=1), handed),
    ):
        driver.call_relayed(shell, Request(RequestId(number), connection, key, 5, "c", message), response)
    assert [one.partitions for one in events[-1].owned] == [(0, 1)]

    authorized = [Authorized(RequestId(3))]
    translator.on_request = lambda _: [] if client_gone else authorized
    translator.on_client_disconnected = lambda _: authorized
    driver.request(shell, Request(RequestId(3), connection, ApiKey.JOIN_GROUP, 5, "c", join))
    if client_gone:
        driver.client_disconnected(connection.id)
    assert events[-1].kind is EventKind.REVOKED
    assert events[-1].owned == ()


async def test_a_joingroup_that_the_translation_relays_is_observed_with_its_session_timeout():
    """Without it the member is first seen at its SyncGroup, and taken for alive for 45 s after its last call."""
    events: list[Event] = []
    translator = Scripted()
    driver = TranslatorDriver(translator, RequestMetrics(Metrics()), events.append)
    shell, connection = Shell(), Connection(ConnectionId(1), "host", {})
    join = JoinGroupRequest(group_id="g", member_id="m", protocol_type="consumer", session_timeout_ms=6_000)
    request = Request(RequestId(1), connection, ApiKey.JOIN_GROUP, 5, "c", join)
    answer = JoinGroupResponse(member_id="m", generation_id=1)
    translator.on_request = lambda _request: [Relayed(request, answer)]
    driver.request(shell, request)
    assert (events[-1].kind, events[-1].member_id, events[-1].session_timeout_ms) == (
        EventKind.JOINED,
        "m",
        6_000,
    )


async def test_an_answer_to_a_question_whose_client_is_gone_is_nobodys():
    """The broker's side of a connection outlives the client, and answers there what was asked before."""
    driver = TranslatorDriver(Scripted(), RequestMetrics(Metrics()), lambda _: None)
    shell, told = Shell(), list[Any]()
    heard(driver, shell, 1)
    assert driver.ask("g", lambda _: BrokerQuery(ApiKey.METADATA, 9, None), told.append)
    (call,) = shell.calls
    driver.client_disconnected(ConnectionId(1))
    driver.reply(call.call_id, MetadataResponse())
    assert told == []


COMMIT = OffsetCommitRequest(
    group_id="g",
    member_id="m",
    topics=(
        OffsetCommitRequestTopic(
            name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=5),)
        ),
    ),
)


def commit_answered(code: ErrorCode) -> OffsetCommitResponse:
    partitions = (OffsetCommitResponsePartition(partition_index=0, error_code=code),)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=partitions),))


@pytest.mark.parametrize(("answers", "protocol"), [(True, "translated"), (False, "")])
async def test_a_commit_is_reported_whoever_answers_it(answers, protocol):
    translator, events = Scripted(), list[Event]()
    driver = TranslatorDriver(translator, RequestMetrics(Metrics()), events.append)
    shell, connection = Shell(), Connection(ConnectionId(1), "host", {})
    response = commit_answered(ErrorCode.NONE)
    act = (lambda request: [Answer(request.id, response)]) if answers else lambda one: [Forward(one.id)]
    translator.on_request = act
    request = Request(RequestId(1), connection, ApiKey.OFFSET_COMMIT, 8, "c", COMMIT)
    driver.request(shell, request)
    assert len(events) == answers
    if not answers:
        driver.call_relayed(shell, request, response)
    (event,) = events
    assert (event.kind, event.protocol, event.reason) == (EventKind.COMMITTED, protocol, "")


@pytest.mark.parametrize(
    ("code", "accepted_before", "reported"),
    [
        (ErrorCode.NONE, False, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, False, False),
    ],
)
async def test_refused_commits_of_strangers_are_not_reported(code, accepted_before, reported):
    """Anybody who can connect could fill the journal with them."""
    translator, events = Scripted(), list[Event]()
    translator.is_authorized = lambda *_: accepted_before
    driver = TranslatorDriver(translator, RequestMetrics(Metrics()), events.append)
    connection = Connection(ConnectionId(1), "host", {})
    request = Request(RequestId(1), connection, ApiKey.OFFSET_COMMIT, 8, "c", COMMIT)
    driver.call_relayed(Shell(), request, commit_answered(code))
    assert bool(events) is reported


async def test_a_commit_is_reported_if_the_broker_has_accepted_a_part_of_it():
    """A topic that does not exist in a commit does not hide that another's offset goes back."""
    translator, events = Scripted(), list[Event]()
    translator.is_authorized = lambda *_: False
    driver = TranslatorDriver(translator, RequestMetrics(Metrics()), events.append)
    connection = Connection(ConnectionId(1), "host", {})
    unknown = OffsetCommitRequestTopic(
        name="nobody", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    )
    commit = msgspec.structs.replace(COMMIT, topics=(*COMMIT.topics, unknown))
    refused = OffsetCommitResponseTopic(
        name="nobody",
        partitions=(OffsetCommitResponsePartition(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),),
    )
    response = OffsetCommitResponse(topics=(*commit_answered(ErrorCode.NONE).topics, refused))
    request = Request(RequestId(1), connection, ApiKey.OFFSET_COMMIT, 8, "c", commit)
    driver.call_relayed(Shell(), request, response)
    assert {event.reason: event.commits[0].topic for event in events} == {
        "": "t",
        "UNKNOWN_TOPIC_OR_PARTITION": "nobody",
    }


async def test_a_request_whose_client_has_gone_is_forgotten_with_its_connection():
    driver = TranslatorDriver(Scripted(), RequestMetrics(Metrics()), lambda _: None)
    driver._translator.on_request = lambda *_: []
    connection = Connection(ConnectionId(1), "host", {})
    request = Request(RequestId(1), connection, ApiKey.OFFSET_COMMIT, 8, "c", COMMIT)
    driver.request(Shell(), request)
    assert driver._requests
    driver.client_disconnected(connection.id)
    driver.forget(connection.id)
    assert not driver._requests


@pytest.mark.parametrize("is_translated", [True, False])
async def test_a_connection_that_carried_a_single_heartbeat_is_counted_when_it_ends(is_translated):
    """The broker is asked about its sender with that one: a client that loses each connection sends no second one."""
    translator, ended, accepted = Scripted(), list[frozenset[str]](), set[ConnectionId]()
    shell, connection, response = Shell(), Connection(ConnectionId(1), "host", {}), HeartbeatResponse()

    def accepts(request: Request) -> list[Any]:
        accepted.add(connection.id)
        return [Answer(request.id, response)]

    def passed(*_: Any) -> list[Any]:
        accepted.add(connection.id)
        return []

    translator.is_authorized = lambda connection_id, _: connection_id in accepted
    translator.on_request = accepts if is_translated else lambda request: [Forward(request.id)]
    translator.handle_relayed_response = passed
    driver = TranslatorDriver(
        translator, RequestMetrics(Metrics()), lambda _: None, on_disconnected=ended.append
    )
    heard(driver, shell, 1)
    if not is_translated:
        message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        driver.call_relayed(
            shell, Request(RequestId(1), connection, ApiKey.HEARTBEAT, 3, "c", message), response
        )
    driver.client_disconnected(connection.id)
    assert ended == [frozenset({"g"})]


async def test_a_heartbeat_that_the_broker_refuses_is_no_members_and_leaves_nothing():
    translator, ended = Scripted(), list[frozenset[str]]()
    translator.is_authorized = lambda *_: False
    driver = TranslatorDriver(
        translator, RequestMetrics(Metrics()), lambda _: None, on_disconnected=ended.append
    )
    for number, acts in enumerate(([Forward(RequestId(0))], [])):
        translator.on_request = lambda *_, acts=acts: acts
        heard(driver, Shell(), number)
        driver.client_disconnected(ConnectionId(number))
        driver.forget(ConnectionId(number))
    assert ended == []
    assert driver._first_heartbeats == set()


@pytest.mark.parametrize(("late_s", "reads_first"), [(0.05, False), (0.2, True), (60.0, True)])
async def test_after_a_standstill_calls_are_read_for_a_second_before_a_deadline_is_handled(
    mock_clock, late_s, reads_first
):
    translator, handled = Scripted(), list[float]()
    driver = TranslatorDriver(translator, RequestMetrics(Metrics()), lambda _: None)

    def at_time(now: float) -> list[Any]:
        handled.append(now)
        translator.deadline = math.inf
        return []

    translator.on_time = at_time
    translator.deadline = trio.current_time() + 5
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run_timers)
        await wait_all_tasks_blocked()
        mock_clock.jump(5 + late_s)
        await wait_all_tasks_blocked()
        assert bool(handled) is not reads_first
        mock_clock.jump(0.9)
        await wait_all_tasks_blocked()
        heard(driver, Shell(), 1)
        assert bool(handled) is not reads_first
        mock_clock.jump(0.2)
        await wait_all_tasks_blocked()
        assert handled
        nursery.cancel_scope.cancel()
