"""The drain of a process that has to stop: at which pace connections close, and when those that are busy are cut."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from proxy.config.schema import Drain, Limits
from proxy.connection.connection_manager import ConnectionManager
from proxy.server.drain import close_connections
from proxy.transport.tcp_stream import TcpStream
from tests.proxy.fakes import messages, share, wire
from tests.proxy.fakes.bench import Bench, a_bench
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.serving import config_for, serving


async def test_a_drain_closes_one_after_another():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        streams = [await connect(proxy.port()) for _ in range(20)]
        for n, stream in enumerate(streams):
            assert await proxy.ask(stream, messages.plain(n)) is not None
        ends: list[float] = []

        async def watch(stream: TcpStream) -> None:
            assert await wire.FrameReader(stream).frame() is None
            ends.append(trio.current_time())
            await stream.aclose()

        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(watch, stream)
            proxy.server.stop()
        assert max(ends) - min(ends) >= 19 / 200 * 0.9


async def test_a_drain_does_not_wait_longer_than_its_grace():
    async with a_cluster(1) as brokers, serving(config_for(brokers, drain=Drain(grace_s=0.1))) as proxy:
        brokers[1].holds_back = trio.Event()
        client = await connect(proxy.port(1))
        await client.send_all(messages.plain(1))
        await brokers[1].got(messages.plain(1))
        proxy.server.stop()
        with trio.fail_after(3):
            assert await wire.FrameReader(client).frame() is None
        await client.aclose()


GRACE_S = 10.0


@asynccontextmanager
async def a_drain_with_locked_records(*, fetching: bool = False) -> AsyncIterator[Bench]:
    """A connection whose client has locked records while the process drains; or has none, and waits for some."""
    connections: list[ConnectionManager] = []

    async def registered(bench: Bench) -> None:
        connections.append(ConnectionManager(Limits(), bench.metrics))
        await connections[0].serve(bench.connection, "client-host")

    async with a_bench(run=registered) as bench, trio.open_nursery() as nursery:
        await bench.acquire_records()
        if fetching:
            await bench.exchange(share.acknowledge(2, 1, range(10)), share.acknowledged(2))
            await bench.client.send_all(share.fetch(3, 2))
            assert await bench.at_broker.frame() == share.fetch(3, 2)
        nursery.start_soon(close_connections, connections[0], GRACE_S)
        await trio.testing.wait_all_tasks_blocked()
        yield bench


async def test_a_drain_lets_a_share_consumer_acknowledge_what_is_locked(autojump_clock):
    async with a_drain_with_locked_records() as bench:
        await trio.sleep(3)
        await bench.exchange(share.acknowledge(2, 1, range(4)), share.acknowledged(2))
        await bench.exchange(share.acknowledge(3, 2, range(4, 10)), share.acknowledged(3))
        assert await bench.from_proxy.frame() is None
        assert trio.current_time() == pytest.approx(3, abs=0.5)
        await bench.client.aclose()
        await bench.broker.aclose()
    assert bench.count("client_to_proxy_disconnects_total", cause="drain") == 1
    assert not bench.count("share_sessions_cut_total", cause="drain")


async def test_a_drain_lets_a_share_consumer_acknowledge_what_the_fetch_under_way_brings(autojump_clock):
    async with a_drain_with_locked_records(fetching=True) as bench:
        await bench.broker.send_all(share.fetched(3, range(10, 20)))
        assert await bench.from_proxy.frame() == share.fetched(3, range(10, 20))
        await bench.exchange(share.acknowledge(4, 3, range(10, 20)), share.acknowledged(4))
        assert await bench.from_proxy.frame() is None
        await bench.client.aclose()
        await bench.broker.aclose()
    assert not bench.count("share_sessions_cut_total", cause="drain")


async def test_a_drain_cuts_a_share_session_in_time_to_count_it(autojump_clock):
    async with a_drain_with_locked_records() as bench:
        assert await bench.from_proxy.frame() is None
        assert trio.current_time() == pytest.approx(0.8 * GRACE_S, abs=0.5)
        await bench.client.aclose()
        await bench.broker.aclose()
    assert bench.count("share_sessions_cut_total", cause="drain") == 1
