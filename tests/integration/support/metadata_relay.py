"""A TCP relay in front of one broker, whose Metadata responses can be made to name no brokers, or no topics."""

import contextlib
import socket
import struct
import threading
import uuid
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from protocol_codecs import ApiKey
from protocol_codecs.address_rewrite import rewrite_find_coordinator, rewrite_metadata_brokers
from protocol_codecs.codec import decode, encode
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.registry import response_header_version

LOOPBACK = "127.0.0.1"
_NULL_NAMES = 12
"""The first version of Metadata whose topics may have null for a name."""


class MetadataRelay:
    """Listens on a port of loopback until it is left as a context. Clients find no other address of a broker."""

    def __init__(self, broker: tuple[str, int]) -> None:
        self._broker = broker
        self._listening = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listening.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, name="metadata relay", daemon=True)
        self._open: set[socket.socket] = set()
        self._used: set[socket.socket] = set()
        self.ports: dict[int, int] = {}
        """Of other brokers of the cluster, each with a relay of its own: that relay's port by the broker's."""
        self.names_brokers = True
        self.invented: dict[str, int] = {}
        """Topics that the broker does not have, and how many partitions Metadata says that they have."""
        self.names_topics = True
        """False: each topic's name is null, which librdkafka 2.16.1 does not survive."""

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def reading_or_writing(self) -> int:
        """How many open connections have been used for Fetch or Produce."""
        return len(self._used)

    def passes_answer(self, _api_key: int, _frame: bytes) -> bool:
        """Called with each call before it goes to the broker; return whether its answer goes back."""
        return True

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        for client in list(self._open):
            _shut(client)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is shut down at the end
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        asked: dict[int, tuple[int, int, bool]] = {}
        with contextlib.suppress(OSError), client, socket.create_connection(self._broker) as broker:
            self._open.add(client)
            back = threading.Thread(target=self._answer, args=(broker, client, asked), daemon=True)
            back.start()
            try:
                while frame := _frame(client):
                    api_key, version, correlation_id = struct.unpack(">hhi", frame[:8])
                    asked[correlation_id] = api_key, version, self.passes_answer(api_key, frame)
                    if api_key in (ApiKey.FETCH, ApiKey.PRODUCE):
                        self._used.add(client)
                    _send(broker, frame)
            finally:
                self._open.discard(client)
                self._used.discard(client)
                _shut(broker)
                _shut(client)
                back.join()

    def _answer(
        self, broker: socket.socket, client: socket.socket, asked: dict[int, tuple[int, int, bool]]
    ) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(broker):
                (correlation_id,) = struct.unpack(">i", frame[:4])
                api_key, version, passes = asked.pop(correlation_id)
                if not passes:
                    break
                _send(client, self._rewritten(frame, api_key, version))
        _shut(client)

    def _rewritten(self, frame: bytes, api_key: int, version: int) -> bytes:
        body = 4 + response_header_version(api_key, version)  # the correlation id, and tags from v1 on: none
        if api_key == ApiKey.METADATA:
            rewritten = rewrite_metadata_brokers(frame[body:], version, self._named).body
            if self.invented:
                rewritten = _with_topics(rewritten, version, self.invented)
            return frame[:body] + (rewritten if self.names_topics else _nameless(rewritten, version))
        if api_key == ApiKey.FIND_COORDINATOR:
            return frame[:body] + rewrite_find_coordinator(frame[body:], version, self._here).body
        return frame

    def _named(self, node_id: int, host: str, port: int) -> tuple[str, int] | None:
        return self._here(node_id, host, port) if self.names_brokers else None

    def _here(self, _node_id: int, _host: str, port: int) -> tuple[str, int]:
        return LOOPBACK, self.ports.get(port, self.port)


def _nameless(body: bytes, version: int) -> bytes:
    if version < _NULL_NAMES:
        return body
    metadata = decode(MetadataResponse, version, body)
    topics = metadata.topics or (MetadataResponseTopic(),)
    return encode(replace(metadata, topics=tuple(replace(topic, name=None) for topic in topics)), version)


def _with_topics(body: bytes, version: int, invented: dict[str, int]) -> bytes:
    metadata = decode(MetadataResponse, version, body)

    def known(topic: MetadataResponseTopic) -> MetadataResponseTopic:
        if topic.name not in invented:
            return topic
        partitions = tuple(
            MetadataResponsePartition(partition_index=number, leader_id=metadata.brokers[0].node_id)
            for number in range(invented[topic.name])
        )
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, topic.name).bytes
        return replace(topic, error_code=0, topic_id=topic_id, partitions=partitions)

    return encode(replace(metadata, topics=tuple(known(topic) for topic in metadata.topics or ())), version)


def _frame(sock: socket.socket) -> bytes:
    """The next frame without its length; empty if the other side has closed."""
    size = _exactly(sock, 4)
    return _exactly(sock, struct.unpack(">i", size)[0]) if size else b""


def _exactly(sock: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = sock.recv(size - len(received))
        if not part:
            return b""
        received += part
    return bytes(received)


def _send(sock: socket.socket, frame: bytes) -> None:
    sock.sendall(struct.pack(">i", len(frame)) + frame)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended already
        sock.shutdown(socket.SHUT_RDWR)
