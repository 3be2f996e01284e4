"""A real Kafka under a script. What it did (times, topic ids, the ids it made) is kept, to do the same again."""

import socket
import struct
import time
from typing import Any

from coordinator.image import TopicImage
from protocol_codecs import ApiKey, ErrorCode, Uuid, decode, decode_prefix, encode, uuid_from_text
from protocol_codecs import all_messages as m
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.message import Message
from protocol_codecs.registry import request_header_version, response_header_version
from tests.coordinator.log_comparison import LoggedRecord
from tests.coordinator.offsets_topic import OffsetsTopic
from tests.coordinator.propagation import Propagation, alter_group
from tests.coordinator.trace import HYPHENATED, Sent, Trace

ARRIVAL_S = 0.3
"""How long Kafka takes at most to answer a request that need not wait."""
ANSWER_S = 0.06
"""How long it takes at most to answer one that waits, from the request that ends its time."""
DISTURBANCE_S = 0.08
"""The scenarios leave more than this between a step and a timer."""


class Connection:
    """One plain connection."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.client_id = client_id
        self._socket = socket.create_connection((host, port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def send(self, request: Message, version: int) -> None:
        key = type(request).__schema__.api_key
        assert key is not None
        self._correlation_id += 1
        header = m.RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        )
        frame = encode(header, request_header_version(key, version)) + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, request_type: type[Message], version: int) -> Any:
        key = request_type.__schema__.api_key
        assert key is not None
        frame = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        _, start = decode_prefix(m.ResponseHeader, response_header_version(key, version), frame)
        return decode(ALL_APIS[key].response, version, frame, start)

    def call(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive(type(request), version)

    def has_input(self) -> bool:
        self._socket.settimeout(0)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(60)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError("the broker closed the connection")
            received += part
        return bytes(received)


class KafkaPending:
    """A request to Kafka, on a connection that nobody else uses until it is answered."""

    def __init__(
        self, backend: "KafkaBackend", connection: Connection, request: Message, version: int, number: int
    ) -> None:
        self._backend = backend
        self._number = number
        self._connection = connection
        self._request = request
        self._version = version

    def arrive(self) -> None:
        """Wait until it has been served, or waits: other connections' requests are to come after it."""
        self._is_answered_until(time.monotonic() + ARRIVAL_S)

    def is_answered(self) -> bool:
        return self._is_answered_until(self._backend.last_sent_s + ANSWER_S)

    def _is_answered_until(self, deadline: float) -> bool:
        while not self._connection.has_input():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def result(self) -> Any:
        began = time.monotonic()
        response = self._connection.receive(type(self._request), self._version)
        if not isinstance(self._request, m.JoinGroupRequest | m.SyncGroupRequest):
            self._backend.pause_s = max(self._backend.pause_s, time.monotonic() - began)
        self._backend.free.setdefault(self._connection.client_id, []).append(self._connection)
        self._backend.note(self._number, self._request, response)
        return response


