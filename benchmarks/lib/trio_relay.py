"""A plain relay on trio: what the event loop alone costs a process between a client and a broker.

``python -m benchmarks.lib.trio_relay PORT HOST:PORT``. It has Epochgate's streams and two tasks for each connection,
each with its own wait (unlike Epochgate's: ``proxy.transport.epoll``), and nothing else.
"""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import trio

from benchmarks.lib.plain_relay import serving
from proxy.transport.tcp_stream import TcpStream, open_tcp
from tools.kafka.ports import LOOPBACK


@contextlib.contextmanager
def relay(port: int, broker: str) -> Iterator[int]:
    """Run the relay on a port in front of a broker's host:port as its own process; return its process id."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.lib.trio_relay", str(port), broker])
    with serving(process, port):
        yield process.pid


async def _pass_on(source: TcpStream, sink: TcpStream) -> None:
    while data := await source.receive_some():
        sent = sink.send_nowait(data)
        if sent < len(data):
            await sink.send_all(data[sent:])
    await sink.send_eof()


async def _serve(host: str, port: int, accepted: trio.SocketStream) -> None:
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async with (
            TcpStream(_taken_out(accepted)) as client,
            await open_tcp(host, port) as broker,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_pass_on, client, broker)
            nursery.start_soon(_pass_on, broker, client)


def _taken_out(stream: trio.SocketStream) -> socket.socket:
    """Detach and return the socket of a stream."""
    return socket.socket(fileno=stream.socket.detach())


async def _main(port: int, broker: str) -> None:
    host, _, broker_port = broker.rpartition(":")
    await trio.serve_tcp(partial(_serve, host, int(broker_port)), port, host=LOOPBACK)


if __name__ == "__main__":
    trio.run(_main, int(sys.argv[1]), sys.argv[2])
