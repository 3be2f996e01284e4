"""The client id of a connection, read from its first request before a worker is chosen."""

import socket
import struct
from functools import partial

import pytest
import trio
import trio.testing

from proxy.metrics.registry import Metrics
from proxy.transport.first_requests import TIMEOUT_S, FirstRequests
from proxy.transport.proxied_port import PendingHeaders
from tests.proxy.fakes import messages


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def read(requests: FirstRequests, connection: socket.socket) -> str:
    found: list[str] = []
    await requests.read(connection, found.append)
    return found[0]


CLIENT_ID = "payments-1"
REQUEST = messages.produce(1, acks=1, client_id=CLIENT_ID)


async def test_the_client_id_is_read_and_not_a_byte_is_taken(pair):
    ours, theirs = pair
    theirs.sendall(REQUEST)
    assert await read(FirstRequests(Metrics()), ours) == CLIENT_ID
    assert ours.recv(len(REQUEST)) == REQUEST


async def test_a_request_that_comes_later_is_waited_for(pair, autojump_clock):
    ours, theirs = pair
    async with trio.open_nursery() as nursery:
        found: list[str] = []
        nursery.start_soon(FirstRequests(Metrics()).read, ours, found.append)
        await trio.sleep(TIMEOUT_S / 2)
        assert found == []
        theirs.sendall(REQUEST)
    assert found == [CLIENT_ID]


@pytest.mark.parametrize(
    "beginning",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(32)),
        REQUEST[:12],
        struct.pack(">ihhih", 2000, 0, 9, 1, 1500) + b"c" * 1500,
        messages.produce(1, acks=1, client_id=None),
    ],
    ids=["TLS", "incomplete", "longer than is read", "null"],
)
async def test_what_has_no_client_id_to_read_is_handed_over_at_once(pair, beginning):
    ours, theirs = pair
    theirs.sendall(beginning)
    assert await read(FirstRequests(Metrics()), ours) == ""


async def test_a_connection_that_ends_without_a_byte_is_handed_over(pair):
    ours, theirs = pair
    theirs.close()
    assert await read(FirstRequests(Metrics()), ours) == ""


async def test_a_silent_connection_is_handed_over_after_the_timeout(pair, autojump_clock):
    began = trio.current_time()
    assert await read(FirstRequests(Metrics()), pair[0]) == ""
    assert trio.current_time() - began == TIMEOUT_S


async def test_one_too_many_ends_the_wait_of_the_oldest(pair, autojump_clock):
    requests, oldest = FirstRequests(Metrics()), pair[0]
    requests._pending = PendingHeaders(limit=1)
    newer, silent = socket.socketpair()
    with newer, silent:
        ended: dict[str, float] = {}

        async def wait(name: str, connection: socket.socket) -> None:
            assert await read(requests, connection) == ""
            ended[name] = trio.current_time()

        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            nursery.start_soon(wait, "oldest", oldest)
            await trio.sleep(TIMEOUT_S / 4)
            nursery.start_soon(wait, "newer", newer)
        assert ended == {"oldest": began + TIMEOUT_S / 4, "newer": began + 1.25 * TIMEOUT_S}


async def test_a_connection_whose_request_is_waited_for_is_closed_when_the_supervisor_drains(pair):
    ours, _ = pair
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(FirstRequests(Metrics()).read, ours, lambda _: pytest.fail("handed over")))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert ours.fileno() == -1
