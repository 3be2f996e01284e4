"""A TCP connection as a trio stream that can also write without waiting.

The relay moves many small frames, and a trio socket runs the scheduler at each send. Here a send that the kernel takes
at once costs one system call; the scheduler runs where the relay waits for bytes anyway. The relay also works with any
other :class:`trio.abc.Stream` (:class:`proxy.transport.tls_stream.TlsStream`, memory streams in tests) and calls
``send_nowait`` where the stream has it.
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
"""Bytes requested in one read: several small frames, or the head of a large one whose rest is spliced
(``proxy.transport.splice``). Python allocates that much before it reads; from 128 KiB on the C library would map and
unmap memory for each read."""

Take = Callable[[bytes], bool]
"""Takes what was read; returns whether it can take more. Empty bytes are the end of the stream."""

_KEEPALIVE_AFTER_S = 60
_KEEPALIVE_EVERY_S = 10
_KEEPALIVES = 6


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel detect a peer that vanished without closing: the connection ends after two minutes of silence."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_AFTER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVES)


class TcpStream(trio.abc.HalfCloseableStream):
    """A connected non-blocking TCP socket. ``TCP_NODELAY`` is set, since frames are written whole."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # 0: the system's default. trio's 16 KiB of unsent bytes would cost a scheduler turn every two segments.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)
        self.socket = sock
        self._loop = epoll.current()
        self._hang_up: select.poll | None = None

    def send_nowait(self, data: bytes, *, more: bool = False) -> int:
        """Write what the kernel takes now, and return how many bytes that was.

        ``more`` means that more bytes follow at once, so the kernel may wait for them before it sends a packet.

        :raises trio.BrokenResourceError: the peer is gone.
        """
        try:
            return self.socket.send(data, socket.MSG_MORE if more else 0)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.broken(error) from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write everything, and wait for the peer as long as needed."""
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
        """Wait for bytes and return them; empty at the end of the stream."""
        while True:
            try:
                await self.wait_readable()
                return self.socket.recv(max_bytes or RECEIVE_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self.broken(error) from error

    async def feed(self, take: Take) -> None:
        """Give ``take`` what arrives until it returns False. May return earlier, as :meth:`on_readable` does."""
        await self.on_readable(partial(self.hand_over, take))

    def hand_over(self, take: Take) -> bool:
        """Give ``take`` what can be read now, and return its result; True if nothing can be read."""
        data = self.receive_nowait()
        return True if data is None else take(data)

    def receive_nowait(self) -> bytes | None:
        """Return what can be read now; empty at the end of the stream, None if nothing can be read yet.

        :raises trio.BrokenResourceError: the connection broke.
        """
        try:
            return self.socket.recv(RECEIVE_SIZE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self.broken(error) from error

    async def wait_readable(self) -> None:
        """Wait for bytes (as many as :meth:`set_low_water` demands), or for the end of the stream."""
        if self._loop is not None and self._loop.is_serving:
            await self._loop.read(self._number())
        else:
            await trio.lowlevel.wait_readable(self._number())

    async def on_readable(self, on_ready: Callable[[], bool]) -> None:
        """Call ``on_ready`` whenever the socket is readable, until it returns False; may return earlier.

        It is called in the task of the epoll loop or in this one. An exception of it is raised here.
        """
        if self._loop is not None and self._loop.is_serving:
            await self._loop.read(self._number(), on_ready)
        else:
            await self.wait_readable()
            while on_ready():
                await self.wait_readable()

    def set_low_water(self, n: int) -> None:
        """Have the kernel report the socket readable from ``n`` bytes on; 1 is the default."""
        with contextlib.suppress(OSError):  # closed meanwhile
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, n)

    def peer_closed(self) -> bool:
        """Whether the peer has closed its side or is gone, even if bytes that it sent before still wait to be read.

        The kernel knows this before the reader does, since a read returns those bytes first.
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
        """Return the exception that users of the stream get for a failed system call."""
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
    """Connect to a broker, trying each address of the name (RFC 6555).

    :raises OSError: none of them accepted the connection.
    """
    with epoll.trio_priority():
        stream = await trio.open_tcp_stream(host, port)
    sock = socket.socket(fileno=stream.socket.detach())
    keep_alive(sock)
    return TcpStream(sock)
