"""Fixtures of the proxy's tests; ``fakes`` holds what stands in for clients, brokers and the translation."""

import logging
import socket
from collections.abc import Callable, Iterator

import pytest
import structlog
import trio

from proxy.transport import epoll
from proxy.transport.epoll import EpollLoop
from proxy.transport.tcp_stream import TcpStream


@pytest.fixture
def tcp_pair() -> Iterator[Callable[[], tuple[TcpStream, TcpStream]]]:
    """Gives both ends of a connection over loopback; closed with the test."""
    sockets = []

    def pair() -> tuple[TcpStream, TcpStream]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = socket.create_connection(server.getsockname())
            far, _ = server.accept()
        sockets.extend((near, far))
        return TcpStream(near), TcpStream(far)

    yield pair
    for one in sockets:
        one.close()


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Undoes what :func:`proxy.runtime.log_setup.configure` sets for the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(params=["each waits for itself", "an epoll loop"])
async def waiting(request: pytest.FixtureRequest, nursery: trio.Nursery) -> None:
    """Streams that are made from now on wait in one way or the other."""
    if request.param == "an epoll loop":
        nursery.start_soon(EpollLoop().serve)
        while epoll.current() is None:
            await trio.lowlevel.checkpoint()
