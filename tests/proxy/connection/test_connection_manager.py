"""Each limit of a connection: what is closed, with which cause, and what is not. Time is virtual."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from proxy.config.schema import Limits
from proxy.connection.connection_manager import ConnectionManager
from proxy.connection.connection_progress import ConnectionProgress
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.metrics.registry import Metrics
from proxy.runtime.time_slice import SLICE_S
from proxy.wire.frame_splitter import STREAM_ABOVE
from tests.proxy.fakes import messages, share, wire
from tests.proxy.fakes.bench import Bench, a_bench

SOME = Limits(request_timeout_s=60, idle_timeout_s=600)


class WatchedConnection:
    """A bench whose connection is in the registry, as in a process."""

    def __init__(self, bench: Bench, connections: ConnectionManager) -> None:
        self.bench = bench
        self.connections = connections

    @property
    def cause(self) -> DisconnectCause | None:
        return self.bench.connection._ending.cause

    def ended_by(self, cause: str) -> bool:
        return self.bench.count("client_to_proxy_disconnects_total", cause=cause) == 1


@asynccontextmanager
async def a_watched_connection(limits: Limits = SOME) -> AsyncIterator[WatchedConnection]:
    connections: list[ConnectionManager] = []

    async def registered(bench: Bench) -> None:
        connections.append(ConnectionManager(limits, bench.metrics))
        await connections[0].serve(bench.connection, "client-host")

    async with a_bench(limits=limits, run=registered) as bench, trio.open_nursery() as nursery:
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(connections[0].enforce_limits)
        yield WatchedConnection(bench, connections[0])
        nursery.cancel_scope.cancel()


async def send_slowly(stream: trio.abc.SendStream, data: bytes) -> None:
    """A byte a second."""
    for n in range(len(data)):
        await stream.send_all(data[n : n + 1])
        await trio.sleep(1)


async def ask(bench: Bench, n: int) -> None:
    await bench.client.send_all(messages.plain(n))
    assert await bench.at_broker.frame() == messages.plain(n)
    response = wire.response(20, 0, n, bytes(4))
    await bench.broker.send_all(response)
    assert await bench.from_proxy.frame() == response


# -- idle ----------------------------------------------------------------------------------------------------


async def test_a_connection_without_traffic_is_closed(autojump_clock):
    async with a_watched_connection() as activity:
        await ask(activity.bench, 1)
        await trio.sleep(590)
        assert activity.cause is None
        await ask(activity.bench, 2)
        await trio.sleep(590)
        assert activity.cause is None
        await trio.sleep(15)
        assert activity.ended_by("idle")


async def test_a_connection_with_records_locked_in_its_share_session_is_not_idle(autojump_clock):
    """A lock may be longer than the idle timeout (`group.share.record.lock.duration.ms`)."""
    async with a_watched_connection() as activity:
        await activity.bench.acquire_records()
        await trio.sleep(700)
        assert activity.cause is None
        activity.bench.ahead_s = share.LOCK_S
        await trio.sleep(2)
        assert activity.ended_by("idle")


async def test_a_connection_that_waits_for_the_broker_is_not_idle(autojump_clock):
    async with a_watched_connection() as activity:
        await activity.bench.client.send_all(messages.plain(1))
        await trio.sleep(2000)
        assert activity.cause is None


async def test_a_client_that_never_reads_is_closed(autojump_clock):
    async with a_watched_connection() as activity:
        await ask(activity.bench, 0)
        activity.bench.stall_client()
        await activity.bench.client.send_all(messages.plain(1))
        await activity.bench.at_broker.frame()
        await activity.bench.broker.send_all(wire.response(20, 0, 1, bytes(STREAM_ABOVE // 2)))
        await trio.sleep(590)
        assert activity.cause is None
        await trio.sleep(20)
        assert activity.cause is DisconnectCause.CLIENT_STALLED


# -- slow requests -------------------------------------------------------------------------------------------


async def test_a_client_that_sends_a_byte_a_second_is_closed(autojump_clock):
    async with a_watched_connection() as activity:
        await ask(activity.bench, 0)
        started = trio.current_time()
        request = messages.plain(1, padding=200)
        with pytest.raises(trio.BrokenResourceError):
            await send_slowly(activity.bench.client, request)
        assert 60 <= trio.current_time() - started <= 66
        assert activity.ended_by("slow_request")


async def test_slow_bytes_before_the_first_request_end_with_its_time(autojump_clock):
    async with a_watched_connection() as activity:
        request = messages.plain(1, padding=200)
        with pytest.raises(trio.BrokenResourceError):
            await send_slowly(activity.bench.client, request)
        assert trio.current_time() <= 36
        assert activity.ended_by("idle_timeout")


async def test_a_large_request_has_time_by_its_size(autojump_clock):
    async with a_watched_connection() as activity:
        await ask(activity.bench, 0)
        started = trio.current_time()
        request = messages.produce(1, acks=1, size=4 * 1024 * 1024)
        await activity.bench.client.send_all(request[: 2 * STREAM_ABOVE])
        await trio.sleep(239)
        assert activity.cause is None
        await trio.sleep(10)
        assert activity.ended_by("slow_request")
        assert trio.current_time() - started > 240


async def test_requests_that_wait_for_an_earlier_one_are_not_slow(autojump_clock):
    async with a_watched_connection() as activity:
        bench = activity.bench
        await bench.negotiate()
        bench.translator.on_request = lambda _request: []
        await bench.client.send_all(messages.heartbeat(1) + messages.plain(2)[:10])
        await trio.sleep(2000)
        assert activity.cause is None


# -- age -----------------------------------------------------------------------------------------------------


async def test_an_old_connection_is_closed_when_it_is_at_rest(autojump_clock):
    async with a_watched_connection(Limits(connection_max_age_s=100)) as activity:
        await ask(activity.bench, 1)
        await activity.bench.client.send_all(messages.plain(2))
        await activity.bench.at_broker.frame()
        await trio.sleep(102)
        assert activity.cause is None, "a request is under way"
        await activity.bench.broker.send_all(wire.response(20, 0, 2, bytes(4)))
        assert await activity.bench.from_proxy.frame() is not None
        assert await activity.bench.from_proxy.frame() is None
        assert activity.cause is DisconnectCause.AGE


async def test_an_old_connection_stays_while_a_member_on_it_is_unsettled(autojump_clock):
    async with a_watched_connection(Limits(connection_max_age_s=100)) as activity:
        bench = activity.bench
        await bench.negotiate()
        await bench.client.send_all(messages.heartbeat(1))
        await bench.at_broker.frame()
        await bench.broker.send_all(wire.response(12, 3, 1, bytes(6)))
        await bench.from_proxy.frame()
        bench.translator.is_settled = False
        await trio.sleep(200)
        assert activity.cause is None
        bench.translator.is_settled = True
        await trio.sleep(2)
        assert activity.cause is DisconnectCause.AGE


async def test_an_old_connection_stays_while_records_are_locked_in_its_share_session(autojump_clock):
    async with a_watched_connection(Limits(connection_max_age_s=100)) as activity:
        await activity.bench.acquire_records()
        await trio.sleep(200)
        assert activity.cause is None
        await activity.bench.exchange(share.acknowledge(2, 1, range(10)), share.acknowledged(2))
        assert await activity.bench.from_proxy.frame() is None
        assert activity.cause is DisconnectCause.AGE
        assert not activity.bench.count("share_sessions_cut_total", cause="age")


async def test_an_old_connection_is_closed_when_the_locks_in_its_share_session_have_ended(autojump_clock):
    async with a_watched_connection(Limits(connection_max_age_s=100)) as activity:
        await activity.bench.acquire_records()
        await trio.sleep(200)
        activity.bench.ahead_s = share.LOCK_S
        await trio.sleep(2)
        assert activity.cause is DisconnectCause.AGE


async def test_ages_differ(autojump_clock):
    ends = []
    for _ in range(5):
        async with a_watched_connection(Limits(connection_max_age_s=1000, idle_timeout_s=1e6)) as activity:
            started = trio.current_time()
            await ask(activity.bench, 1)
            assert await activity.bench.from_proxy.frame() is None
            ends.append(trio.current_time() - started)
    assert all(799 <= end <= 1002 for end in ends)
    assert len(set(ends)) > 1


async def test_without_a_maximum_age_connections_stay(autojump_clock):
    async with a_watched_connection(Limits(idle_timeout_s=1e9)) as activity:
        await ask(activity.bench, 1)
        await trio.sleep(5000)
        assert activity.cause is None


class Idle:
    """A connection that lives until it is looked at, whose look takes longer than a portion of work may."""

    is_serving = True

    def __init__(self, looked_at: list[str]) -> None:
        self._looked_at = looked_at

    async def run(self) -> None:
        await trio.sleep_forever()

    def progress(self) -> ConnectionProgress:
        self._looked_at.append("connection")
        started = time.perf_counter()
        while time.perf_counter() - started < SLICE_S:
            pass
        return ConnectionProgress(
            0, 0, 0, client_owes_rest=False, request_size=0, client_owes_reading=False, quiescent=True
        )


async def test_clients_have_their_turn_while_all_connections_are_looked_at(autojump_clock):
    connections, happened = ConnectionManager(Limits(), Metrics()), list[str]()

    async def a_client() -> None:
        await trio.sleep(1.0)
        for _ in range(3):
            happened.append("client")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(connections.serve, Idle(happened), "client-host")
        nursery.start_soon(connections.enforce_limits)
        nursery.start_soon(a_client)
        await trio.sleep(1.5)
        nursery.cancel_scope.cancel()
    assert happened.count("connection") == 10
    last_of_client = len(happened) - 1 - happened[::-1].index("client")
    assert happened[last_of_client:].count("connection") > 5
