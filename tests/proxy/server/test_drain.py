"""The drain of a process that has to stop: at which pace connections close, and when those that are busy are cut."""

import trio

from proxy.config.schema import Drain
from proxy.transport.tcp_stream import TcpStream
from tests.proxy.fakes import messages, wire
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
