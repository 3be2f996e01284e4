"""Measures the proxy's TLS beside trio's, over a socket pair: ``python -m benchmarks.tls_streams``.

Both move the same bytes in the same process, and the same client (trio's) is at the other end, so the ratio is the gain
of the proxy's side of a connection. Small frames are sent and answered one at a time.
"""

import socket
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
import trustme

from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_stream import TlsStream
from proxy.transport.write_buffer import WriteBuffer

HOST = "bench.example"
LARGE = 64 * 1024
TOTAL = 256 * 1024 * 1024
SMALL = 100
ROUNDS = 5_000
TRIES = 3

Stream = TlsStream | trio.SSLStream[TcpStream]


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return TLS contexts for a client and a server."""
    authority = trustme.CA()
    issued = authority.issue_cert(HOST)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    issued.configure_cert(server)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ca.pem"
        authority.cert_pem.write_to_path(str(file))
        client.load_verify_locations(file)
    return client, server


def ours(transport: TcpStream, context: ssl.SSLContext) -> Stream:
    """Return the proxy's TLS stream."""
    return TlsStream(transport, context, server_side=True)


def trios(transport: TcpStream, context: ssl.SSLContext) -> Stream:
    """Return trio's TLS stream."""
    return trio.SSLStream(transport, context, server_side=True, https_compatible=True)


async def connected(
    make: Callable[[TcpStream, ssl.SSLContext], Stream],
) -> tuple[trio.SSLStream[TcpStream], Stream]:
    """Return a client, and the server's side to be measured, after the handshake."""
    for_client, for_server = contexts()
    left, right = socket.socketpair()
    client = trio.SSLStream(TcpStream(left), for_client, server_hostname=HOST, https_compatible=True)
    server = make(TcpStream(right), for_server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        await (server.handshake() if isinstance(server, TlsStream) else server.do_handshake())
    return client, server


async def receiving(client: trio.SSLStream[TcpStream], server: Stream) -> float:
    """Return the seconds in which the server receives TOTAL bytes."""
    block = bytes(LARGE)

    async def send() -> None:
        for _ in range(TOTAL // LARGE):
            await client.send_all(block)

    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        left = TOTAL
        while left:
            left -= len(await server.receive_some())
    return time.perf_counter() - started


async def answering(client: trio.SSLStream[TcpStream], server: Stream) -> float:
    """Return the seconds for ROUNDS small requests that the server answers as the relay does, through a WriteBuffer."""
    block = bytes(SMALL)
    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        buffer = WriteBuffer(server, nursery)

        async def answer() -> None:
            for _ in range(ROUNDS):
                buffer.write([bytes(await server.receive_some())])

        nursery.start_soon(answer)
        for _ in range(ROUNDS):
            await client.send_all(block)
            await client.receive_some()
    return time.perf_counter() - started


async def best(
    make: Callable[[TcpStream, ssl.SSLContext], Stream],
    work: Callable[[trio.SSLStream[TcpStream], Stream], Awaitable[float]],
) -> float:
    """Return the shortest of several tries."""
    taken = []
    for _ in range(TRIES):
        client, server = await connected(make)
        taken.append(await work(client, server))
        await trio.aclose_forcefully(client)
        await trio.aclose_forcefully(server)
    return min(taken)


async def main() -> None:
    """Print the table."""
    print("| work | trio.SSLStream | proxy.tls_stream | ratio |")
    print("| --- | --- | --- | --- |")
    theirs, own = await best(trios, receiving), await best(ours, receiving)
    print(
        f"| receive, MiB/s | {TOTAL / 2**20 / theirs:.0f} | {TOTAL / 2**20 / own:.0f} | {theirs / own:.2f} |"
    )
    theirs, own = await best(trios, answering), await best(ours, answering)
    each = [seconds / ROUNDS * 1e6 for seconds in (theirs, own)]
    print(f"| 100 bytes there and back, µs | {each[0]:.0f} | {each[1]:.0f} | {theirs / own:.2f} |")


if __name__ == "__main__":
    trio.run(main)
