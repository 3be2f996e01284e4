"""Serves ``GET /metrics`` in Prometheus' text format: a port of its own, one request each connection."""

from collections.abc import Callable
from functools import partial

import h11
import trio
from prometheus_client import CONTENT_TYPE_LATEST

_MAX_CONNECTIONS = 16
_TIMEOUT_S = 10.0
_READ_SIZE = 4096


async def serve_metrics(listeners: list[trio.SocketListener], render: Callable[[], bytes]) -> None:
    """Serve the port for ever. What does not ask in time, or is one connection too many, is disconnected."""
    places = trio.CapacityLimiter(_MAX_CONNECTIONS)
    await trio.serve_listeners(partial(_serve_connection, render, places), listeners)


async def _serve_connection(
    render: Callable[[], bytes], places: trio.CapacityLimiter, stream: trio.SocketStream
) -> None:
    async with stream:
        try:
            places.acquire_nowait()
        except trio.WouldBlock:
            return
        try:
            with trio.move_on_after(_TIMEOUT_S):
                await _answer(render, stream)
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            pass  # a client that goes away or speaks no HTTP must not affect others
        finally:
            places.release()


async def _answer(render: Callable[[], bytes], stream: trio.SocketStream) -> None:
    connection = h11.Connection(h11.SERVER)
    while not isinstance(request := connection.next_event(), h11.Request):
        if request is not h11.NEED_DATA:
            return  # it has gone
        connection.receive_data(await stream.receive_some(_READ_SIZE))
    status, body = 404, b"only /metrics is here\n"
    if request.target.partition(b"?")[0] == b"/metrics":
        status, body = (200, render()) if request.method in {b"GET", b"HEAD"} else (405, b"GET it\n")
    headers = [
        ("content-type", CONTENT_TYPE_LATEST if status == 200 else "text/plain"),
        ("content-length", str(len(body))),
        ("connection", "close"),
    ]
    answer = connection.send(h11.Response(status_code=status, headers=headers)) or b""
    if request.method != b"HEAD":
        answer += connection.send(h11.Data(data=body)) or b""
    await stream.send_all(answer)
