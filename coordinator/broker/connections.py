"""The connections of clients that are open at the moment."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Connections:
    """Gives each connection an id, and can end them all."""

    def __init__(self) -> None:
        self._last_id = 0
        self._open: dict[int, trio.CancelScope] = {}

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Serve a connection within this context; yields its id, which no other connection will have."""
        self._last_id += 1
        connection_id = self._last_id
        with trio.CancelScope() as scope:
            self._open[connection_id] = scope
            try:
                yield connection_id
            finally:
                del self._open[connection_id]

    def drop(self) -> None:
        """End all connections, as a broker does that fails; clients may come back at once."""
        for scope in self._open.values():
            scope.cancel()
