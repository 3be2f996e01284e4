"""Members of share groups and of streams groups: what their heartbeats and the broker's answers tell."""

from collections.abc import Iterable, Mapping

import pytest

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseTaskIds,
)
from translation.actions import (
    Connection,
    ConnectionId,
    Event,
    EventKind,
    MemberProtocol,
    Request,
    RequestId,
)
from translation.passthrough.observer import OBSERVED, Observer
from translation.passthrough.topic_names import TopicNames

TOPIC = Uuid(bytes(15) + b"\x01")
LONG = "x" * 300

Tasks = Mapping[str, Iterable[int]]


class ObservedClient:
    """One client whose heartbeats pass through; ``now`` is the time in seconds."""

    def __init__(self, observer: Observer, member_id: str = "m", connection: int = 1) -> None:
        self.observer = observer
        self.member_id = member_id
        self.connection = Connection(ConnectionId(connection), "/10.0.0.1", {}, "apache-kafka-java/4.4.0")
        self.now = 0.0
        self.events: list[Event] = []

    def call(self, api_key: ApiKey, message, response) -> list[EventKind]:
        request = Request(RequestId(1), self.connection, api_key, 1, "app", message)
        events = self.observer.request_forwarded(self.now, request)
        events += self.observer.response_received(self.now, request, response)
        return self.note(events)

    def note(self, events: Iterable[Event]) -> list[EventKind]:
        self.events += events
        return [event.kind for event in events if event.kind is not EventKind.STATE_CHANGED]

    def shares(
        self, sent: int, got: int, assigned: Iterable[int] | None = None, code: ErrorCode = ErrorCode.NONE
    ) -> list[EventKind]:
        message = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=sent,
            subscribed_topic_names=("t",) if sent == 0 else None,
        )
        assignment = None
        if assigned is not None:
            topic = ShareGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC, partitions=tuple(assigned))
            assignment = ShareGroupHeartbeatResponseAssignment(topic_partitions=(topic,))
        response = ShareGroupHeartbeatResponse(
            error_code=code, member_id=self.member_id, member_epoch=got, assignment=assignment
        )
        return self.call(ApiKey.SHARE_GROUP_HEARTBEAT, message, response)

    def streams(
        self,
        sent: int,
        got: int,
        *,
        active: Tasks | None = None,
        standby: Tasks | None = None,
        owned: Tasks | None = None,
        code: ErrorCode = ErrorCode.NONE,
    ) -> list[EventKind]:
        """``active`` and ``standby`` are what the answer assigns, ``owned`` the active tasks that the request names."""
        reported = None if owned is None else _listed(StreamsGroupHeartbeatRequestTaskIds, owned)
        message = StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=sent,
            rebalance_timeout_ms=60_000 if sent == 0 else -1,
            active_tasks=reported,
            standby_tasks=None if reported is None else (),
            warmup_tasks=None if reported is None else (),
        )
        assigns = active is not None
        response = StreamsGroupHeartbeatResponse(
            error_code=code,
            member_id=self.member_id,
            member_epoch=got,
            active_tasks=_listed(StreamsGroupHeartbeatResponseTaskIds, active or {}) if assigns else None,
            standby_tasks=_listed(StreamsGroupHeartbeatResponseTaskIds, standby or {}) if assigns else None,
            warmup_tasks=() if assigns else None,
        )
        return self.call(ApiKey.STREAMS_GROUP_HEARTBEAT, message, response)

    @property
    def owned(self) -> list[tuple[str, str, tuple[int, ...]]] | None:
        owned = self.events[-1].owned
        return None if owned is None else [(one.role, one.topic, one.partitions) for one in owned]


def _listed(kind, tasks: Tasks):
    return tuple(kind(subtopology_id=name, partitions=tuple(indexes)) for name, indexes in tasks.items())


@pytest.fixture
def client() -> ObservedClient:
    return ObservedClient(Observer(TopicNames()))


def test_the_heartbeats_of_both_are_observed():
    assert {ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT} <= OBSERVED


def test_a_share_member_joins_and_is_assigned(client):
    assert client.shares(0, 1, [0, 1]) == [EventKind.JOINED, EventKind.ASSIGNED]
    last = client.events[-1]
    assert (last.protocol, last.state, last.epoch) == (MemberProtocol.SHARE, "Stable", 1)
    assert (last.client_id, last.client_host, last.software) == (
        "app",
        "/10.0.0.1",
        "apache-kafka-java/4.4.0",
    )
    assert client.owned == [("", "t", (0, 1))]


def test_a_share_members_assignment_holds_at_once_and_nothing_is_revoked(client):
    client.shares(0, 1, [0, 1])
    assert client.shares(1, 2, [1, 2]) == [EventKind.ASSIGNED]
    assert client.owned == [("", "t", (1, 2))]
    assert [one.partitions for one in client.events[-1].partitions] == [(2,)]
    assert client.shares(2, 3, [1]) == [EventKind.ASSIGNED]
    assert client.owned == [("", "t", (1,))]
    assert client.shares(3, 3, [1]) == [], "the same once more is no event"
    assert client.shares(3, 4) == [EventKind.EPOCH_MOVED]
    assert {event.state for event in client.events if event.kind is EventKind.ASSIGNED} == {"Stable"}


