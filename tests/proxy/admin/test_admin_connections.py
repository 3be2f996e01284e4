"""Connections of the admin port leave nothing behind, whatever a stranger sends."""

import gc
import socket

import pytest
import trio
from hypercorn.protocol import ProtocolWrapper
from starlette.applications import Starlette

from proxy.admin.admin_http import serve_admin


@pytest.fixture
def no_collection():
    """What is found then is kept by a reference, or by a cycle that only a full collection would find."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"\x00\r\n\r\n"]
)
async def test_a_connection_that_is_closed_leaves_nothing_to_collect(no_collection, head):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_admin, sock, Starlette(), stop.wait)
            for _ in range(3):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                await stream.send_all(head)
                async for _chunk in stream:
                    pass
                await stream.aclose()
            stop.set()
    assert [one for one in gc.get_objects() if isinstance(one, ProtocolWrapper)] == []
