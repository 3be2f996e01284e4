"""What supervisor and worker say to each other, over one socket pair: msgpack behind a size of four bytes."""

import struct
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from proxy.config.schema import Config
from proxy.transport.tls_context import Contents
from translation.policy.policy import Policy

T = TypeVar("T")
_SIZE = struct.Struct(">I")
_LARGEST = 256 * 1024 * 1024

PortKey = tuple[int, int | None]
"""Which port: the listener's place in the configuration, and the node id (None is the bootstrap)."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first message to a worker: what it is to do. ``ports`` are the numbers that the ports really have.

    ``folder`` is that of the configuration file. ``tls`` is what the files of TLS had when they could last be used, by
    the number of the listener or :data:`proxy.transport.tls_context.UPSTREAM`.
    """

    worker: int
    config: Config
    policy: Policy
    ports: list[tuple[PortKey, int]]
    folder: str
    tls: dict[int, Contents]


class SetPolicy(msgspec.Struct, frozen=True, tag=True):
    """Another policy holds from now on."""

    policy: Policy


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A question that is answered with the same number."""

    number: int
    what: str


ToWorker = Start | SetPolicy | Ask


class Serving(msgspec.Struct, frozen=True, tag=True):
    """The worker takes clients."""


class Away(msgspec.Struct, frozen=True, tag=True):
    """The worker can't reach what is behind a port: clients should be refused there."""

    port: PortKey


class Back(msgspec.Struct, frozen=True, tag=True):
    """It can again."""

    port: PortKey


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a question, in msgpack; None if the worker does not know what was asked."""

    number: int
    value: bytes | None


ToSupervisor = Serving | Away | Back | Answer


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """What goes with a connection's descriptor."""

    port: PortKey
    client_host: str


def encoded(message: ToWorker | ToSupervisor) -> bytes:
    """The message as it goes over the socket."""
    body = msgspec.msgpack.encode(message)
    return _SIZE.pack(len(body)) + body


class Decoder:
    """Cuts what comes over the socket into messages of one side."""

    def __init__(self, kind: object) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[object]:
        """The messages that are complete with these bytes.

        :raises msgspec.DecodeError: they are not what they should be.
        """
        self._data += data
        while len(self._data) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._data)
            if size > _LARGEST:
                raise msgspec.DecodeError(f"a message of {size} bytes")
            end = _SIZE.size + size
            if len(self._data) < end:
                return
            body = bytes(self._data[_SIZE.size : end])
            del self._data[:end]
            yield self._decoder.decode(body)
