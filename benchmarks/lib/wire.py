"""A plain connection that sends prepared frames, so that little but the network path is measured."""

import socket
import struct
from itertools import count
from types import TracebackType
from typing import Any, Self

from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.codec import encode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol_codecs.messages.find_coordinator import FindCoordinatorRequest
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol_codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol_codecs.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from protocol_codecs.messages.sync_group import SyncGroupRequest
from proxy.wire.framing import request_frame, response_body_offset

SMALL_REQUEST = 100
_SIZE = struct.Struct(">i")
_CORRELATION = count(1)


class Line:
    """One connection to a broker or to the proxy; one request at a time."""

    def __init__(self, address: str, client_id: str = "bench") -> None:
        host, _, port = address.rpartition(":")
        self.client_id = client_id
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def frame(self, api_key: int, version: int, message: Message) -> bytes:
        return request_frame(api_key, version, next(_CORRELATION), self.client_id, message)

    def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the whole answer, with its size."""
        self.socket.sendall(frame)
        data = self.socket.recv(65536)
        if len(data) >= 4 and len(data) >= 4 + _SIZE.unpack_from(data)[0]:
            return data
        answer = bytearray(data)  # which grows in place: answers of brokers can have a hundred megabytes
        while len(answer) < 4 or len(answer) < 4 + _SIZE.unpack_from(answer)[0]:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError(f"closed after {len(answer)} bytes of an answer")
            answer += more
        return bytes(answer)

    def call(self, api_key: ApiKey, version: int, message: Message) -> Any:
        answer = self.exchange(self.frame(api_key, version, message))
        return decode(
            ALL_APIS[api_key].response, version, answer, response_body_offset(api_key, version, answer)
        )

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def coordinator(bootstrap: str, group: str) -> str:
    """Return the address of a group's coordinator, as this address reports it."""
    with Line(bootstrap.split(",", maxsplit=1)[0]) as line:
        while True:
            found = line.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=(group,)))
            (one,) = found.coordinators
            if not one.error_code:
                return f"{one.host}:{one.port}"


def small_request_frame(client_id: str, topic: str) -> bytes:
    """ListOffsets of one partition in :data:`SMALL_REQUEST` bytes, to which the client id is lengthened; a broker
    answers it from memory.
    """
    partition = ListOffsetsRequestPartition(partition_index=0, timestamp=-1)
    message = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsRequestTopic(name=topic, partitions=(partition,)),)
    )
    short = request_frame(ApiKey.LIST_OFFSETS, 5, 1, client_id, message)
    client_id += "c" * (SMALL_REQUEST - len(short))
    frame = request_frame(ApiKey.LIST_OFFSETS, 5, 1, client_id, message)
    if len(frame) != SMALL_REQUEST:
        raise RuntimeError(f"a request of {len(frame)} bytes")
    return frame


def join_frame_message(group: str, topic: str, member_id: str, session_ms: int) -> JoinGroupRequest:
    subscription = encode(ConsumerProtocolSubscription(topics=(topic,)), 1)
    protocol = JoinGroupRequestProtocol(name="cooperative-sticky", metadata=b"\0\1" + subscription)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=300_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(protocol,),
    )


class ClassicMember:
    """A classic consumer that processes no records: JoinGroup, SyncGroup, Heartbeat."""

    def __init__(self, line: Line, group: str, topic: str, session_ms: int = 45_000) -> None:
        self.line = line
        self._group = group
        self._topic = topic
        self._session_ms = session_ms
        self.member_id = ""
        self.generation = -1

    def join(self) -> None:
        while True:
            joined = self.line.call(
                ApiKey.JOIN_GROUP,
                7,
                join_frame_message(self._group, self._topic, self.member_id, self._session_ms),
            )
            self.member_id = joined.member_id
            if joined.error_code == 0:
                break
            if joined.error_code != 79:
                raise RuntimeError(f"JoinGroup: error {joined.error_code}")
        self.generation = joined.generation_id
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self.generation, member_id=self.member_id
        )
        synced = self.line.call(ApiKey.SYNC_GROUP, 3, request)
        if synced.error_code:
            raise RuntimeError(f"SyncGroup: error {synced.error_code}")

    def heartbeat_frame(self) -> bytes:
        message = HeartbeatRequest(
            group_id=self._group, generation_id=self.generation, member_id=self.member_id
        )
        return self.line.frame(ApiKey.HEARTBEAT, 3, message)

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self._group, members=(MemberIdentity(member_id=self.member_id),))
        left = self.line.call(ApiKey.LEAVE_GROUP, 3, request)
        if left.error_code:
            raise RuntimeError(f"LeaveGroup: error {left.error_code}")

    def settle(self) -> None:
        """Join until heartbeats are answered without an error several times in a row."""
        quiet = 0
        while quiet < 20:
            answer = self.line.exchange(self.heartbeat_frame())
            code = int.from_bytes(answer[12:14], "big")  # size, correlation id, throttle time
            quiet = quiet + 1 if code == 0 else 0
            if code:
                self.join()


class NativeMember:
    """A member of the new protocol that only heartbeats."""

    def __init__(self, line: Line, group: str, topic: str) -> None:
        self.line = line
        self._group = group
        self._topic = topic
        self.member_id = "native-member-1234567890"
        self.epoch = 0

    def settle(self) -> None:
        """Join and take the assignment."""
        answer = self._beat(
            rebalance_timeout_ms=300_000, subscribed_topic_names=(self._topic,), topic_partitions=()
        )
        owned: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] = ()
        quiet = 0
        while quiet < 20:
            if answer.error_code:
                raise RuntimeError(f"ConsumerGroupHeartbeat: error {answer.error_code}")
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                owned = tuple(
                    ConsumerGroupHeartbeatRequestTopicPartitions(
                        topic_id=one.topic_id, partitions=one.partitions
                    )
                    for one in answer.assignment.topic_partitions
                )
                answer = self._beat(topic_partitions=owned)
                quiet = 0
            else:
                answer = self._beat()
                quiet += 1

    def _beat(self, **fields: Any) -> Any:
        return self.line.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, self._message(**fields))

    def _message(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self.member_id, member_epoch=self.epoch, **fields
        )

    def heartbeat_frame(self) -> bytes:
        return self.line.frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, self._message())
