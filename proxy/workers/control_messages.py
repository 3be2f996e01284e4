"""The messages between supervisor and worker: msgpack, each after its size as four bytes, over one socket pair."""

import struct
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from proxy.config.schema import Config
from proxy.transport.tls_context import Contents
from translation.policy.policy import Policy

T = TypeVar("T")
_SIZE = struct.Struct(">I")
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024

COMMAND = "command"
"""The query by which a worker obeys a command (:class:`translation.rollout.commands.Command`)."""

PREPARE = "prepare"
"""The query by which a worker prepares another configuration (:class:`Reconfigure`); the answer are its problems."""

PortKey = int
"""A port of the supervisor, by a number that no other port of it has or has had."""

ListenerPorts = list[tuple[int | None, PortKey, int]]
"""The ports of a listener: the node id (None for the bootstrap port), the key, and the port's number."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first message to a worker: everything it needs to serve.

    ``ports`` are those that the supervisor bound for each listener, ``folder`` is the configuration file's. ``tls``
    holds the last valid contents of the TLS files, by index of the listener or
    :data:`proxy.transport.tls_context.UPSTREAM`.
    """

    worker: int
    config: Config
    policy: Policy
    ports: list[ListenerPorts]
    folder: str
    tls: dict[int, Contents]


class SetPolicy(msgspec.Struct, frozen=True, tag=True):
    """Tells a worker to apply another policy. ``policy`` is msgpack: to decode one of many rules takes a second."""

    policy: bytes


class Reconfigure(msgspec.Struct, frozen=True):
    """Another configuration, with the ports of its listeners and the contents of its TLS files; see :class:`Start`."""

    config: Config
    ports: list[ListenerPorts]
    tls: dict[int, Contents]


class PutInForce(msgspec.Struct, frozen=True, tag=True):
    """Tells a worker to serve by the configuration that it has prepared."""


class Drop(msgspec.Struct, frozen=True, tag=True):
    """Tells a worker to forget the configuration that it has prepared, or prepares."""


class Query(msgspec.Struct, frozen=True, tag=True):
    """Asks a worker for the named value; the result carries the same number. ``argument`` is msgpack, if any."""

    number: int
    name: str
    argument: bytes = b""


ToWorker = Start | SetPolicy | PutInForce | Drop | Query


class Serving(msgspec.Struct, frozen=True, tag=True):
    """The worker is ready for clients."""


class PortDown(msgspec.Struct, frozen=True, tag=True):
    """The worker can't reach the node behind a port: the supervisor should refuse clients there."""

    port: PortKey


class PortUp(msgspec.Struct, frozen=True, tag=True):
    """The worker can reach the node behind a port again."""

    port: PortKey


class QueryResult(msgspec.Struct, frozen=True, tag=True):
    """The result of a query, in msgpack; None if the worker has no such query."""

    number: int
    value: bytes | None


ToSupervisor = Serving | PortDown | PortUp | QueryResult


class HandoffHeader(msgspec.Struct, frozen=True, array_like=True):
    """What accompanies the descriptor of a connection: the port it came to, and the client's address."""

    port: PortKey
    client_host: str


def encode_message(message: ToWorker | ToSupervisor) -> bytes:
    """Return the message as bytes for the socket."""
    body = msgspec.msgpack.encode(message)
    return _SIZE.pack(len(body)) + body


class MessageDecoder:
    """Splits received bytes into messages of type ``kind``."""

    def __init__(self, kind: object) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[object]:
        """Add received bytes; yield the messages that are complete.

        :raises msgspec.DecodeError: the bytes are not valid messages of this type.
        """
        self._data += data
        while len(self._data) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._data)
            if size > _MAX_MESSAGE_BYTES:
                raise msgspec.DecodeError(f"a message of {size} bytes")
            end = _SIZE.size + size
            if len(self._data) < end:
                return
            body = bytes(self._data[_SIZE.size : end])
            del self._data[:end]
            yield self._decoder.decode(body)
