"""Members whose calls pass through: what their calls and the broker's answers tell."""

from collections.abc import Iterable

import pytest

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation.actions import Connection, ConnectionId, Event, EventKind, Request, RequestId
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames

TOPIC = Uuid(bytes(15) + b"\x01")


class ObservedClient:
    """One client whose calls pass through; ``now`` is the time in seconds."""

    def __init__(self) -> None:
        self.topics = TopicNames()
        self.observer = Observer(self.topics)
        self.connection = Connection(ConnectionId(1), "/10.0.0.1", {}, "librdkafka/2.8.0")
        self.member_id = "m"
        self.now = 0.0
        self.events: list[Event] = []

    def call(self, api_key: ApiKey, message, response, version: int = 5) -> list[EventKind]:
        request = Request(RequestId(1), self.connection, api_key, version, "app", message)
        events = self.observer.request_forwarded(self.now, request)
        events += self.observer.response_received(self.now, request, response)
        return self.note(events)

    def forward(self, now: float, message) -> None:
        request = Request(RequestId(2), self.connection, ApiKey.JOIN_GROUP, 5, "app", message)
        self.observer.request_forwarded(now, request)

    def note(self, events: Iterable[Event]) -> list[EventKind]:
        self.events += events
        return [event.kind for event in events if event.kind is not EventKind.STATE_CHANGED]

    def join(self, claims: Iterable[int] = (), generation: int = 1, **answer: object) -> list[EventKind]:
        owned = (ConsumerProtocolTopicPartition(topic="t", partitions=tuple(claims)),) if claims else ()
        subscription = ConsumerProtocolSubscription(topics=("t",), owned_partitions=owned)
        protocol = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(subscription, 1))
        message = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        response = JoinGroupResponse(generation_id=generation, member_id=self.member_id, **answer)
        return self.call(ApiKey.JOIN_GROUP, message, response)

    def sync(self, partitions: Iterable[int], generation: int = 1) -> list[EventKind]:
        assigned = (ConsumerProtocolTopicPartition(topic="t", partitions=tuple(partitions)),)
        assignment = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), 0)
        message = SyncGroupRequest(group_id="g", generation_id=generation, member_id=self.member_id)
        return self.call(ApiKey.SYNC_GROUP, message, SyncGroupResponse(assignment=assignment))

    def heartbeat(self, code: ErrorCode = ErrorCode.NONE) -> list[EventKind]:
        message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        return self.call(ApiKey.HEARTBEAT, message, HeartbeatResponse(error_code=code))

    def beat(
        self,
        sent: int,
        got: int,
        *,
        assigned: Iterable[int] | None = None,
        owned: Iterable[int] | None = None,
        code: ErrorCode = ErrorCode.NONE,
    ) -> list[EventKind]:
        message = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=sent,
            subscribed_topic_names=("t",) if sent == 0 else None,
            topic_partitions=None
            if owned is None
            else (ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=TOPIC, partitions=tuple(owned)),),
        )
        assignment = None
        if assigned is not None:
            topic = ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC, partitions=tuple(assigned))
            assignment = ConsumerGroupHeartbeatResponseAssignment(topic_partitions=(topic,))
        response = ConsumerGroupHeartbeatResponse(
            error_code=code, member_id="m", member_epoch=got, assignment=assignment
        )
        return self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, message, response, 1)

    @property
    def owned(self) -> list[tuple[str, tuple[int, ...]]] | None:
        owned = self.events[-1].owned
        return None if owned is None else [(one.topic, one.partitions) for one in owned]


@pytest.fixture
def client() -> ObservedClient:
    return ObservedClient()


def test_a_classic_member_joins_and_is_assigned(client):
    assert client.join() == [EventKind.JOINED]
    assert client.sync([0, 1]) == [EventKind.ASSIGNED]
    last = client.events[-1]
    assert (last.protocol, last.state, last.generation, last.epoch) == ("classic", "Stable", 1, -1)
    assert (last.client_id, last.client_host, last.software) == ("app", "/10.0.0.1", "librdkafka/2.8.0")
    assert client.owned == [("t", (0, 1))]


def test_an_eager_member_holds_nothing_between_join_and_sync(client):
    client.join()
    client.sync([0, 1])
    assert client.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS) == []
    assert client.events[-1].state == "PrepareRebalance"
    assert client.join(generation=2) == [EventKind.REVOKED, EventKind.JOINED]
    assert client.owned == []
    assert client.sync([1], generation=2) == [EventKind.ASSIGNED]
    assert client.owned == [("t", (1,))]


