"""One direction of a connection: what one side sends is handed over as it comes, and large bodies move to the other.

All of it happens as soon as the bytes are there (``proxy.poller``), as long as the other side takes them.
"""

from collections.abc import Callable
from typing import cast

import trio
from prometheus_client import Summary

from proxy.outbox import Outbox
from proxy.splice import BEHIND_A_BODY, MOVE_ABOVE, Move, Moving, PipePool
from proxy.streams import Take, TcpStream, feed

_BODIES_IN_A_ROW = 4
"""Then others have their turn."""


class Lane:
    """``take`` is given what is read, and gives False once something has to be waited for before more is.

    ``body`` says how many of the bytes that come next go to the other side whatever they are, and how many of the same
    frame follow those; ``moved`` is told how many of them did. ``paused`` is shown how long the other side took none.
    """

    def __init__(
        self,
        source: trio.abc.ReceiveStream,
        take: Take,
        body: Callable[[], tuple[int, int]],
        moved: Callable[[int], None],
        paused: Summary,
    ) -> None:
        self.ended = False
        """Whether nothing more comes."""
        self._source = source
        self._take = take
        self._body = body
        self._moved = moved
        self._paused = paused
        self._sink: Outbox | None = None
        self._pipes: PipePool | None = None
        self._moving: Moving | None = None

    def move_to(self, sink: Outbox, pipes: PipePool) -> None:
        """Move bodies from now on. Both sides are plain TCP (:func:`proxy.splice.movable`)."""
        self._sink, self._pipes = sink, pipes

    @property
    def moves_next(self) -> bool:
        """Whether what comes next is moved."""
        return self._sink is not None and self._body()[0] >= MOVE_ABOVE

    @property
    def progress(self) -> Move | None:
        """How far the body is that is being moved; None if there is none."""
        return None if self._moving is None else self._moving.done

    async def run(self) -> None:
        """Take what comes, until ``take`` has to be waited for, or for no reason.

        :raises trio.BrokenResourceError: the source broke.
        :raises trio.ClosedResourceError: it was closed here.
        """
        if self._moving is None and self.moves_next and self._sink is not None:
            await self._sink.flushed()
            self._begin()
        try:
            if self._moving is not None:
                await self._moving.finish()
                self._end()
            elif self._sink is None:
                await feed(self._source, self._taken)
            else:
                await cast("TcpStream", self._source).on_readable(self._goes_on)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give back what a body that is being moved has, if there is one."""
        if self._moving is not None and self._sink is not None and self._pipes is not None:
            moving, self._moving = self._moving, None
            self._sink.end_move(moving)
            self._pipes.give_back(moving.pipe)
            if moving.done.waited_s:
                self._paused.observe(moving.done.waited_s)

    def _goes_on(self) -> bool:
        """Read or move what is there; whether there is nothing to wait for but more of it."""
        source = cast("TcpStream", self._source)
        for _ in range(_BODIES_IN_A_ROW):
            if self._moving is not None:
                if self._moving.goes_on():
                    return True
                if not self._moving.is_over:
                    return False
                self._end()
            wants_more = source.hand_over(self._taken)
            if self.ended or not self.moves_next:
                return wants_more
            if not self._begin():
                return False
        return True

    def _taken(self, data: bytes) -> bool:
        self.ended = not data
        return not self.ended and self._take(data)

    def _begin(self) -> bool:
        """Begin to move a body, if the sink and a pipe are free; else it has to be copied, or to wait."""
        if self._sink is None or self._pipes is None or (pipe := self._pipes.borrow()) is None:
            return False
        count, behind = self._body()
        self._moving = self._sink.begin_move(
            cast("TcpStream", self._source), count, pipe, min(behind, BEHIND_A_BODY)
        )
        if self._moving is None:
            self._pipes.give_back(pipe)
        return self._moving is not None

    def _end(self) -> None:
        taken = 0 if self._moving is None else self._moving.done.taken
        self.close()
        if taken:
            self._moved(taken)
