"""The supervisor starts a worker again, also when the system refuses it a process."""

import errno
from typing import Any
from unittest.mock import Mock

import pytest
import structlog
import trio

from proxy.metrics.registry import Metrics
from proxy.server.process import StartError
from proxy.workers.worker_process import WorkerHandle
from proxy.workers.worker_restart import keep_running


async def test_a_worker_process_that_can_not_be_started_is_tried_again(monkeypatch, autojump_clock):
    metrics, attempts = Metrics(), 0

    async def no_more_processes(*_: Any, **__: Any) -> trio.Process:
        nonlocal attempts
        attempts += 1
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(trio.lowlevel, "open_process", no_more_processes)
    worker = WorkerHandle(0, Mock(), metrics, on_ports_changed=Mock(), on_exit=Mock())
    with pytest.raises(StartError, match="worker 0 could not be started: Resource temporarily unavailable"):
        await keep_running(worker, metrics)
    worker.has_served.set()  # as after a process that has served
    with structlog.testing.capture_logs() as lines, trio.move_on_after(60):
        await keep_running(worker, metrics)
    assert attempts > 4
    assert {line["reason"] for line in lines} == {"could not be started: Resource temporarily unavailable"}
