"""Splices bytes from one TCP connection to another inside the kernel: ``os.splice`` through a pipe.

Two system calls move as much as the pipe holds, where a relay in user space pays for two copies and an object at every
read. A transfer borrows a pipe from the pool and gives it back. If no file descriptor is left for a pipe, the caller
copies the bytes, as it does on TLS.

``SO_RCVLOWAT`` makes the kernel wake the proxy for a large part of a body instead of for each segment. The transfer
resets it at its end; the next reader would otherwise wait for bytes that never come.
"""

import contextlib
import fcntl
import os
import socket

import msgspec
import trio

from proxy.transport.tcp_stream import TcpStream

PIPE_SIZE = 1024 * 1024
"""Capacity requested for a pipe, in bytes: the most that Linux grants without privileges (``fs.pipe-max-size``)."""

SPLICE_MIN_BYTES = 64 * 1024
"""The smallest body that is spliced, in bytes: one read takes as many. No other value was measured."""

MAX_TRAILING_BYTES = 4 * 1024
"""The most bytes behind the records that a splice waits for together with them. A Fetch response ends with a few, which
would otherwise take another turn of the scheduler."""

WAKE_AT = 256 * 1024
"""Bytes that have to arrive before the kernel wakes the proxy, if the body has as many.

With more, the kernel would wait for bytes that the sender holds back until the receiver has read: with 1 MiB a Fetch
response stalled for 40 ms, until a delayed acknowledgement.
"""

_IDLE_PIPES = 16
_SPLICES_IN_A_ROW = 16
_NOW = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


class Pipe:
    """A pipe of the kernel that contains ``held`` bytes.

    :raises OSError: no descriptor is left.
    """

    __slots__ = ("end", "held", "start")

    def __init__(self) -> None:
        self.end, self.start = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.held = 0
        with contextlib.suppress(OSError):  # many pipes: the kernel grants no more than its default
            fcntl.fcntl(self.start, fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def close(self) -> None:
        """Close both descriptors."""
        os.close(self.end)
        os.close(self.start)


class PipePool:
    """The pipes of one process. At most ``most`` are borrowed at the same time; a few idle ones are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: list[Pipe] = []
        self._borrowed = 0

    def borrow(self) -> Pipe | None:
        """Borrow an empty pipe; None if the limit is reached or no file descriptor is left."""
        if self._borrowed >= self._most:
            return None
        try:
            pipe = self._idle.pop() if self._idle else Pipe()
        except OSError:
            return None
        self._borrowed += 1
        return pipe

    def give_back(self, pipe: Pipe) -> None:
        """Return a borrowed pipe; bytes still in it are lost."""
        self._borrowed -= 1
        if pipe.held or len(self._idle) >= _IDLE_PIPES:
            pipe.close()
        else:
            self._idle.append(pipe)

    def close(self) -> None:
        """Close the idle pipes."""
        while self._idle:
            self._idle.pop().close()


class SpliceProgress(msgspec.Struct):
    """How far a splice is. ``taken`` bytes have left the source.

    ``ended``: the source has ended. ``sink_broken``: the sink takes nothing any more. ``waiting``: it takes nothing at
    the moment. ``waited_s``: for how many seconds in all it took nothing.
    """

    taken: int = 0
    ended: bool = False
    sink_broken: bool = False
    waiting: bool = False
    waited_s: float = 0.0


class SpliceTransfer:
    """Splices ``count`` bytes, or fewer if a side ends or breaks; ``done`` is up to date at any time.

    ``trailing`` bytes are sure to follow in the source and stay there; the kernel reports the last spliced bytes only
    together with them. The caller calls :meth:`end` in any case.
    """

    def __init__(
        self,
        source: TcpStream,
        sink: TcpStream,
        count: int,
        pipe: Pipe,
        done: SpliceProgress,
        trailing: int = 0,
    ) -> None:
        self.done = done
        self.pipe = pipe
        self._source = source
        self._sink = sink
        self._count = count
        self._trailing = trailing
        self._low_water = 1

    @property
    def is_over(self) -> bool:
        """Whether the sink has all bytes, or can get no more."""
        done = self.done
        return done.sink_broken or not (self.pipe.held or (done.taken < self._count and not done.ended))

    def on_ready(self) -> bool:
        """Splice what can be spliced now; returns whether only the source has to be waited for.

        :raises trio.BrokenResourceError: the source broke.
        :raises trio.ClosedResourceError: the source was closed here.
        """
        if not self._spliced_all_there_is():
            return False
        wanted = min(self._count - self.done.taken + self._trailing, WAKE_AT)
        if wanted != self._low_water:
            self._source.set_low_water(wanted)
            self._low_water = wanted
        return True

    def _spliced_all_there_is(self) -> bool:
        count, pipe, done = self._count, self.pipe, self.done
        for _ in range(_SPLICES_IN_A_ROW):  # two fast peers must not keep the others waiting
            if done.taken < count and pipe.held < PIPE_SIZE and not done.ended:
                _fill(self._source, count, pipe, done)
            if not pipe.held:
                return done.taken < count and not done.ended
            _empty(self._sink, pipe, done, more=done.taken < count)
            if done.sink_broken or done.waiting:
                return False
        return False

    async def finish(self) -> None:
        """Splice until :attr:`is_over`, waiting for either side. Raises as :meth:`on_ready`."""
        while not self.is_over:
            if self.done.waiting:
                await self._wait_for_sink()
            elif self.on_ready():
                await self._source.on_readable(self.on_ready)
            elif self._can_continue:
                await trio.lowlevel.checkpoint()

    @property
    def _can_continue(self) -> bool:
        return not (self.done.waiting or self.is_over)

    async def _wait_for_sink(self) -> None:
        started = trio.current_time()
        try:
            await self._sink.wait_send_all_might_not_block()
        except trio.ClosedResourceError:
            self.done.sink_broken = True
        self.done.waiting = False
        self.done.waited_s += trio.current_time() - started

    def end(self) -> None:
        """Reset the source's low-water mark; the next reader would wait for too many bytes otherwise."""
        if self._low_water != 1:
            self._source.set_low_water(1)
            self._low_water = 1


def _fill(source: TcpStream, count: int, pipe: Pipe, done: SpliceProgress) -> None:
    """Splice from the source into the pipe what is there, as far as the pipe has room."""
    # A slot of the pipe may hold more than a page, so its size alone is no bound of what it holds.
    wanted = min(count - done.taken, PIPE_SIZE - pipe.held)
    try:
        n = os.splice(source.socket.fileno(), pipe.start, wanted, flags=_NOW)
    except BlockingIOError:
        return  # nothing is there, or the pipe is full
    except OSError as error:
        raise source.broken(error) from error
    if n == 0:
        done.ended = True
    done.taken += n
    pipe.held += n


def _empty(sink: TcpStream, pipe: Pipe, done: SpliceProgress, *, more: bool) -> None:
    """Splice from the pipe into the sink, as much as that takes."""
    done.waiting = False
    flags = _NOW | (os.SPLICE_F_MORE if more else 0)
    try:
        pipe.held -= os.splice(pipe.end, sink.socket.fileno(), pipe.held, flags=flags)
    except BlockingIOError:
        done.waiting = True
    except OSError:
        done.sink_broken = True


def can_splice(source: object, sink: object) -> bool:
    """Whether the kernel can splice between these streams: both must be plain TCP."""
    return isinstance(source, TcpStream) and isinstance(sink, TcpStream) and _is_inet(source, sink)


def _is_inet(*streams: TcpStream) -> bool:
    return all(stream.socket.family in {socket.AF_INET, socket.AF_INET6} for stream in streams)
