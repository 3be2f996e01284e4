"""Runs periodic jobs beside the clients: enforcing limits, forgetting silent members, polling brokers about groups."""

from collections.abc import Awaitable, Callable

import structlog
import trio

from proxy.metrics.registry import Metrics

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
