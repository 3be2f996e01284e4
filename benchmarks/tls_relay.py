"""Measures the processor time of relaying TLS to TLS: what OpenSSL takes, the kernel, and the rest.

``python -m benchmarks.tls_relay COMMIT`` compares the code of a commit with the one that is checked out, in turns; with
``--record`` it writes docs/evidence/tls.json, from which ``python -m tools.recorded_tables`` makes a table. A server
sends, a client reads, each in its own process with blocking sockets; between them are the streams, the direction and
the buffer of a proxied connection. The time in OpenSSL is that of ``SSLObject.read`` and ``write``, of which also those
that find nothing to read. Small exchanges are 100 bytes there and back, one at a time.
"""

import argparse
import functools
import json
import multiprocessing
import os
import resource
import shlex
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
import trustme

from proxy.transport.epoll import EpollLoop
from proxy.transport.relay_direction import RelayDirection
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_stream import TlsStream
from proxy.transport.write_buffer import HIGH_WATER, WriteBuffer

HOST = "bench.example"
ROUNDS = 5
MIB = 192
EXCHANGES = 4_000
HANDSHAKES = 100
_BLOCK = bytes(64 * 1024)
_SMALL = bytes(100)


class _Timed:
    """An ``SSLObject`` whose reads and writes are timed."""

    spent_s = 0.0

    def __init__(self, wrapped: ssl.SSLObject) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def read(self, *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return self._wrapped.read(*arguments)
        finally:
            _Timed.spent_s += time.thread_time() - began

    def write(self, data: Any) -> int:
        began = time.thread_time()
        try:
            return self._wrapped.write(data)
        finally:
            _Timed.spent_s += time.thread_time() - began


class _Paused:
    def observe(self, _seconds: float) -> None:
        """See prometheus_client."""


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a client and of a server."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert(HOST).configure_cert(server)
    with tempfile.TemporaryDirectory() as folder:
        authority.cert_pem.write_to_path(f"{folder}/ca.pem")
        client.load_verify_locations(f"{folder}/ca.pem")
    return client, server


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return socket.create_connection(listening.getsockname()), listening.accept()[0]


def _serve(sock: socket.socket, context: ssl.SSLContext) -> None:
    """The broker: sends all when asked for it, then answers each request."""
    with context.wrap_socket(sock, server_side=True) as broker:
        broker.recv(1)
        for _ in range(MIB * 2**20 // len(_BLOCK)):
            broker.sendall(_BLOCK)
        while broker.recv(len(_SMALL)):
            broker.sendall(_SMALL)


def _ask(sock: socket.socket, context: ssl.SSLContext, begin: Any) -> None:
    """The client: reads all, then sends requests."""
    with context.wrap_socket(sock, server_hostname=HOST) as client:
        left = MIB * 2**20
        while left:
            left -= len(client.recv(2**18))
        begin.wait()
        for _ in range(EXCHANGES):
            client.sendall(_SMALL)
            client.recv(len(_SMALL))


async def _relay(source: TlsStream, sink: WriteBuffer, left: int) -> None:
    """Relay so many bytes."""

    def take(data: bytes) -> bool:
        nonlocal left
        left -= len(data)
        sink.write([data])
        return left > 0 and sink.size <= HIGH_WATER

    direction = RelayDirection(source, take, lambda: 0, lambda: 0, lambda _: None, _Paused())  # type: ignore[arg-type]
    while left > 0:
        await direction.run()
        await sink.drained()
    await sink.flushed()


async def _used(work: Callable[[], Awaitable[None]], count: int) -> dict[str, float]:
    """Return the microseconds of processor time for each of ``count`` pieces."""
    before, _Timed.spent_s = resource.getrusage(resource.RUSAGE_SELF), 0.0
    await work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    parts = {"openssl": _Timed.spent_s, "kernel": system, "rest": user - _Timed.spent_s}
    return {name: round(seconds / count * 1e6, 2) for name, seconds in parts.items()}


async def _handshakes(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    for _ in range(HANDSHAKES):
        one, other = socket.socketpair()
        streams = (
            TlsStream(TcpStream(one), client, server_side=False, server_name=HOST),
            TlsStream(TcpStream(other), server, server_side=True),
        )
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(stream.handshake)
        for stream in streams:
            await trio.aclose_forcefully(stream)


async def measure() -> dict[str, dict[str, float]]:
    """Return the microseconds of each part: for a MiB, for a small exchange, and for both sides of a handshake."""
    client, server = contexts()
    (broker, upstream), (user, downstream) = _pair(), _pair()
    fork = multiprocessing.get_context("fork")
    begin = fork.Event()
    others = [
        fork.Process(target=_serve, args=(broker, server), daemon=True),
        fork.Process(target=_ask, args=(user, client, begin), daemon=True),
    ]
    for process, own in zip(others, (broker, user), strict=True):
        process.start()
        own.close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon((loop := EpollLoop()).serve)
        while not loop.is_serving:
            await trio.lowlevel.checkpoint()
        up = TlsStream(TcpStream(upstream), client, server_side=False, server_name=HOST)
        down = TlsStream(TcpStream(downstream), server, server_side=True)
        await up.handshake()
        await down.handshake()
        for stream in (up, down):
            stream._ssl = _Timed(stream._ssl)  # type: ignore[assignment]  # noqa: SLF001  what is measured
        to_client, to_broker = WriteBuffer(down, nursery), WriteBuffer(up, nursery)

        async def exchange() -> None:
            begin.set()
            async with trio.open_nursery() as both:
                both.start_soon(_relay, down, to_broker, EXCHANGES * len(_SMALL))
                both.start_soon(_relay, up, to_client, EXCHANGES * len(_SMALL))

        to_broker.write([b"!"])
        found = {
            "MiB": await _used(functools.partial(_relay, up, to_client, MIB * 2**20), MIB),
            "exchange": await _used(exchange, EXCHANGES),
            "handshake": await _used(functools.partial(_handshakes, client, server), HANDSHAKES),
        }
        for stream in (up, down):
            await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()
    for process in others:
        process.join()
    return found


def _run(code: Path) -> dict[str, dict[str, float]]:
    environment = {**os.environ, "PYTHONPATH": str(code)}
    ran = subprocess.run(
        [sys.executable, __file__, "--once"], env=environment, cwd=code, check=True, stdout=subprocess.PIPE
    )
    found: dict[str, dict[str, float]] = json.loads(ran.stdout)
    return found


def compare(commit: str, rounds: int) -> dict[str, Any]:
    """Return what both versions took in each round; they take turns."""
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as before:
        archive = subprocess.run(["git", "-C", str(here), "archive", commit], check=True, capture_output=True)
        subprocess.run(["tar", "--extract", "--directory", before], input=archive.stdout, check=True)
        folders = {"before": Path(before), "after": here}
        values: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in folders}
        for number in range(rounds):
            for name, folder in list(folders.items())[:: 1 if number % 2 else -1]:
                values[name].append(_run(folder))
    return values


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tls_relay", description=__doc__)
    parser.add_argument("commit", nargs="?", default="HEAD~1")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--once", action="store_true", help="measure the code that is on the path")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(trio.run(measure)))
        return 0
    from tools import recorded, tls_table  # noqa: PLC0415 - the code of a commit before has no such table

    entry = {
        **recorded.of_code(Path(__file__).parent),
        "base": options.commit,
        "openssl": ssl.OPENSSL_VERSION,
        "load": round(os.getloadavg()[0], 1),
        "command": shlex.join(["python", "-m", "benchmarks.tls_relay", *sys.argv[1:]]),
        **compare(options.commit, options.rounds),
    }
    if options.record:
        tls_table.RUNS.keep(entry)
    print(tls_table.table(entry))
    return 0


if __name__ == "__main__":
    sys.exit(main())
