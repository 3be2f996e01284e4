"""No task dies in silence: a mistake in one connection, or beside the connections, is told and the others go on."""

import time

import structlog
import trio

from proxy.config.schema import Limits
from proxy.metrics.periodic import run_periodically
from proxy.metrics.registry import Metrics
from proxy.runtime.time_slice import SLICE_S
from proxy.server.connection_manager import ConnectionManager
from proxy.server.connection_progress import ConnectionProgress
from tests.proxy.fakes import messages
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.serving import config_for, serving


async def test_a_failing_job_is_logged_each_time_and_run_again(autojump_clock):
    metrics, times = Metrics(), []

    def work() -> None:
        times.append(trio.current_time())
        if len(times) < 3:
            raise ValueError(f"time {len(times)}")

    with structlog.testing.capture_logs() as lines, trio.move_on_after(9.5):
        began = trio.current_time()
        await run_periodically(2.0, work, metrics)
    assert [when - began for when in times] == [2, 4, 6, 8]
    assert metrics.registry.get_sample_value("epochgate_internal_errors_total", {"where": "upkeep"}) == 2
    assert [str(line["exc_info"]) for line in lines] == ["time 1", "time 2"]


class Mistaken:
    """A stream that can't be written to because of a mistake, not because its peer is gone."""

    async def send_all(self, _data: bytes) -> None:
        raise RuntimeError("a mistake")


async def test_a_mistake_in_the_task_that_writes_ends_one_connection_and_is_told():
    with structlog.testing.capture_logs() as lines:
        async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
            other, unlucky = await connect(proxy.port()), await connect(proxy.port())
            assert await proxy.ask(other, messages.plain(1)) is not None
            assert await proxy.ask(unlucky, messages.plain(2)) is not None
            buffer = max(proxy.server._connections, key=lambda connection: connection.id)._shell.to_client
            buffer._send_nowait, buffer._stream = None, Mistaken()
            assert await proxy.ask(unlucky, messages.plain(3)) is None
            assert await proxy.ask(other, messages.plain(4)) is not None
            assert proxy.count("internal_errors_total", where="connection") == 1
            await other.aclose()
            await unlucky.aclose()
    assert [line["log_level"] for line in lines if line["event"] == "a connection failed"] == ["error"]


class Idle:
    """A connection that lives until it is looked at, whose look takes longer than a portion of work may."""

    is_serving = True

    def __init__(self, looked_at: list[str]) -> None:
        self._looked_at = looked_at

    async def run(self) -> None:
        await trio.sleep_forever()

    def progress(self) -> ConnectionProgress:
        self._looked_at.append("connection")
        started = time.perf_counter()
        while time.perf_counter() - started < SLICE_S:
            pass
        return ConnectionProgress(
            0, 0, 0, client_owes_rest=False, request_size=0, client_owes_reading=False, quiescent=True
        )


async def test_clients_have_their_turn_while_all_connections_are_looked_at(autojump_clock):
    connections, happened = ConnectionManager(Limits(), Metrics()), list[str]()

    async def a_client() -> None:
        await trio.sleep(1.0)
        for _ in range(3):
            happened.append("client")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(connections.serve, Idle(happened), "client-host")
        nursery.start_soon(connections.enforce_limits)
        nursery.start_soon(a_client)
        await trio.sleep(1.5)
        nursery.cancel_scope.cancel()
    assert happened.count("connection") == 10
    last_of_client = len(happened) - 1 - happened[::-1].index("client")
    assert happened[last_of_client:].count("connection") > 5
