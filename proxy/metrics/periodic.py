"""Runs what goes on beside the clients, and again after an error (``epochgate_internal_errors_total``): enforcing
limits, forgetting silent members, polling brokers about groups.

None of it may end the process that serves clients, whatever it reads: an error is a bug here, and it goes on after it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

import structlog
import trio

from proxy.metrics.registry import Metrics

AGAIN_S = 1.0
LONGEST_PAUSE_S = 60.0
_LASTED_S = 60.0
"""After a run of this length the next pause is the first one again."""

Ts = TypeVarTuple("Ts")

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.metrics.periodic")


async def run_periodically(
    interval_s: float, job: Callable[[], Awaitable[None] | None], metrics: Metrics
) -> None:
    """Run a job for ever, each time ``interval_s`` seconds after the last run ended.

    An exception is logged and counted (``internal_errors``), and the job runs again at the next interval: a bug in it
    must not end the process that serves clients.
    """
    while True:
        await trio.sleep(interval_s)
        try:
            if (awaitable := job()) is not None:
                await awaitable
        except Exception as error:  # noqa: BLE001  any bug in the job
            metrics.internal_errors.labels("upkeep").inc()
            _log.error("a periodic job failed", job=job.__qualname__, exc_info=error)


async def keep_running(run: Callable[[*Ts], Awaitable[None]], metrics: Metrics, *arguments: *Ts) -> None:
    """Run what ends only when it is cancelled; after an exception once more, as in :func:`run_periodically`.

    Between two runs it pauses for a second, and twice as long after each that did not last.
    """
    pause_s = AGAIN_S
    while True:
        began = trio.current_time()
        try:
            await run(*arguments)
        except Exception as error:  # noqa: BLE001  any bug in it
            metrics.internal_errors.labels("upkeep").inc()
            _log.error("a background task failed", task=run.__qualname__, exc_info=error)
        else:
            return
        if trio.current_time() - began >= _LASTED_S:
            pause_s = AGAIN_S
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