def test_a_cooperative_member_keeps_what_it_claims(client):
    client.join()
    client.sync([0, 1])
    client.join([0, 1], generation=2)
    assert client.owned == [("t", (0, 1))]
    assert client.sync([0], generation=2) == [EventKind.REVOKE_REQUESTED]
    assert client.owned == [("t", (0, 1))]
    client.join([0], generation=3)
    assert client.owned == [("t", (0,))]


def test_a_member_that_joins_again_by_itself_is_rebalancing_from_then_on(client):
    client.join()
    client.sync([0])
    client.join(generation=2)
    changes = [event.state for event in client.events if event.kind is EventKind.STATE_CHANGED]
    assert changes == ["CompletingRebalance", "Stable", "PrepareRebalance", "CompletingRebalance"]


def test_a_member_without_an_id_is_none_yet(client):
    assert client.join(error_code=ErrorCode.MEMBER_ID_REQUIRED) == []


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_a_member_that_the_broker_does_not_know_any_more_holds_nothing(client, code):
    client.join()
    client.sync([0])
    assert client.heartbeat(code) == [EventKind.FENCED]
    assert client.owned == []
    assert client.heartbeat(code) == []


def test_a_member_leaves(client):
    client.join()
    client.sync([0])
    message = LeaveGroupRequest(group_id="g", member_id="m")
    assert client.call(ApiKey.LEAVE_GROUP, message, LeaveGroupResponse(), 1) == [EventKind.LEFT]
    assert client.owned == []


def test_a_silent_member_is_forgotten_after_its_session_timeout(client):
    client.join()
    client.sync([0])
    assert client.note(client.observer.handle_time(9.0)) == []
    assert client.note(client.observer.handle_time(10.1)) == [EventKind.SESSION_EXPIRED]


def test_a_silent_member_is_expired_before_another_is_assigned_its_partitions(client):
    client.join()
    client.sync([0])
    client.now, client.member_id = 9.0, "m-2"
    client.join(generation=2)
    client.now = 10.1  # since handle_time was called last
    assert client.sync([0], generation=2) == [EventKind.SESSION_EXPIRED, EventKind.ASSIGNED]


def test_a_shorter_session_counts_after_a_long_wait_in_join_group(client):
    client.join()
    request = JoinGroupRequest(group_id="g", member_id="m", protocol_type="consumer")
    client.forward(5.0, request)
    assert client.note(client.observer.handle_time(20.0)) == []
    client.now = 30.0
    client.join(generation=2)
    assert client.note(client.observer.handle_time(39.9)) == []
    assert client.note(client.observer.handle_time(40.1)) == [EventKind.SESSION_EXPIRED]


def test_members_that_left_are_not_kept(client):
    for number in range(5000):
        client.member_id = f"m-{number}"
        client.join()
        message = LeaveGroupRequest(group_id="g", member_id=client.member_id)
        client.call(ApiKey.LEAVE_GROUP, message, LeaveGroupResponse(), 1)
    assert len(client.observer._members._due) < 2000


def test_a_member_that_waits_in_join_group_is_not_silent(client):
    client.join()
    client.sync([0])
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, member_id="m", protocol_type="consumer", protocols=()
    )
    client.forward(5.0, request)
    assert client.note(client.observer.handle_time(60.0)) == []


def test_a_member_that_is_first_seen_at_a_heartbeat_holds_what_nobody_knows(client):
    assert client.heartbeat() == [EventKind.ADOPTED]
    assert client.owned is None


def test_a_native_member_is_assigned_and_gives_up_what_is_asked_back(client):
    assert client.beat(0, 1, assigned=[0, 1]) == [EventKind.JOINED, EventKind.ASSIGNED]
    assert (client.events[-1].protocol, client.events[-1].epoch) == ("consumer", 1)
    assert client.beat(1, 1, assigned=[0]) == [EventKind.REVOKE_REQUESTED]
    assert client.owned == [("t", (0, 1))]
    assert client.beat(1, 2, owned=[0]) == [EventKind.REVOKED, EventKind.EPOCH_MOVED]
    assert client.owned == [("t", (0,))]
    assert client.beat(-1, -1) == [EventKind.LEFT]


def test_a_native_member_is_fenced(client):
    client.beat(0, 1, assigned=[0])
    assert client.beat(1, 0, code=ErrorCode.FENCED_MEMBER_EPOCH) == [EventKind.FENCED]


def test_a_topic_whose_name_is_not_known_is_asked_for_and_told_by_its_id(client):
    client.beat(7, 7, assigned=[3])
    assert client.owned == [("", (3,))]
    assert client.topics.wanted
    client.topics.learn([(TOPIC, "orders")])
    client.beat(7, 8)
    assert client.owned == [("orders", (3,))]
