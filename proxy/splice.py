"""Move bytes from one TCP connection to another without looking at them: ``os.splice`` through a pipe.

The bytes stay in the kernel. What a relay in user space pays for them is two copies and an object for every read;
here it is two system calls for as much as the pipe takes. A pipe is borrowed while a large body moves and kept for the
next one; where no descriptor is left for one the caller copies, as it does on TLS.

``SO_RCVLOWAT`` lets the kernel wake the proxy for a good part of a body instead of for each segment of it; it is
set back before anybody else reads, who would otherwise wait for bytes that never come.
"""

import contextlib
import fcntl
import os
import socket

import msgspec
import trio

from proxy.streams import TcpStream

PIPE_SIZE = 1024 * 1024
"""Bytes asked of a pipe: as many as Linux gives without privileges (``fs.pipe-max-size``)."""

MOVE_ABOVE = 64 * 1024
"""Bytes of a body from which on it is moved: one read takes as many. Not swept (docs/performance.md)."""

BEHIND_A_BODY = 4 * 1024
"""Bytes to wait for with the records before them and to read at once: a Fetch response ends with a few more, which
would take another turn of the scheduler."""

WAKE_AT = 256 * 1024
"""Bytes that should have come before the kernel wakes the proxy, if the body has as many.

More would wait for bytes that the sender holds back until the receiver has read: with 1 MiB a Fetch response stood for
40 ms, until a delayed acknowledgement.
"""

_IDLE_PIPES = 16
_MOVES_IN_A_ROW = 16
_NOW = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


class Pipe:
    """A pipe of the kernel. ``held`` bytes are in it.

    :raises OSError: no descriptor is left.
    """

    __slots__ = ("end", "held", "start")

    def __init__(self) -> None:
        self.end, self.start = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.held = 0
        with contextlib.suppress(OSError):  # many pipes: the kernel grants no more than its default
            fcntl.fcntl(self.start, fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def close(self) -> None:
        """Give both descriptors back."""
        os.close(self.end)
        os.close(self.start)


class PipePool:
    """The pipes of one process: few are kept, and no more than ``most`` are borrowed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: list[Pipe] = []
        self._borrowed = 0

    def borrow(self) -> Pipe | None:
        """An empty pipe; None if there is none to be had now."""
        if self._borrowed >= self._most:
            return None
        try:
            pipe = self._idle.pop() if self._idle else Pipe()
        except OSError:
            return None
        self._borrowed += 1
        return pipe

    def give_back(self, pipe: Pipe) -> None:
        """A borrowed pipe is needed no more; what is still in it is lost."""
        self._borrowed -= 1
        if pipe.held or len(self._idle) >= _IDLE_PIPES:
            pipe.close()
        else:
            self._idle.append(pipe)

    def close(self) -> None:
        """Close those that are not borrowed."""
        while self._idle:
            self._idle.pop().close()


class Move(msgspec.Struct):
    """How far a move is: ``taken`` bytes left the source; both sides may have broken on the way.

    ``ended`` says that the source has ended, ``waiting`` that the sink takes nothing now, ``waited_s`` for how
    long in all that was so.
    """

    taken: int = 0
    ended: bool = False
    sink_broken: bool = False
    waiting: bool = False
    waited_s: float = 0.0


async def move(
    source: TcpStream, sink: TcpStream, count: int, pipe: Pipe, done: Move, behind: int = 0
) -> None:
    """Move ``count`` bytes, or fewer if a side breaks. ``done`` is right at any time, also if this is cancelled.

    ``behind`` bytes are sure to follow and stay in the source; it is not woken for the last ones without them.

    :raises trio.BrokenResourceError: the source broke.
    :raises trio.ClosedResourceError: the source was closed here.
    """
    low_water = 1
    moves = 0
    try:
        while done.taken < count or pipe.held:
            if done.taken < count and pipe.held < PIPE_SIZE and not done.ended:
                _fill(source, count, pipe, done)
            if pipe.held:
                await _empty(sink, pipe, done, more=done.taken < count)
                if done.sink_broken:
                    return
            elif done.ended:
                return
            elif done.taken < count:
                wanted = min(count - done.taken + behind, WAKE_AT)
                if wanted != low_water:
                    source.set_low_water(wanted)
                    low_water = wanted
                await source.wait_readable()
                moves = 0
                continue
            moves += 1
            if moves >= _MOVES_IN_A_ROW:  # two fast peers must not keep the others waiting
                moves = 0
                await trio.lowlevel.checkpoint()
    finally:
        if low_water != 1:
            source.set_low_water(1)


def _fill(source: TcpStream, count: int, pipe: Pipe, done: Move) -> None:
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


async def _empty(sink: TcpStream, pipe: Pipe, done: Move, *, more: bool) -> None:
    """Write what is in the pipe, waiting for the sink if it takes nothing."""
    flags = _NOW | (os.SPLICE_F_MORE if more else 0)
    try:
        try:
            pipe.held -= os.splice(pipe.end, sink.socket.fileno(), pipe.held, flags=flags)
        except BlockingIOError:
            started = trio.current_time()
            done.waiting = True
            await sink.wait_send_all_might_not_block()
            done.waiting = False
            done.waited_s += trio.current_time() - started
    except (OSError, trio.ClosedResourceError):
        done.sink_broken = True


def movable(source: object, sink: object) -> bool:
    """Whether bytes can be moved between these streams: both are plain TCP."""
    return isinstance(source, TcpStream) and isinstance(sink, TcpStream) and _is_inet(source, sink)


def _is_inet(*streams: TcpStream) -> bool:
    return all(stream.socket.family in {socket.AF_INET, socket.AF_INET6} for stream in streams)
