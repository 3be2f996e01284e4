"""A real supervisor with real workers, for tests."""

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from proxy.config.schema import Config
from proxy.transport.tcp_stream import TcpStream
from proxy.workers.affinity import worker_of
from proxy.workers.supervisor import Supervisor
from tests.proxy.fakes.serving import Running
from translation.policy.policy import Policy

CLIENT_IDS = ("", "a-client")
"""Those of the requests in tests."""
TWO_HOSTS = tuple(
    next(
        host
        for host in (f"127.0.0.{n}" for n in range(2, 20))
        if all(worker_of(host, 2, client_id) == worker for client_id in CLIENT_IDS)
    )
    for worker in (0, 1)
)
"""An address of each of two workers."""


class Supervised(Running):
    """A supervisor that serves."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.server = supervisor  # what Running needs of a server

    async def connect(self, host: str) -> TcpStream:
        return TcpStream(socket.create_connection(("127.0.0.1", self.port()), source_address=(host, 0)))

    async def reconnect(self, host: str, request: bytes) -> tuple[TcpStream, bytes]:
        """Connect until somebody answers, as clients do: what a dying worker was handed is lost with it."""
        with trio.fail_after(30):
            while True:
                stream = await self.connect(host)
                if (answer := await self.ask(stream, request)) is not None:
                    return stream, answer
                await stream.aclose()

    def pid_of(self, worker: int) -> int:
        return self.server._workers[worker]._process.pid

    async def value(self, name: str, **labels: str) -> float:
        """A value of /metrics."""
        wanted = "".join(f'{key}="{value}",' for key, value in labels.items()).rstrip(",")
        _, text = await self.get("/metrics")
        series = re.escape(f"epochgate_{name}" + (f"{{{wanted}}}" if wanted else ""))
        found = re.search(rf"^{series} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0


@asynccontextmanager
async def supervising(config: Config, policy: Policy | None = None) -> AsyncIterator[Supervised]:
    supervisor = Supervisor(config, policy or Policy(), Path())
    async with trio.open_nursery() as nursery:
        with trio.fail_after(60):
            await nursery.start(supervisor.run)
        yield Supervised(supervisor)
        supervisor.stop()


async def until(condition) -> None:
    """Wait until an awaitable condition holds."""
    with trio.fail_after(30):
        while not await condition():  # noqa: ASYNC110  what other processes do tells no event
            await trio.sleep(0.05)
