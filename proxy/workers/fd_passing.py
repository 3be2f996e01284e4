"""Passes accepted connections from the supervisor to a worker, as file descriptors (SCM_RIGHTS).

Each message on the socket pair (SOCK_SEQPACKET, which keeps message boundaries) carries one connection. While a worker
restarts or is busy, its connections wait in a queue of bounded length.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable

import msgspec
import trio

from proxy.runtime.fd_limits import OUT_OF_RESOURCES
from proxy.workers.control_messages import HandoffHeader

MAX_QUEUED = 4096
"""Connections that may wait for one worker; further ones are closed."""

_MAX_HEADER_BYTES = 4096
_TEMPORARY = OUT_OF_RESOURCES | {errno.ETOOMANYREFS}  # this user has too many descriptors in flight
_RETRY_S = 0.1
_DECODER = msgspec.msgpack.Decoder(HandoffHeader)


class HandoffQueue:
    """The accepted connections that wait to be passed to one worker."""

    def __init__(self) -> None:
        self._queued: deque[tuple[HandoffHeader, socket.socket]] = deque()
        self._added = trio.Event()

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, header: HandoffHeader, connection: socket.socket) -> bool:
        """Queue a connection. Returns False if the queue is full: the caller closes it then."""
        if len(self._queued) >= MAX_QUEUED:
            return False
        self._queued.append((header, connection))
        self._added.set()
        return True

    def close(self) -> None:
        """Close all queued connections."""
        while self._queued:
            self._queued.popleft()[1].close()

    async def forward(self, to: socket.socket) -> None:
        """Pass queued connections to the worker on socket ``to``, for ever.

        :raises OSError: the worker's process has ended.
        """
        while True:
            while self._queued:
                header, connection = self._queued[0]
                try:
                    socket.send_fds(to, [msgspec.msgpack.encode(header)], [connection.fileno()])
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(to)
                    continue
                except OSError as error:
                    if error.errno not in _TEMPORARY:
                        raise
                    await trio.sleep(_RETRY_S)
                    continue
                self._queued.popleft()
                connection.close()
            self._added = trio.Event()
            await self._added.wait()


async def receive_connections(
    from_: socket.socket, on_connection: Callable[[HandoffHeader, socket.socket | None], None]
) -> None:
    """Call ``on_connection`` with each connection that the supervisor passes, until the supervisor ends.

    It gets None instead of a connection if this process had no descriptor left for it.
    """
    while True:
        await trio.lowlevel.wait_readable(from_)
        try:
            data, descriptors, _flags, _address = socket.recv_fds(from_, _MAX_HEADER_BYTES, 1)
        except BlockingIOError:
            continue
        except ConnectionError:
            return
        if not data:
            return
        connection = socket.socket(fileno=descriptors[0]) if descriptors else None
        on_connection(_DECODER.decode(data), connection)
