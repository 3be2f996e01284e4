"""One task and one epoll for all sockets: who is called, who is woken, and what trio gets of it."""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
import trio.testing

from proxy.transport import epoll
from proxy.transport.epoll import EpollLoop
from proxy.transport.tcp_stream import TcpStream, feed

TIMEOUT_S = 20


@asynccontextmanager
async def serving() -> AsyncIterator[EpollLoop]:
    served = EpollLoop()
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.serve)
            while epoll.current() is None:
                await trio.lowlevel.checkpoint()
            yield served
            nursery.cancel_scope.cancel()


def a_pair_for_long() -> tuple[TcpStream, socket.socket]:
    ours, theirs = socket.socketpair()
    return TcpStream(ours), theirs


@contextmanager
def a_pair() -> Iterator[tuple[TcpStream, socket.socket]]:
    """A stream of the proxy's, and its peer."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield TcpStream(ours), theirs


async def test_without_a_poller_each_stream_waits_for_itself() -> None:
    taken: list[bytes] = []

    def until_the_end(data: bytes) -> bool:
        taken.append(data)
        return bool(data)

    with a_pair() as (stream, peer), trio.fail_after(TIMEOUT_S):
        peer.sendall(b"one")
        peer.shutdown(socket.SHUT_WR)
        await feed(stream, until_the_end)
    assert taken == [b"one", b""]


async def test_bytes_are_handed_over_until_no_more_are_wanted_and_the_task_sleeps_meanwhile() -> None:
    taken: list[bytes] = []
    tasks: set[trio.lowlevel.Task] = set()
    enough = trio.Event()

    def two(data: bytes) -> bool:
        taken.append(data)
        tasks.add(trio.lowlevel.current_task())
        if len(taken) == 1:
            peer.sendall(b"two")
        return len(taken) < 2

    async def read() -> None:
        await feed(stream, two)
        assert trio.lowlevel.current_task() not in tasks
        enough.set()

    async with serving(), trio.open_nursery() as nursery:
        with a_pair() as (stream, peer):
            nursery.start_soon(read)
            peer.sendall(b"one")
            await enough.wait()
            peer.sendall(b"three")
            assert taken == [b"one", b"two"]
            assert await stream.receive_some() == b"three"


async def test_what_the_taker_raises_is_raised_where_it_was_left_and_nobody_else_notices() -> None:
    def fails(_data: bytes) -> bool:
        raise ValueError("no such frame")

    async with serving():
        with a_pair() as (stream, peer), a_pair() as (other, its_peer):
            peer.sendall(b"?")
            with pytest.raises(ValueError, match="no such frame"):
                await feed(stream, fails)
            its_peer.sendall(b"fine")
            assert await other.receive_some() == b"fine"


async def test_the_end_and_a_reset_are_told() -> None:
    async with serving():
        with a_pair() as (stream, peer):
            peer.close()
            assert await stream.receive_some() == b""
        listener = socket.create_server(("127.0.0.1", 0))
        with listener, socket.create_connection(listener.getsockname()) as client:
            accepted, _ = listener.accept()
            with accepted:
                stream = TcpStream(accepted)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()
                with pytest.raises(trio.BrokenResourceError):
                    await feed(stream, lambda _data: True)


async def test_who_is_cancelled_waits_no_more_and_may_wait_again() -> None:
    async with serving():
        with a_pair() as (stream, peer):
            with trio.move_on_after(0.01) as waiting:
                await feed(stream, lambda _data: True)
            assert waiting.cancelled_caught
            peer.sendall(b"later")
            assert await stream.receive_some() == b"later"


async def test_a_stream_that_is_closed_here_wakes_who_reads_and_who_writes() -> None:
    closed: list[str] = []

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await feed(stream, lambda _data: True)
        closed.append("reader")

    async def write() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x" * 64 * 1024 * 1024)
        closed.append("writer")

    async with serving():
        with a_pair() as (stream, _peer):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                nursery.start_soon(write)
                await trio.testing.wait_all_tasks_blocked()
                await stream.aclose()
            assert sorted(closed) == ["reader", "writer"]
            with pytest.raises(trio.ClosedResourceError):
                await stream.receive_some()


async def test_one_task_reads_and_another_one_writes() -> None:
    sent = b"x" * 4 * 1024 * 1024

    async def echo() -> None:
        received = b""
        while len(received) < len(sent):
            received += await stream.receive_some()
        assert received == sent

    async with serving():
        with a_pair() as (stream, socket_of_peer):
            peer = TcpStream(socket_of_peer)

            async def pass_back() -> None:
                while data := await peer.receive_some():
                    await peer.send_all(data)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(pass_back)
                nursery.start_soon(echo)
                await stream.send_all(sent)
                await stream.send_eof()


async def test_a_socket_that_is_closed_without_a_word_harms_nobody() -> None:
    async with serving():
        with a_pair() as (other, its_peer):
            stream, peer = a_pair_for_long()
            with trio.CancelScope() as waiting:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(feed, stream, lambda _data: True)
                    await trio.testing.wait_all_tasks_blocked()
                    stream.socket.close()
                    peer.close()
                    waiting.deadline = trio.current_time() + 0.01  # not before both are closed
            assert waiting.cancelled_caught
            its_peer.sendall(b"fine")
            assert await other.receive_some() == b"fine"


async def test_a_socket_that_can_not_be_waited_for_is_an_error_of_its_own_and_may_be_later() -> None:
    async with serving() as served:
        number = os.open("/dev/null", os.O_RDONLY)  # epoll takes no files
        with pytest.raises(PermissionError):
            await served.read(number)
        os.close(number)
        with a_pair() as (stream, peer):  # with the same number
            assert stream.socket.fileno() == number
            peer.sendall(b"fine")
            assert await stream.receive_some() == b"fine"


async def test_two_tasks_can_not_read_the_same_stream() -> None:
    async with serving(), trio.open_nursery() as nursery:
        with a_pair() as (stream, _peer):
            nursery.start_soon(feed, stream, lambda _data: True)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await stream.receive_some()
            nursery.cancel_scope.cancel()


async def test_a_task_that_becomes_ready_has_its_turn_before_more_is_read() -> None:
    turn = trio.Event()
    read = 0

    def wakes(data: bytes) -> bool:
        nonlocal read
        read += 1
        peer.sendall(data)
        turn.set()
        return True

    async with serving():
        with a_pair() as (stream, peer):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(feed, stream, wakes)
                peer.sendall(b"round and round")
                for so_far in range(1, 51):
                    await turn.wait()
                    turn = trio.Event()
                    assert read <= 2 * so_far  # trio may let the loop look once more in the same round
                nursery.cancel_scope.cancel()


async def test_trio_has_its_turn_although_there_is_always_something_to_read() -> None:
    """A deadline, of which the kernel tells nothing."""

    def for_ever(data: bytes) -> bool:
        peer.sendall(data)
        return True

    async with serving():
        with a_pair() as (stream, peer):
            peer.sendall(b"round and round")
            with trio.move_on_after(0.05) as reading:
                await feed(stream, for_ever)
            assert reading.cancelled_caught


async def test_who_shares_has_a_socket_of_trios_looked_at_after_each_read() -> None:
    read = 0

    def for_ever(data: bytes) -> bool:
        nonlocal read
        read += 1
        if read == 20:
            theirs.sendall(b"!")
        peer.sendall(data)
        return True

    async with serving():
        ours, theirs = socket.socketpair()
        with a_pair() as (stream, peer), ours, theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(feed, stream, for_ever)
                with epoll.trio_priority():
                    peer.sendall(b"round and round")
                    await trio.lowlevel.wait_readable(ours)
                    assert read <= 25
                nursery.cancel_scope.cancel()


async def test_when_the_poller_ends_who_waits_goes_on_alone() -> None:
    taken: list[bytes] = []

    def until_the_end(data: bytes) -> bool:
        taken.append(data)
        return bool(data)

    async def read() -> None:
        while b"" not in taken:
            await feed(stream, until_the_end)

    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            async with serving():
                stream, peer = a_pair_for_long()
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
            peer.sendall(b"still here")
            peer.close()
    stream.socket.close()
    assert taken == [b"still here", b""]