class KafkaBackend:
    """One broker; a script's requests go to it on one connection each client, and more while requests wait."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
        self._address = host, int(port)
        self._admin = Connection(*self._address, "script-admin")
        self.free: dict[str, list[Connection]] = {}
        self._opened: list[Connection] = [self._admin]
        self._began = time.monotonic()
        self.trace = Trace()
        self.pause_s = 0.0
        self.last_sent_s = time.monotonic()
        self._propagation = Propagation(self._admin.call, group_id)
        self._offsets_topic = OffsetsTopic(self._admin.call, group_id)
        self._waiting: dict[str, list[int]] = {}
        """The JoinGroups without a member id that were not answered yet, by instance id."""
        self._ids: dict[str, Uuid] = {}
        self._names: dict[Uuid, str] = {}

    def send(self, request: Message, version: int, client_id: str) -> KafkaPending:
        spare = self.free.setdefault(client_id, [])
        connection = spare.pop() if spare else self._open(client_id)
        if isinstance(request, m.JoinGroupRequest) and request.group_instance_id and not request.member_id:
            self._waiting.setdefault(request.group_instance_id, []).append(len(self.trace.sent))
        self.trace.sent.append(Sent(int((time.monotonic() - self._began) * 1000)))
        connection.send(request, version)
        self.last_sent_s = time.monotonic()
        return KafkaPending(self, connection, request, version, len(self.trace.sent) - 1)

    def note(self, number: int, request: Message, response: Any) -> None:
        """Remember the member id that the broker made for a request.

        A JoinGroup of a static member may still wait for its answer when DescribeGroups shows its member id.
        """
        if isinstance(request, m.DescribeGroupsRequest):
            for member in response.groups[0].members:
                waiting = self._waiting.get(member.group_instance_id)
                made = HYPHENATED.search(member.member_id)
                if waiting and made is not None:
                    self.trace.sent[waiting[-1]].uuid = Uuid(bytes.fromhex(made[0].replace("-", "")))
        if not isinstance(request, m.JoinGroupRequest | m.ConsumerGroupHeartbeatRequest) or request.member_id:
            return
        waiting = self._waiting.get(getattr(request, "group_instance_id", None) or "", [])
        if number in waiting:
            waiting.remove(number)
        made = response.member_id or ""
        hyphenated = HYPHENATED.search(made)
        if hyphenated is not None:
            self.trace.sent[number].uuid = Uuid(bytes.fromhex(hyphenated[0].replace("-", "")))
        elif len(made) == 22:
            self.trace.sent[number].uuid = uuid_from_text(made)

    def create_topic(self, name: str, partitions: int) -> None:
        topic = m.CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
        result = self._admin.call(m.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7).topics[0]
        assert result.error_code == 0, ErrorCode(result.error_code)
        self._ids[name] = result.topic_id
        self._names[result.topic_id] = name
        self.trace.topics.append(TopicImage(result.topic_id, name, partitions))
        self._propagation.wait_for_topic(name, result.topic_id, partitions)

    def delete_topic(self, name: str) -> None:
        topic = m.DeleteTopicsRequestTopic(name=name)
        result = self._admin.call(m.DeleteTopicsRequest(topics=(topic,), timeout_ms=10_000), 6).responses[0]
        assert result.error_code == 0, ErrorCode(result.error_code)
        self._propagation.wait_for_topic(name, self._ids[name], 0)

    def create_partitions(self, name: str, count: int) -> None:
        topic = m.CreatePartitionsRequestTopic(name=name, count=count, assignments=None)
        request = m.CreatePartitionsRequest(topics=(topic,), timeout_ms=10_000)
        result = self._admin.call(request, 3).results[0]
        assert result.error_code == 0, ErrorCode(result.error_code)
        self._propagation.wait_for_topic(name, self._ids[name], count)

    def topic_id(self, name: str) -> Uuid:
        return self._ids[name]

    def topic_name(self, topic_id: Uuid) -> str:
        return self._names[topic_id]

    def configure_group(self, group_id: str, settings: dict[str, str]) -> None:
        answer = self._admin.call(alter_group(group_id, settings), 1).responses[0]
        assert answer.error_code == 0, answer.error_message
        self._propagation.wait_for_configs()

    def pass_time(self, ms: int) -> None:
        began = time.monotonic()
        time.sleep(ms / 1000)
        self.pause_s = max(self.pause_s, time.monotonic() - began - ms / 1000)

    @property
    def was_disturbed(self) -> bool:
        """Whether the machine paused for so long that timers may have fired where a scenario does not want it."""
        return self.pause_s > DISTURBANCE_S

    def log(self) -> list[LoggedRecord]:
        """What the group's coordinator has written about it."""
        return self._offsets_topic.records()

    def close(self) -> None:
        """Delete the topics, since thousands of scenarios may follow, and close the connections."""
        topics = tuple(m.DeleteTopicsRequestTopic(topic_id=topic_id) for topic_id in self._ids.values())
        self._admin.call(m.DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6)
        for connection in self._opened:
            connection.close()

    def _open(self, client_id: str) -> Connection:
        connection = Connection(*self._address, client_id)
        self._opened.append(connection)
        return connection


def offered_versions(bootstrap: str) -> dict[ApiKey, tuple[int, int]]:
    """What a broker offers."""
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    connection = Connection(host, int(port), "versions")
    try:
        answer = connection.call(
            m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3
        )
        return {ApiKey(a.api_key): (a.min_version, a.max_version) for a in answer.api_keys}
    finally:
        connection.close()
