"""One connection of the proxy between a client and a broker that the test plays, over streams in memory."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio
import trio.testing

from protocol_codecs import ApiKey
from proxy.config.schema import Address, Limits
from proxy.connection.client_connection import ClientConnection
from proxy.connection.connection_deps import ConnectionDeps, Identify
from proxy.connection.share_session_cuts import ShareSessionCuts
from proxy.connection.translator_driver import TranslatorDriver
from proxy.groups.event_dispatcher import EventDispatcher
from proxy.metrics.counters import HotCounter
from proxy.metrics.registry import Metrics
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.listener import Listener
from proxy.session.request_metrics import RequestMetrics
from proxy.transport.dialer import Dialed, UnreachableError
from proxy.transport.splice import PipePool
from proxy.wire.api_versions import ApiVersionsNegotiator
from tests.proxy.fakes import messages, share, wire
from tests.proxy.fakes.translators import Scripted
from translation.actions import ConnectionId
from translation.translator import Translator

Pair = Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]]
Run = Callable[["Bench"], Awaitable[None]]


class Bench:
    """``client`` and ``broker`` are the test's ends of the two connections."""

    def __init__(
        self,
        pair: Pair,
        limits: Limits,
        node_id: int | None,
        translator: Translator | None = None,
        held_calls: HeldCallsBudget | None = None,
        identify: Identify | None = None,
    ) -> None:
        self.metrics = Metrics()
        self.translator = Scripted()
        self.driver = TranslatorDriver(
            translator or self.translator,
            RequestMetrics(self.metrics),
            EventDispatcher(self.metrics).dispatch,
        )
        self.client, self.proxy_to_client = pair()
        self._proxy_to_broker, self.broker = pair()
        self.from_proxy = wire.FrameReader(self.client)
        self.at_broker = wire.FrameReader(self.broker)
        self.dialed: list[int | None] = []
        self.reachable = True
        self.unreachable: list[int | None] = []
        self.checked: list[int | None] = []
        self.ended = trio.Event()
        self.ahead_s = 0.0
        context = Listener(
            lambda node, _host, _port: Address("proxy", 9100 + node),
            ApiVersionsNegotiator(allow_unknown_apis=False),
            limits,
            RequestMetrics(self.metrics),
            lambda: time.perf_counter() + self.ahead_s,
            passes_through=self.driver.passes_through,
            held_calls=held_calls or HeldCallsBudget(limits.group_calls_held_max_bytes),
        )
        cuts = ShareSessionCuts(self.metrics)
        deps = ConnectionDeps(context, self, self, self.driver, PipePool(4), cuts, identify)
        self.connection = ClientConnection(
            ConnectionId(1), self.proxy_to_client, "client-host", node_id, deps
        )

    async def dial(self, node_id: int | None) -> Dialed:
        self.dialed.append(node_id)
        if not self.reachable:
            raise UnreachableError("kafka-0:9092: refused")
        return Dialed(self._proxy_to_broker, Address("kafka-0", 9092), assumed=False)

    def connect_failed(self, node_id: int | None, error: UnreachableError) -> None:
        self.unreachable.append(node_id)

    def read_counter(self, node_id: int | None) -> HotCounter:
        return HotCounter()

    async def probe(self, node_id: int | None) -> None:
        self.checked.append(node_id)

    async def run(self, run: Run | None = None) -> None:
        await (self.connection.run() if run is None else run(self))
        self.ended.set()

    def stall_client(self) -> None:
        """The client takes nothing any more of what is written to it."""

        async def never() -> None:
            await trio.sleep_forever()

        self.proxy_to_client.send_stream.send_all_hook = never

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"epochgate_{name}", labels) or 0.0

    async def negotiate(self, versions: dict[ApiKey, tuple[int, int]] = messages.BROKER_VERSIONS) -> None:
        """The client asks for the broker's versions."""
        await self.client.send_all(messages.ask_versions(0))
        assert await self.at_broker.frame() == messages.ask_versions(0)
        answer = messages.api_versions_response(versions)
        await self.broker.send_all(wire.response(ApiKey.API_VERSIONS, 3, 0, answer))
        assert wire.answered_id(await self.from_proxy.frame()) == 0

    async def exchange(self, request: bytes, response: bytes) -> None:
        """The client sends a request, and the broker answers it."""
        await self.client.send_all(request)
        assert await self.at_broker.frame() == request
        await self.broker.send_all(response)
        assert await self.from_proxy.frame() == response

    async def acquire_records(self) -> None:
        """The client opens a share session, in which ten records are locked."""
        await self.negotiate(share.VERSIONS)
        await self.exchange(share.fetch(1, 0), share.fetched(1, range(10)))


@asynccontextmanager
async def a_bench(
    pair: Pair = trio.testing.memory_stream_pair,
    limits: Limits | None = None,
    node_id: int | None = None,
    run: Run | None = None,
    translator: Translator | None = None,
    held_calls: HeldCallsBudget | None = None,
    identify: Identify | None = None,
) -> AsyncIterator[Bench]:
    """A running connection; it is ended with the block if it has not ended before.

    ``run`` runs it otherwise; ``translator`` is in the place of the scripted one. ``held_calls`` is the room that it
    shares with others.
    ``identify`` returns who speaks for the client at the broker.
    """
    bench = Bench(pair, limits or Limits(), node_id, translator, held_calls, identify)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.driver.run_timers)
        nursery.start_soon(bench.run, run)
        yield bench
        nursery.cancel_scope.cancel()
