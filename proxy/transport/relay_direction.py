"""Relays one direction of a connection: the session gets the bytes that it has to see, the kernel splices large bodies.

Both happen inside the epoll callback as soon as the source is readable, as long as the other side takes bytes.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec
import trio
from prometheus_client import Summary

from proxy.transport.splice import (
    MAX_TRAILING_BYTES,
    SPLICE_MIN_BYTES,
    PipePool,
    SpliceProgress,
    SpliceTransfer,
)
from proxy.transport.tcp_stream import Take, TcpStream, feed
from proxy.transport.write_buffer import WriteBuffer

_BODIES_IN_A_ROW = 4
"""Bodies that one direction may splice before other connections get their turn."""


class RelayDirection:
    """Reads ``source`` and calls ``take`` with the bytes; ``take`` returns False when reading has to pause.

    ``passthrough_bytes`` returns how many of the next bytes go to the other side unseen, ``trailing_bytes`` how many of
    the same frame follow those. ``on_spliced`` gets the number of bytes that were spliced. ``paused`` observes for how
    many seconds the other side took none.
    """

    def __init__(
        self,
        source: trio.abc.ReceiveStream,
        take: Take,
        passthrough_bytes: Callable[[], int],
        trailing_bytes: Callable[[], int],
        on_spliced: Callable[[int], None],
        paused: Summary,
    ) -> None:
        self.ended = False
        """Whether nothing more comes."""
        self._source = source
        self._take = take
        self._passthrough_bytes = passthrough_bytes
        self._trailing_bytes = trailing_bytes
        self._on_spliced = on_spliced
        self._paused = paused
        self._route: _Route | None = None
        self._transfer: SpliceTransfer | None = None

    def splice_to(self, sink: WriteBuffer, pipes: PipePool) -> None:
        """Splice large bodies to ``sink`` from now on; see :func:`proxy.transport.splice.can_splice`."""
        self._route = _Route(cast("TcpStream", self._source), sink, pipes)

    @property
    def splices_next(self) -> bool:
        """Whether the bytes that come next will be spliced."""
        return self._route is not None and self._passthrough_bytes() >= SPLICE_MIN_BYTES

    @property
    def progress(self) -> SpliceProgress | None:
        """How far the splice under way is; None if there is none."""
        return None if self._transfer is None else self._transfer.done

    async def run(self) -> None:
        """Relay what comes until reading has to pause; may return earlier.

        :raises trio.BrokenResourceError: the source broke.
        :raises trio.ClosedResourceError: the source was closed here.
        """
        route = self._route
        if route is None:
            await feed(self._source, self._taken)
            return
        if self._transfer is None and self.splices_next:
            await route.sink.flushed()
            self._begin(route)
        try:
            if self._transfer is not None:
                await self._transfer.finish()
                self._end(route, self._transfer)
            else:
                await route.source.on_readable(partial(self._on_ready, route))
        except BaseException:
            if self._transfer is not None:
                self._release(route, self._transfer)
            raise

    def _on_ready(self, route: "_Route") -> bool:
        """Read or splice what is there; return whether to wait for the source and for nothing else."""
        for _ in range(_BODIES_IN_A_ROW):
            if self._transfer is not None:
                if self._transfer.on_ready():
                    return True
                if not self._transfer.is_over:
                    return False
                self._end(route, self._transfer)
            data = route.source.receive_nowait()
            if data is None:
                return True
            if not data:
                self.ended = True
                return False
            wants_more = self._take(data)
            if self._passthrough_bytes() < SPLICE_MIN_BYTES:
                return wants_more
            if not self._begin(route):
                return False
        return True

    def _taken(self, data: bytes) -> bool:
        self.ended = not data
        return not self.ended and self._take(data)

    def _begin(self, route: "_Route") -> bool:
        """Begin to splice a body if the sink and a pipe are free; else the body is copied, or waits."""
        if (pipe := route.pipes.borrow()) is None:
            return False
        trailing = min(self._trailing_bytes(), MAX_TRAILING_BYTES)
        self._transfer = route.sink.begin_splice(route.source, self._passthrough_bytes(), pipe, trailing)
        if self._transfer is None:
            route.pipes.give_back(pipe)
        return self._transfer is not None

    def _end(self, route: "_Route", transfer: SpliceTransfer) -> None:
        self._release(route, transfer)
        if transfer.done.taken:
            self._on_spliced(transfer.done.taken)

    def _release(self, route: "_Route", transfer: SpliceTransfer) -> None:
        """Give back the sink and the pipe of a splice."""
        self._transfer = None
        route.sink.end_splice(transfer)
        route.pipes.give_back(transfer.pipe)
        if transfer.done.waited_s:
            self._paused.observe(transfer.done.waited_s)


class _Route(msgspec.Struct, frozen=True):
    """Between which streams, and through whose pipes, bodies are spliced."""

    source: TcpStream
    sink: WriteBuffer
    pipes: PipePool
