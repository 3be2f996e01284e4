"""A scan of the one port of all nodes, by clients that are wrong or hostile in every way that `Hostile` has."""

import gc
from pathlib import Path

import pytest
import trio

from proxy.config.schema import Limits
from proxy.transport.tls_stream import TlsStream
from tests.proxy.fakes.broker import FakeBroker
from tests.proxy.fakes.certificates import Authority
from tests.proxy.fakes.hellos import Hostile
from tests.proxy.fakes.serving import Running
from tests.proxy.transport.test_server_names import BOOTSTRAP, name_of, node_that_answers, one_port

AT_ONCE = 16
_PAGE = 4096
_ALLOWED_GROWTH = 4 * 1024 * 1024


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


async def scan(proxy: Running, clients: Hostile, count: int) -> None:
    """So many clients, some at once; each sends what it has, and reads until the proxy closes."""
    left = count

    async def some() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            stream = await trio.open_tcp_stream("127.0.0.1", proxy.port())
            try:
                for piece in clients.next():
                    await stream.send_all(piece)
                await stream.send_eof()
                while await stream.receive_some():
                    pass
            except trio.BrokenResourceError:
                pass  # the proxy closed before it had read everything
            finally:
                await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(some)
    with trio.fail_after(10):
        await proxy.server._parts.connections.wait_until_none()


def dials(proxy: Running) -> float:
    """Attempts to connect to brokers."""
    (family,) = [
        one
        for one in proxy.server.metrics.registry.collect()
        if one.name == "epochgate_proxy_to_server_connections"
    ]
    return sum(one.value for one in family.samples if one.name.endswith("_total"))


def connections(brokers: dict[int, FakeBroker]) -> int:
    return sum(broker.connections for broker in brokers.values())


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
async def test_hostile_hellos_reach_no_broker_and_take_no_memory(authority: Authority, count: int) -> None:
    names = [BOOTSTRAP, name_of(1), name_of(2)]
    async with one_port(authority, 1, 2, limits=Limits(max_connections_per_address=1000)) as (brokers, proxy):
        before = connections(brokers), dials(proxy)
        clients = Hostile(names, seed=7)
        await scan(proxy, clients, count // 5)
        gc.collect()
        begun_with = resident_bytes()
        await scan(proxy, clients, count - count // 5)
        gc.collect()
        growth = resident_bytes() - begun_with
        assert (connections(brokers), dials(proxy)) == before, "nothing was dialed"
        assert proxy.count("client_to_proxy_errors_total", kind="unknown_name") > count / 10
        assert proxy.count("internal_errors_total", where="connection") == 0
        assert [one for one in gc.get_objects() if isinstance(one, TlsStream)] == []
        assert growth < _ALLOWED_GROWTH
        assert await node_that_answers(proxy, brokers, authority.client_context(), name_of(2), 1) == 2
