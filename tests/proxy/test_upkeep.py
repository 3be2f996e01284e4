"""No task dies in silence: a mistake in one connection, or beside the connections, is told and the others go on."""

import structlog
import trio
from fakes import messages
from fakes.broker import a_cluster, connect
from fakes.serving import config_for, serving

from proxy.metrics import Metrics
from proxy.upkeep import every


async def test_work_that_fails_is_told_each_time_and_done_again(autojump_clock):
    metrics, times = Metrics(), []

    def work() -> None:
        times.append(trio.current_time())
        if len(times) < 3:
            raise ValueError(f"time {len(times)}")

    with structlog.testing.capture_logs() as lines, trio.move_on_after(9.5):
        began = trio.current_time()
        await every(2.0, work, metrics)
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
            outbox = max(proxy.server._connections, key=lambda connection: connection.id)._to_client
            outbox._send_nowait, outbox._stream = None, Mistaken()
            assert await proxy.ask(unlucky, messages.plain(3)) is None
            assert await proxy.ask(other, messages.plain(4)) is not None
            assert proxy.count("internal_errors_total", where="connection") == 1
            await other.aclose()
            await unlucky.aclose()
    assert [line["log_level"] for line in lines if line["event"] == "a connection failed"] == ["error"]
