"""The supervisor starts a worker again, also when the system refuses it a process."""

import errno
import sys
from typing import Any
from unittest.mock import Mock

import pytest
import structlog
import trio

from proxy.metrics.registry import Metrics
from proxy.server.process import StartError
from proxy.workers.control_messages import Drop
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


async def test_a_message_to_a_process_that_has_just_ended_is_dropped(monkeypatch):
    """A reload that is given up does this while the process drains."""
    open_process, aclose = trio.lowlevel.open_process, trio.SocketStream.aclose
    closed = 0

    async def ends_after_its_first_message(*_: Any, pass_fds: tuple[int, int], **__: Any) -> trio.Process:
        control = pass_fds[0]
        program = f"import os; os.read({control}, 1)"
        return await open_process([sys.executable, "-S", "-c", program], pass_fds=pass_fds)

    async def send_and_close(stream: trio.SocketStream) -> None:
        nonlocal closed
        closed += 1
        worker.send(Drop())
        await aclose(stream)

    monkeypatch.setattr(trio.lowlevel, "open_process", ends_after_its_first_message)
    monkeypatch.setattr(trio.SocketStream, "aclose", send_and_close)
    worker = WorkerHandle(0, Mock(return_value=Drop()), Metrics(), on_ports_changed=Mock(), on_exit=Mock())

    assert await worker.run_once() == "ended with exit code 0"
    assert closed == 1
