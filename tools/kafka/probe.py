"""Probes a broker with three requests in their oldest versions: ApiVersions, Metadata, FindCoordinator.

This is enough to know that a cluster is ready; everything else uses a real client.
"""

import socket
import struct
from dataclasses import dataclass

API_VERSIONS, METADATA, FIND_COORDINATOR = 18, 3, 10


class NotReadyError(Exception):
    """The broker does not answer, or reports that something is not there yet."""


@dataclass(frozen=True)
class Answer:
    """A broker's view of its cluster."""

    node_ids: frozenset[int]
    controller_id: int


def ask(host: str, port: int, *, timeout_s: float = 2.0) -> Answer:
    """Return the brokers that the broker at host:port knows. Raises NotReadyError."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            _api_versions(connection)
            return _metadata(connection)
    except (OSError, struct.error) as error:
        raise NotReadyError(f"{host}:{port}: {error}") from error


def find_coordinator(host: str, port: int, group: str, *, timeout_s: float = 5.0) -> int:
    """Return the node id of the group's coordinator. Raises NotReadyError.

    A cluster's first such request creates the offsets topic, so an early one saves the first group the wait.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            body = _call(connection, FIND_COORDINATOR, 0, _string(group))
            error, node = struct.unpack_from(">hi", body)
    except (OSError, struct.error) as failure:
        raise NotReadyError(f"{host}:{port}: {failure}") from failure
    if error != 0:
        raise NotReadyError(f"{host}:{port}: FindCoordinator answers error {error}")
    return int(node)


def _api_versions(connection: socket.socket) -> None:
    (error,) = struct.unpack_from(">h", _call(connection, API_VERSIONS, 0, b""))
    if error != 0:
        raise NotReadyError(f"ApiVersions answers error {error}")


def _metadata(connection: socket.socket) -> Answer:
    body = _call(connection, METADATA, 1, struct.pack(">i", 0))
    (count,) = struct.unpack_from(">i", body)
    position, node_ids = 4, set()
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", body, position)
        position += 6 + host_length + 4  # node id, host, port
        (rack_length,) = struct.unpack_from(">h", body, position)
        position += 2 + max(rack_length, 0)
        node_ids.add(node_id)
    (controller_id,) = struct.unpack_from(">i", body, position)
    return Answer(frozenset(node_ids), controller_id)


def _call(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhi", api_key, version, 1) + _string("epochgate-probe") + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)[4:]  # without the correlation id


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise OSError("connection closed")
        received += part
    return received


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw
