"""A server of this process in front of scripted brokers, on free ports."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from proxy.config.schema import Admin, Config, Drain, Listener, Upstream
from proxy.server.server import Server
from tests.proxy.fakes import wire
from tests.proxy.fakes.broker import FakeBroker, connect
from tests.proxy.fakes.translators import Scripted

PATIENCE_S = 60.0
"""For brokers that are there: nothing waits for so long."""


def config_for(
    brokers: dict[int, FakeBroker], *bootstrap: int, startup_timeout_s: float | None = None, **sections
) -> Config:
    """Gives up at once if there are no brokers, unless it is told how long to look for them."""
    nodes = next(iter(brokers.values())).nodes if brokers else {}
    addresses = tuple(f"{host}:{port}" for host, port in (nodes[n] for n in bootstrap or nodes))
    listener = Listener(bind="127.0.0.1", port=0, advertised_host="127.0.0.1", nodes={"0-3": 0})
    if startup_timeout_s is None:
        startup_timeout_s = PATIENCE_S if addresses else 0.5
    upstream = Upstream(bootstrap=addresses or ("127.0.0.1:1",), startup_timeout_s=startup_timeout_s)
    return Config(
        **{
            "upstream": upstream,
            "listeners": (listener,),
            "admin": Admin(port=0),
            "drain": Drain(grace_s=5.0),
        }
        | sections
    )


class Running:
    """A server that serves; ``port`` gives the port of a node id, or the bootstrap port."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def port(self, node_id: int | None = None, listener: int = 0) -> int:
        bound = self.server.ports.listeners[listener]
        return bound.ports[node_id].number

    async def ask(self, stream: trio.abc.Stream, request: bytes) -> bytes | None:
        await stream.send_all(request)
        return await wire.FrameReader(stream).frame()

    async def get(self, path: str) -> tuple[int, str]:
        """An HTTP request to the admin port: status and body."""
        async with await connect(self.server.ports.admin) as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while more := await stream.receive_some():
                data += more
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def count(self, name: str, **labels: str) -> float:
        return self.server.metrics.registry.get_sample_value(f"epochgate_{name}", labels) or 0.0


@asynccontextmanager
async def serving(config: Config, translator: Scripted | None = None) -> AsyncIterator[Running]:
    server = Server(config, translator or Scripted())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield Running(server)
        server.stop()
