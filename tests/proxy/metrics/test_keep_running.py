"""A task that runs beside the clients begins again after an error, less and less often."""

import itertools

import trio

from proxy.metrics.periodic import AGAIN_S, LONGEST_PAUSE_S, keep_running
from proxy.metrics.registry import Metrics


def errors(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("epochgate_internal_errors_total", {"where": "upkeep"})


async def test_a_task_with_a_bug_begins_again_and_ends_nothing_else(autojump_clock, nursery):
    metrics, began = Metrics(), list[float]()

    async def fails() -> None:
        began.append(trio.current_time())
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            raise RecursionError("what somebody has sent")

    nursery.start_soon(keep_running, fails, metrics)
    await trio.sleep(1000)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(began)]
    assert pauses[:8] == [AGAIN_S, 2, 4, 8, 16, 32, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert errors(metrics) == len(began)


async def test_a_task_that_lasted_begins_again_soon(autojump_clock, nursery):
    began: list[float] = []

    async def fails_late() -> None:
        began.append(trio.current_time())
        await trio.sleep(100)
        raise ValueError

    nursery.start_soon(keep_running, fails_late, Metrics())
    await trio.sleep(400)
    assert [round(one) for one in began] == [round(began[0]) + number * 101 for number in range(len(began))]
    assert len(began) == 4
