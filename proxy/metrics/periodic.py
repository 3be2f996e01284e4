"""What a process does beside its clients, again and again: look at limits, forget who is silent, ask about groups.

A mistake in such work must not end the process that serves clients, and must not end the work in silence either: it
is counted and logged each time, and the next time is tried again.
"""

from collections.abc import Awaitable, Callable

import structlog
import trio

from proxy.metrics.registry import Metrics

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.metrics.periodic")


async def every(seconds: float, work: Callable[[], Awaitable[None] | None], metrics: Metrics) -> None:
    """Do this work for ever, with so many seconds before each time."""
    while True:
        await trio.sleep(seconds)
        try:
            if (rest := work()) is not None:
                await rest
        except Exception as error:  # noqa: BLE001  see the module
            metrics.internal_errors.labels("upkeep").inc()
            _log.error("work beside the clients failed", work=work.__qualname__, exc_info=error)
