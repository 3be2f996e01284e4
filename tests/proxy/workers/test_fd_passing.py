"""Connections on their way from the supervisor to a worker: the queue, and what is tried again."""

import errno
import os
import socket
from typing import Any

import pytest
import trio

from proxy.workers.control_messages import (
    HandoffHeader,
)
from proxy.workers.fd_passing import MAX_QUEUED, HandoffQueue


def test_a_full_handoff_queue_refuses_connections():
    queue = HandoffQueue()
    near, far = socket.socketpair()
    with near, far:
        added = sum(queue.add(HandoffHeader((0, None), "h"), near) for _ in range(MAX_QUEUED + 5))
        assert added == len(queue) == MAX_QUEUED
        queue.close()


@pytest.mark.parametrize("number", [errno.ETOOMANYREFS, errno.ENOBUFS])
async def test_a_handoff_that_fails_for_lack_of_resources_is_tried_again(monkeypatch, autojump_clock, number):
    send, failures = socket.send_fds, [OSError(number, "not now")]

    def send_later(*arguments: Any) -> int:
        if failures:
            raise failures.pop()
        return send(*arguments)

    monkeypatch.setattr(socket, "send_fds", send_later)
    queue = HandoffQueue()
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far, socket.socket() as connection:
        queue.add(HandoffHeader((0, None), "h"), connection)
        with trio.move_on_after(1):
            await queue.forward(near)
        data, descriptors, _, _ = socket.recv_fds(far, 4096, 1)
        os.close(*descriptors)
    assert data
    assert not len(queue)
