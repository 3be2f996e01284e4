"""Workers of Kafka Connect: what they and their leader embed into classic calls."""

from collections.abc import Iterable, Mapping

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.connect_protocol import (
    CONNECTOR,
    ConnectProtocolAssignment,
    ConnectProtocolConnector,
    ConnectProtocolMetadata,
    encode_assignment,
    encode_metadata,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation.actions import (
    Connection,
    ConnectionId,
    ConnectWorker,
    Event,
    EventKind,
    Request,
    RequestId,
)
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames

NAMES = ("default", "compatible", "sessioned")
URL, LEADER_URL = "http://w:8083/", "http://leader:8083/"
LONG = "x" * 300

Running = Mapping[str, Iterable[int]]


class Worker:
    """One worker whose calls pass through, with its newest protocol version."""

    def __init__(self, version: int = 2) -> None:
        self.version = version
        self.observer = Observer(TopicNames())
        self.events: list[Event] = []
        self.url = URL

    def call(self, api_key: ApiKey, message, response) -> list[EventKind]:
        connection = Connection(ConnectionId(1), "/10.0.0.1", {}, "apache-kafka-java/4.4.0")
        request = Request(RequestId(1), connection, api_key, 5, "connect-1", message)
        events = self.observer.request_forwarded(0.0, request)
        events += self.observer.response_received(0.0, request, response)
        self.events += events
        return [event.kind for event in events if event.kind is not EventKind.STATE_CHANGED]

    def join(self, running: Running | None = None, offset: int = 7) -> list[EventKind]:
        allocation = None
        if running is not None:
            allocation = encode_assignment(
                ConnectProtocolAssignment(assignment=_listed(running)), self.version
            )
        protocols = tuple(
            JoinGroupRequestProtocol(
                name=NAMES[version],
                metadata=encode_metadata(
                    ConnectProtocolMetadata(
                        url=self.url, config_offset=offset, allocation=allocation if version else None
                    ),
                    version,
                ),
            )
            for version in range(self.version, -1, -1)
        )
        message = JoinGroupRequest(
            group_id="c",
            session_timeout_ms=10_000,
            member_id="m",
            protocol_type="connect",
            protocols=protocols,
        )
        return self.call(ApiKey.JOIN_GROUP, message, JoinGroupResponse(generation_id=1, member_id="m"))

    def sync(
        self, assigned: Running, revoked: Running | None = None, *, protocol_type: str | None = None, **more
    ) -> list[EventKind]:
        fields = {"leader": "l", "leader_url": LEADER_URL, "config_offset": 7} | more
        message = ConnectProtocolAssignment(
            assignment=_listed(assigned), revoked=None if revoked is None else _listed(revoked), **fields
        )
        return self.sync_bytes(encode_assignment(message, self.version), protocol_type)

    def sync_bytes(self, assignment: bytes, protocol_type: str | None = None) -> list[EventKind]:
        request = SyncGroupRequest(group_id="c", generation_id=1, member_id="m", protocol_type=protocol_type)
        return self.call(ApiKey.SYNC_GROUP, request, SyncGroupResponse(assignment=assignment))

    @property
    def running(self) -> dict[str, tuple[int, ...]] | None:
        owned = self.events[-1].owned
        assert owned is None or {one.role for one in owned} <= {"connect"}
        return None if owned is None else {one.topic: one.partitions for one in owned}


def _listed(running: Running) -> tuple[ConnectProtocolConnector, ...]:
    return tuple(
        ConnectProtocolConnector(connector=name, tasks=tuple(tasks)) for name, tasks in running.items()
    )


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_a_worker_joins_and_is_assigned_connectors_and_tasks(worker):
    assert worker.join() == [EventKind.JOINED]
    assert worker.events[-1].worker == ConnectWorker(URL, 7)
    assert worker.sync({"src": [CONNECTOR, 0, 1]}) == [EventKind.ASSIGNED]
    last = worker.events[-1]
    assert (last.protocol, last.state) == ("connect", "Stable")
    assert last.worker == ConnectWorker(URL, 7, "l", LEADER_URL, 0)
    assert worker.running == {"src": (-1, 0, 1)}


@pytest.mark.parametrize("version", [1, 2])
def test_an_assignment_is_a_difference_and_what_is_revoked_runs_until_the_worker_joins_without_it(version):
    worker = Worker(version)
    worker.join()
    worker.sync({"src": [CONNECTOR, 0, 1]})
    assert worker.join({"src": [CONNECTOR, 0, 1]}) == [EventKind.JOINED]
    assert worker.sync({"sink": [0]}, {"src": [1]}) == [EventKind.ASSIGNED, EventKind.REVOKE_REQUESTED]
    assert worker.running == {"sink": (0,), "src": (-1, 0, 1)}
    assert worker.join({"src": [CONNECTOR, 0], "sink": [0]}) == [EventKind.REVOKED, EventKind.JOINED]
    assert worker.running == {"sink": (0,), "src": (-1, 0)}
    assert worker.sync({}) == []
    assert worker.running == {"sink": (0,), "src": (-1, 0)}


def test_by_the_eager_protocol_a_worker_gives_up_everything_and_is_told_all():
    worker = Worker(version=0)
    worker.join()
    worker.sync({"src": [CONNECTOR, 0]})
    assert worker.join() == [EventKind.REVOKED, EventKind.JOINED]
    assert worker.running == {}
    assert worker.sync({"src": [0]}) == [EventKind.ASSIGNED]
    assert worker.running == {"src": (0,)}


def test_a_delay_is_told_until_the_workers_join_again(worker):
    worker.join()
    worker.sync({"src": [0]}, delay=300_000)
    last = worker.events[-1]
    assert last.worker is not None
    assert last.worker.delay_ms == 300_000
    assert last.reason == "SyncGroup answered, to join again in 300000 ms"
    worker.join({"src": [0]}, offset=9)
    assert worker.events[-1].worker == ConnectWorker(URL, 9, "l", LEADER_URL, 0)


def test_workers_that_have_read_different_configurations_are_told(worker):
    worker.join()
    assert worker.sync({}, error=1) == [EventKind.CALL_REFUSED]
    refused = [event for event in worker.events if event.kind is EventKind.CALL_REFUSED]
    assert refused[0].reason == "SyncGroup: CONFIG_MISMATCH"


def test_a_worker_that_is_first_seen_at_its_sync_group_is_known_by_its_protocol_type(worker):
    assert worker.sync({"src": [0]}, protocol_type="connect") == [EventKind.JOINED]
    assert worker.events[-1].protocol == "connect"
    assert worker.running is None, "this was a difference to what nobody has seen"


def test_a_worker_of_which_only_a_heartbeat_was_seen_is_one_once_it_joins(worker):
    message = HeartbeatRequest(group_id="c", generation_id=1, member_id="m")
    worker.call(ApiKey.HEARTBEAT, message, HeartbeatResponse())
    assert worker.events[-1].protocol == "classic"
    worker.join({"src": [0]})
    assert (worker.events[-1].protocol, worker.running) == ("connect", {"src": (0,)})


@pytest.mark.parametrize("embedded", [b"", b"\0", b"\0\x02garbage"])
def test_what_can_not_be_read_is_not_known(worker, embedded):
    worker.join()
    assert worker.sync_bytes(embedded) == []
    assert (worker.events[-1].state, worker.running) == ("Stable", None)
    message = JoinGroupRequest(
        group_id="c",
        member_id="m",
        protocol_type="connect",
        protocols=(JoinGroupRequestProtocol(name="sessioned", metadata=embedded),),
    )
    worker.call(ApiKey.JOIN_GROUP, message, JoinGroupResponse(generation_id=2, member_id="m"))
    assert worker.events[-1].worker == ConnectWorker(URL, 7), "what was known stays"


def test_long_names_are_not_kept_and_too_many_tasks_are_not_read(worker):
    worker.url = LONG
    worker.join()
    worker.sync({LONG: [0], "src": [0]}, leader=LONG, leader_url=LONG)
    assert worker.events[-1].worker == ConnectWorker("", 7)
    assert worker.running == {"src": (0,)}
    worker.join({"src": [0]})
    assert worker.sync({"huge": range(10_001)}) == []
    assert worker.running is None
    worker.join({"src": [0]})
    assert worker.running == {"src": (0,)}


def test_an_error_says_nothing_of_what_runs(worker):
    worker.join()
    worker.sync({"src": [0]})
    request = SyncGroupRequest(group_id="c", generation_id=1, member_id="m", protocol_type="connect")
    response = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    worker.call(ApiKey.SYNC_GROUP, request, response)
    assert worker.running == {"src": (0,)}
