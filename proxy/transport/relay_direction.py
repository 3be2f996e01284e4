"""One direction of a connection: what one side sends is handed over as it comes, and large bodies move to the other.

All of it happens as soon as the bytes are there (``proxy.transport.epoll``), as long as the other side takes them.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec
import trio
from prometheus_client import Summary

from proxy.transport.splice import BEHIND_A_BODY, MOVE_ABOVE, Move, Moving, PipePool
from proxy.transport.tcp_stream import Take, TcpStream, feed
from proxy.transport.write_buffer import Outbox

_BODIES_IN_A_ROW = 4
"""Then others have their turn."""


class Lane:
    """``take`` is given what is read, and gives False once something has to be waited for before more is.

    ``unread`` says how many of the bytes that come next go to the other side whatever they are, and ``behind`` how many
    of the same frame follow those; ``moved`` is told how many of them did. ``paused`` is shown how long the other side
    took none.
    """

    def __init__(
        self,
        source: trio.abc.ReceiveStream,
        take: Take,
        unread: Callable[[], int],
        behind: Callable[[], int],
        moved: Callable[[int], None],
        paused: Summary,
    ) -> None:
        self.ended = False
        """Whether nothing more comes."""
        self._source = source
        self._take = take
        self._unread = unread
        self._behind = behind
        self._moved = moved
        self._paused = paused
        self._way: _Way | None = None
        self._moving: Moving | None = None

    def move_to(self, sink: Outbox, pipes: PipePool) -> None:
        """Move bodies from now on. Both sides are plain TCP (:func:`proxy.transport.splice.movable`)."""
        self._way = _Way(cast("TcpStream", self._source), sink, pipes)

    @property
    def moves_next(self) -> bool:
        """Whether what comes next is moved."""
        return self._way is not None and self._unread() >= MOVE_ABOVE

    @property
    def progress(self) -> Move | None:
        """How far the body is that is being moved; None if there is none."""
        return None if self._moving is None else self._moving.done

    async def run(self) -> None:
        """Take what comes, until ``take`` has to be waited for, or for no reason.

        :raises trio.BrokenResourceError: the source broke.
        :raises trio.ClosedResourceError: it was closed here.
        """
        way = self._way
        if way is None:
            await feed(self._source, self._taken)
            return
        if self._moving is None and self.moves_next:
            await way.sink.flushed()
            self._begin(way)
        try:
            if self._moving is not None:
                await self._moving.finish()
                self._end(way, self._moving)
            else:
                await way.source.on_readable(partial(self._goes_on, way))
        except BaseException:
            if self._moving is not None:
                self._close(way, self._moving)
            raise

    def _goes_on(self, way: "_Way") -> bool:
        """Read or move what is there; whether there is nothing to wait for but more of it."""
        for _ in range(_BODIES_IN_A_ROW):
            if self._moving is not None:
                if self._moving.goes_on():
                    return True
                if not self._moving.is_over:
                    return False
                self._end(way, self._moving)
            data = way.source.receive_nowait()
            if data is None:
                return True
            wants_more = self._taken(data)
            if self.ended or self._unread() < MOVE_ABOVE:
                return wants_more
            if not self._begin(way):
                return False
        return True

    def _taken(self, data: bytes) -> bool:
        self.ended = not data
        return not self.ended and self._take(data)

    def _begin(self, way: "_Way") -> bool:
        """Begin to move a body, if the sink and a pipe are free; else it has to be copied, or to wait."""
        if (pipe := way.pipes.borrow()) is None:
            return False
        behind = min(self._behind(), BEHIND_A_BODY)
        self._moving = way.sink.begin_move(way.source, self._unread(), pipe, behind)
        if self._moving is None:
            way.pipes.give_back(pipe)
        return self._moving is not None

    def _end(self, way: "_Way", moving: Moving) -> None:
        self._close(way, moving)
        if moving.done.taken:
            self._moved(moving.done.taken)

    def _close(self, way: "_Way", moving: Moving) -> None:
        """Give back what a body has that is being moved."""
        self._moving = None
        way.sink.end_move(moving)
        way.pipes.give_back(moving.pipe)
        if moving.done.waited_s:
            self._paused.observe(moving.done.waited_s)


class _Way(msgspec.Struct, frozen=True):
    """How bodies are moved."""

    source: TcpStream
    sink: Outbox
    pipes: PipePool
