"""A TCP connection as a trio stream that can also write without waiting.

The relay moves many small frames, and a trio socket lets the scheduler run at each send. Here a send that the
kernel takes at once costs one system call; the scheduler runs where the relay waits for bytes anyway. TLS
lays ``trio.SSLStream`` over it, tests use trio's memory streams: the relay needs no more than
:class:`trio.abc.Stream` and uses :meth:`TcpStream.send_nowait` where there is one.
"""

import contextlib
import errno
import select
import socket
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from proxy.transport import epoll

RECEIVE_SIZE = 64 * 1024
"""Bytes asked for in one read: several small frames, or the head of a large one, whose rest is moved
(``proxy.transport.splice``). Python allocates as much before it reads; from 128 KiB on the C library would map and
unmap memory for each read."""


Take = Callable[[bytes], bool]
"""Takes what was read, and says whether it can take more; empty bytes are the end of the stream."""

_KEEPALIVE_AFTER_S = 60
_KEEPALIVE_EVERY_S = 10
_KEEPALIVES = 6


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel find out that a peer is gone without a word: a silent connection ends after two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_AFTER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVES)


class TcpStream(trio.abc.HalfCloseableStream):
    """A connected non-blocking TCP socket. ``TCP_NODELAY`` is set: frames are written whole, none waits."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # 0: the system's own. trio's 16 KiB of unsent bytes cost a turn of the scheduler for each two segments.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)
        self.socket = sock
        self._loop = epoll.current()
        self._hang_up: select.poll | None = None

    def send_nowait(self, data: bytes, *, more: bool = False) -> int:
        """Write what the kernel takes now; the number of bytes it took.

        ``more`` says that more follows at once: the kernel need not send these alone.

        :raises trio.BrokenResourceError: the peer is gone.
        """
        try:
            return self.socket.send(data, socket.MSG_MORE if more else 0)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.broken(error) from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write everything, waiting for the peer as long as needed."""
        with memoryview(data) as view:
            sent = 0
            while sent < len(view):
                try:
                    sent += self.socket.send(view[sent:])
                except BlockingIOError:
                    await self.wait_send_all_might_not_block()
                except OSError as error:
                    raise self.broken(error) from error

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the kernel takes bytes again."""
        if self._loop is not None and self._loop.is_serving:
            await self._loop.write(self._number())
        else:
            await trio.lowlevel.wait_writable(self._number())

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and give them; empty at the end of the stream."""
        while True:
            try:
                await self.wait_readable()
                return self.socket.recv(max_bytes or RECEIVE_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self.broken(error) from error

    async def feed(self, take: Take) -> None:
        """Hand over what arrives until ``take`` gives False, or for no reason; see :meth:`on_readable`."""
        await self.on_readable(partial(self.hand_over, take))

    def hand_over(self, take: Take) -> bool:
        """Hand over what is there; what ``take`` says, and True if there is nothing."""
        data = self.receive_nowait()
        return True if data is None else take(data)

    def receive_nowait(self) -> bytes | None:
        """What is there; empty at the end of the stream, None if nothing is there yet.

        :raises trio.BrokenResourceError: the connection broke.
        """
        try:
            return self.socket.recv(RECEIVE_SIZE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self.broken(error) from error

    async def wait_readable(self) -> None:
        """Wait until there are bytes (at least those of :meth:`set_low_water`), or the end."""
        if self._loop is not None and self._loop.is_serving:
            await self._loop.read(self._number())
        else:
            await trio.lowlevel.wait_readable(self._number())

    async def on_readable(self, on_ready: Callable[[], bool]) -> None:
        """Call ``on_ready`` each time when :meth:`wait_readable` would return, until it gives False, or for no reason.

        It may be called in another task, or in this one. What it raises is raised here.
        """
        if self._loop is not None and self._loop.is_serving:
            await self._loop.read(self._number(), on_ready)
        else:
            await self.wait_readable()
            while on_ready():
                await self.wait_readable()

    def set_low_water(self, n: int) -> None:
        """Be told of bytes once there are as many; 1 is usual."""
        with contextlib.suppress(OSError):  # closed meanwhile
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, n)

    def peer_closed(self) -> bool:
        """Whether the peer has said that nothing more comes, or is gone; also if bytes before that wait to be read.

        The kernel knows it before the reader does: a read gives the bytes first.
        """
        if self.socket.fileno() == -1:
            return True
        if self._hang_up is None:
            self._hang_up = select.poll()
            self._hang_up.register(self.socket, select.POLLRDHUP)  # and always POLLHUP and POLLERR
        return bool(self._hang_up.poll(0))

    async def send_eof(self) -> None:
        """Tell the peer that nothing more comes; it may still send."""
        await trio.lowlevel.checkpoint()
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self.broken(error) from error

    async def aclose(self) -> None:
        """Close the socket."""
        if self.socket.fileno() != -1:
            epoll.notify_closing(self.socket)
            self.socket.close()
        await trio.lowlevel.checkpoint()

    def _number(self) -> int:
        if (number := self.socket.fileno()) == -1:
            raise trio.ClosedResourceError
        return number

    def broken(self, error: OSError) -> Exception:
        """What a failed system call means to users of the stream."""
        if self.socket.fileno() == -1 or error.errno == errno.EBADF:
            return trio.ClosedResourceError()
        return trio.BrokenResourceError(error.strerror)


async def feed(stream: trio.abc.ReceiveStream, take: Take) -> None:
    """:meth:`TcpStream.feed` for streams of any kind."""
    own: Callable[[Take], Awaitable[None]] | None = getattr(stream, "feed", None)
    if own is not None:
        await own(take)
    else:
        while take(bytes(await stream.receive_some())):
            pass


async def open_tcp(host: str, port: int) -> TcpStream:
    """Connect to a broker; each address of the name is tried (RFC 6555).

    :raises OSError: none of them took the connection.
    """
    with epoll.trio_priority():
        stream = await trio.open_tcp_stream(host, port)
    sock = socket.socket(fileno=stream.socket.detach())
    keep_alive(sock)
    return TcpStream(sock)
