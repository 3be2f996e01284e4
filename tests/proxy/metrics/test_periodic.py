"""A periodic job that fails is logged, counted, and run again at the next interval."""

import structlog
import trio

from proxy.metrics.periodic import run_periodically
from proxy.metrics.registry import Metrics


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