def test_two_share_members_have_one_partition():
    observer = Observer(TopicNames())
    one, other = ObservedClient(observer, "m1"), ObservedClient(observer, "m2", connection=2)
    one.shares(0, 1, [0])
    other.shares(0, 2, [0])
    assert one.owned == other.owned == [("", "t", (0,))]


def test_a_share_member_leaves(client):
    client.shares(0, 1, [0])
    assert client.shares(-1, -1) == [EventKind.LEFT]
    assert client.owned == []


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_share_member_that_the_broker_does_not_know_any_more_is_fenced(client, code):
    client.shares(0, 1, [0])
    assert client.shares(1, 0, code=code) == [EventKind.FENCED]
    assert client.shares(1, 0, code=code) == []


def test_a_silent_share_member_is_forgotten_after_its_session_timeout(client):
    client.shares(0, 1, [0])
    assert client.note(client.observer.handle_time(44.0)) == []
    client.now = 44.0
    client.shares(1, 1)
    assert client.note(client.observer.handle_time(88.0)) == []
    assert client.note(client.observer.handle_time(89.1)) == [EventKind.SESSION_EXPIRED]


def test_a_share_member_that_is_first_seen_later_has_what_nobody_knows(client):
    assert client.shares(7, 7) == [EventKind.ADOPTED]
    assert client.owned is None
    assert client.shares(7, 8, [3]) == [EventKind.ASSIGNED]
    assert client.owned == [("", "", (3,))]


def test_an_error_says_something_on_the_members_own_connection_only(client):
    client.shares(0, 1, [0])
    stranger = ObservedClient(client.observer, connection=2)
    assert stranger.shares(1, 0, code=ErrorCode.UNKNOWN_MEMBER_ID) == []
    assert client.shares(1, 0, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED) == [EventKind.CALL_REFUSED]
    assert client.events[-1].reason == "ShareGroupHeartbeat: TOPIC_AUTHORIZATION_FAILED"


def test_a_streams_member_has_tasks_and_gives_up_what_is_asked_back(client):
    assert client.streams(0, 1, active={"0": [0, 1], "1": [0]}, standby={"1": [1]}) == [
        EventKind.JOINED,
        EventKind.ASSIGNED,
    ]
    last = client.events[-1]
    assert (last.protocol, last.epoch, last.rebalance_timeout_ms) == (MemberProtocol.STREAMS, 1, 60_000)
    assert client.owned == [("active", "0", (0, 1)), ("active", "1", (0,)), ("standby", "1", (1,))]
    assert client.streams(1, 1, active={"0": [0], "1": [0]}) == [EventKind.REVOKE_REQUESTED]
    assert client.events[-1].state == "PrepareRebalance"
    asked = [(one.role, one.topic, one.partitions) for one in client.events[-1].partitions]
    assert asked == [("active", "0", (1,)), ("standby", "1", (1,))]
    assert client.streams(1, 2, owned={"0": [0], "1": [0]}) == [EventKind.REVOKED, EventKind.EPOCH_MOVED]
    assert client.owned == [("active", "0", (0,)), ("active", "1", (0,))]
    assert client.events[-1].state == "Stable"
    assert client.streams(-1, -1) == [EventKind.LEFT]


def test_a_standby_task_that_becomes_active_is_assigned_in_its_new_role(client):
    client.streams(0, 1, active={}, standby={"0": [0]})
    assert client.owned == [("standby", "0", (0,))]
    assert client.streams(1, 2, active={"0": [0]}) == [EventKind.ASSIGNED, EventKind.REVOKE_REQUESTED]
    client.streams(2, 2, owned={"0": [0]})
    assert client.owned == [("active", "0", (0,))]


def test_a_streams_member_is_fenced(client):
    client.streams(0, 1, active={"0": [0]})
    assert client.streams(1, 0, code=ErrorCode.FENCED_MEMBER_EPOCH) == [EventKind.FENCED]


def test_a_heartbeat_of_another_protocol_takes_nothing_from_a_member(client):
    client.shares(0, 1, [0])
    message = StreamsGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=1, active_tasks=(), standby_tasks=(), warmup_tasks=()
    )
    request = Request(RequestId(2), client.connection, ApiKey.STREAMS_GROUP_HEARTBEAT, 1, "app", message)
    assert client.observer.request_forwarded(0.0, request) == []


def test_tasks_with_long_names_and_members_with_long_texts_are_not_kept():
    observer = Observer(TopicNames())
    client = ObservedClient(observer)
    client.streams(0, 1, active={LONG: [0], "0": [0]})
    assert client.owned == [("active", "0", (0,))]
    long = ObservedClient(observer, LONG)
    for _ in range(2):
        assert long.shares(1, 1) == [EventKind.ADOPTED], "as if it were new"
