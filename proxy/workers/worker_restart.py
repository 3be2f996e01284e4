"""Restarts a worker whose process has crashed, with exponential backoff.

The first restart comes after at most 0.2 s, each further one after at most twice as long as the one before, up to 10 s.
A process that ran for a minute starts the count anew. A worker that ends before any process of it took clients is not
restarted: the configuration is to blame, and the whole proxy ends.
"""

import random

import structlog
import trio

from proxy.metrics.registry import Metrics
from proxy.server.process import StartError
from proxy.workers.worker_process import WorkerHandle

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

_MIN_BACKOFF_S = 0.2
_MAX_BACKOFF_S = 10.0
_STABLE_AFTER_S = 60.0


async def keep_running(worker: WorkerHandle, metrics: Metrics) -> None:
    """Keep a process of this worker running until the worker is drained or killed.

    :raises StartError: the first process ended before it was ready for clients.
    """
    backoff_s = _MIN_BACKOFF_S
    while True:
        began = trio.current_time()
        outcome = await worker.run_once()
        if worker.is_stopping():
            return
        if not worker.has_served.is_set():
            raise StartError(f"worker {worker.number} {outcome} before it took clients")
        if trio.current_time() - began > _STABLE_AFTER_S:
            backoff_s = _MIN_BACKOFF_S
        metrics.worker_restarts.labels(str(worker.number)).inc()
        _log.error("restarting a worker", worker=worker.number, reason=outcome)
        await trio.sleep(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311  jitter
        backoff_s = min(backoff_s * 2, _MAX_BACKOFF_S)
        if worker.is_stopping():
            return
