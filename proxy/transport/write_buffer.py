"""Buffers writes to one peer, and decides when it is full, so that reading from the other side pauses (backpressure).

Writing never blocks. Backpressure comes from the reader of the other peer: it waits in :meth:`WriteBuffer.drained`
before it reads more, so a peer that does not read stops its counterpart instead of filling memory.
"""

from collections import deque
from collections.abc import Sequence
from typing import cast

import trio
from prometheus_client import Summary

from proxy.transport.splice import Pipe, SpliceProgress, SpliceTransfer
from proxy.transport.tcp_stream import TcpStream

HIGH_WATER = 256 * 1024
"""Buffered bytes above which the proxy stops reading from the other peer."""


class WriteBuffer:
    """The writing side of one stream.

    ``nursery`` runs the task that writes what the kernel did not take at once; it exists only while bytes wait. When
    the peer is gone the buffer is broken and drops further writes; the reader of the same stream handles the end.
    """

    def __init__(self, stream: trio.abc.SendStream, nursery: trio.Nursery) -> None:
        self._stream = stream
        self._send_nowait = getattr(stream, "send_nowait", None)
        self._nursery = nursery
        self._waiting: deque[bytes] = deque()
        self.size = 0
        """Bytes that wait to be written."""
        self._flushing = False
        self._progress = trio.Event()
        self.broken = False
        self.written = 0
        """Pieces that had to wait and were written since."""

    def write(self, pieces: Sequence[bytes], *, more: bool = False) -> None:
        """Write these bytes after all that were written before. Small pieces go in one system call.

        ``more``: :meth:`begin_splice` follows at once, so the kernel may send these bytes with the spliced ones.
        """
        if self.broken:
            return
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._send_nowait is not None and not self._waiting and not self._flushing:
            try:
                sent = self._send_nowait(data, more=True) if more else self._send_nowait(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._break()
                return
            if sent == len(data):
                return
            data = data[sent:]
        self._waiting.append(data)
        self.size += len(data)
        if not self._flushing:
            self._flushing = True
            self._nursery.start_soon(self._flush)

    def begin_splice(
        self, source: TcpStream, count: int, pipe: Pipe, trailing: int = 0
    ) -> SpliceTransfer | None:
        """Begin to splice bytes of another connection to this peer; None if bytes still wait to be written.

        Bytes that are written meanwhile follow the spliced ones. The arguments are those of
        :class:`proxy.transport.splice.SpliceTransfer`; the caller ends every transfer by :meth:`end_splice`.
        """
        if self._flushing or self._waiting or self.broken:
            return None
        self._flushing = True
        return SpliceTransfer(
            source, cast("TcpStream", self._stream), count, pipe, SpliceProgress(), trailing
        )

    def end_splice(self, transfer: SpliceTransfer) -> None:
        """Finish a transfer. If it is incomplete the peer has a part of a frame, so the buffer is broken."""
        transfer.end()
        self._flushing = False
        if not transfer.is_over or transfer.done.sink_broken:
            self._break()
        elif self._waiting:
            self._flushing = True
            self._nursery.start_soon(self._flush)
        self._notify()

    async def drained(self, paused: Summary | None = None) -> None:
        """Wait until the buffer is at :data:`HIGH_WATER` or below; ``paused`` observes for how many seconds."""
        started = trio.current_time()
        while self.size > HIGH_WATER:
            await self._progress.wait()
        if paused is not None:
            paused.observe(trio.current_time() - started)

    async def flushed(self) -> None:
        """Wait until everything is written, or the peer is gone."""
        while self._flushing:
            await self._progress.wait()

    async def _flush(self) -> None:
        try:
            while self._waiting:
                data = self._waiting.popleft()
                await self._stream.send_all(data)
                self.size -= len(data)
                self.written += 1
                self._notify()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._break()
        finally:
            self._flushing = False
            self._notify()

    def _break(self) -> None:
        self.broken = True
        self._waiting.clear()
        self.size = 0
        self._notify()

    def _notify(self) -> None:
        self._progress.set()
        self._progress = trio.Event()
