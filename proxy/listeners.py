"""Listening sockets: bound before anything else, so that a taken port stops the start."""

import errno
import socket
from collections.abc import Callable, Mapping

import msgspec
import structlog
import trio

from proxy.config import Address, Listener

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.listeners")

_BACKLOG = 1024
_ACCEPTS_IN_A_ROW = 32
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_PAUSE_S = 0.1

Accepted = Callable[[socket.socket, str], None]
"""Takes a new connection and the client's host."""


class BindError(Exception):
    """A port can't be had; the message says which and why."""


class BoundListener(msgspec.Struct, frozen=True):
    """A listener of the configuration with its sockets, by node id; None is the bootstrap port.

    ``port`` and ``node_ports`` are the ports that they really have, where the configuration says 0.
    """

    listener: Listener
    sockets: Mapping[int | None, socket.socket]
    port: int
    node_ports: Mapping[int, int]

    def listen(self) -> None:
        """Let clients connect from now on.

        :raises BindError: another process listens on one of the ports since.
        """
        for sock in self.sockets.values():
            try:
                sock.listen(_BACKLOG)
            except OSError as error:
                raise _bind_error(sock.getsockname()[:2], error) from None

    def close(self) -> None:
        """Close all sockets, so that no client can connect any more."""
        for sock in self.sockets.values():
            if sock.fileno() != -1:
                trio.lowlevel.notify_closing(sock)
                sock.close()


def port_of(sock: socket.socket) -> int:
    """The port that a socket is bound to."""
    port: int = sock.getsockname()[1]
    return port


def bind(host: str, port: int) -> socket.socket:
    """Reserve a port without accepting connections yet. Port 0 is any free one.

    :raises BindError: it can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise _bind_error((host, port), error) from None
    sock.settimeout(0)
    return sock


def _bind_error(address: tuple[str, int], error: OSError) -> BindError:
    reason = "the port is taken by another process" if error.errno == errno.EADDRINUSE else error.strerror
    return BindError(f"can't listen on {Address(*address)}: {reason}")


def bind_listener(listener: Listener) -> BoundListener:
    """Reserve all ports of a listener.

    :raises BindError: one of them can't be had.
    """
    sockets: dict[int | None, socket.socket] = {}
    try:
        sockets[None] = bind(listener.bind, listener.port)
        for node_id, port in listener.node_ports.items():
            sockets[node_id] = bind(listener.bind, port)
    except BindError:
        for sock in sockets.values():
            sock.close()
        raise
    node_ports = {node_id: port_of(sock) for node_id, sock in sockets.items() if node_id is not None}
    return BoundListener(listener, sockets, port_of(sockets[None]), node_ports)


async def accept(sock: socket.socket, accepted: Accepted) -> None:
    """Take connections from a socket that listens, until it is closed."""
    while True:
        try:
            await trio.lowlevel.wait_readable(sock)
        except (trio.ClosedResourceError, ValueError):
            return
        for _ in range(_ACCEPTS_IN_A_ROW):
            try:
                connection, address = sock.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if sock.fileno() == -1:
                    return
                if error.errno in _OUT_OF_RESOURCES:
                    _log.error("can't accept a connection", reason=error.strerror)
                    await trio.sleep(_PAUSE_S)
                break  # else the client gave up before it was accepted
            try:
                accepted(connection, address[0])
            except OSError as error:  # reset before it was looked at
                connection.close()
                _log.debug("a connection was gone when it was accepted", reason=error.strerror)
