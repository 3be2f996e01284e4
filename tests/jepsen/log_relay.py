"""A TCP relay between one replica and the broker of its member log, which can be cut.

The broker has a listener for each replica that advertises the relay's port, so all that the replica's member log says
goes through the relay, and nothing else.
"""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class LogRelay:
    """Listens on `port` of loopback and connects to `broker`, another port there, until it is left as a context.

    `broker` may be changed; new connections lead to it.
    """

    def __init__(self, port: int, broker: int) -> None:
        self.broker = broker
        self._listening = socket.create_server(("127.0.0.1", port))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._reachable = True
        self._accepting = threading.Thread(target=self._accept, name=f"log relay {port}", daemon=True)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """End all connections, and every new one at once."""
        with self._lock:
            self._reachable = False
            for one in self._open:
                _shut(one)

    def restore(self) -> None:
        """Relay new connections again."""
        with self._lock:
            self._reachable = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is shut down at the end
            while True:
                replica, _ = self._listening.accept()
                threading.Thread(target=self._relay, args=(replica,), daemon=True).start()

    def _relay(self, replica: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            replica,
            socket.create_connection(("127.0.0.1", self.broker)) as broker,
        ):
            pair = {replica, broker}
            with self._lock:
                if not self._reachable:
                    return
                self._open |= pair
            try:
                back = threading.Thread(target=_pump, args=(broker, replica), daemon=True)
                back.start()
                _pump(replica, broker)
                back.join()
            finally:
                with self._lock:
                    self._open -= pair


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until one side ends, and end both then."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    _shut(source)
    _shut(sink)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended already
        one.shutdown(socket.SHUT_RDWR)
