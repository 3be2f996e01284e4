"""Connections on their way from the supervisor to a worker: a descriptor and who it is (SCM_RIGHTS).

They go over a socket pair that keeps messages apart (SOCK_SEQPACKET), one connection each. A worker that does not
take them, because it is being started again or is busy, has them waiting here, up to a bound.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable

import msgspec
import trio

from proxy.runtime.fd_limits import OUT_OF_RESOURCES
from proxy.workers.control_messages import Handed

MOST_WAITING = 4096
"""Connections that may wait for one worker; more are closed."""

_LARGEST = 4096
_FOR_A_WHILE = OUT_OF_RESOURCES | {
    errno.ETOOMANYREFS
}  # more descriptors are under way than one user may have
_PAUSE_S = 0.1
_DECODER = msgspec.msgpack.Decoder(Handed)


class WaitingLine:
    """The connections that wait for one worker."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Handed, socket.socket]] = deque()
        self._added = trio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, handed: Handed, connection: socket.socket) -> bool:
        """Have a connection handed over; False if too many wait already."""
        if len(self._waiting) >= MOST_WAITING:
            return False
        self._waiting.append((handed, connection))
        self._added.set()
        return True

    def close(self) -> None:
        """Close those that wait."""
        while self._waiting:
            self._waiting.popleft()[1].close()

    async def hand_over(self, to: socket.socket) -> None:
        """Hand connections over as they come, for ever.

        :raises OSError: the worker is gone.
        """
        while True:
            while self._waiting:
                handed, connection = self._waiting[0]
                try:
                    socket.send_fds(to, [msgspec.msgpack.encode(handed)], [connection.fileno()])
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(to)
                    continue
                except OSError as error:
                    if error.errno not in _FOR_A_WHILE:
                        raise
                    await trio.sleep(_PAUSE_S)
                    continue
                self._waiting.popleft()
                connection.close()
            self._added = trio.Event()
            await self._added.wait()


async def take_over(from_: socket.socket, taken: Callable[[Handed, socket.socket | None], None]) -> None:
    """Give each connection that is handed over to ``taken``, until the supervisor is gone.

    None instead of a connection: no descriptor was left for it.
    """
    while True:
        await trio.lowlevel.wait_readable(from_)
        try:
            data, descriptors, _flags, _address = socket.recv_fds(from_, _LARGEST, 1)
        except BlockingIOError:
            continue
        except ConnectionError:
            return
        if not data:
            return
        connection = socket.socket(fileno=descriptors[0]) if descriptors else None
        taken(_DECODER.decode(data), connection)
