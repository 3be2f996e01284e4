"""Large bodies move from socket to socket without becoming objects, whatever the peers do meanwhile."""

import os
import socket
import struct
from pathlib import Path

import pytest
import trio
import trio.testing

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from proxy.transport import splice
from proxy.transport.splice import SPLICE_MIN_BYTES, Pipe, PipePool, SpliceProgress, SpliceTransfer
from proxy.transport.tcp_stream import RECEIVE_SIZE, TcpStream, open_tcp
from proxy.transport.write_buffer import HIGH_WATER, WriteBuffer
from proxy.wire.frame_splitter import STREAM_ABOVE
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.bench import a_bench
from tests.proxy.fakes.talk import Talk, broker_sends, client_sends, negotiated, session, taken
from translation.actions import Call, CallId, ConnectionId

MEGABYTE = 1024 * 1024


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def low_water(stream: TcpStream) -> int:
    return stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


async def move(
    source: TcpStream, sink: TcpStream, count: int, pipe: Pipe, done: SpliceProgress, behind: int = 0
) -> None:
    transfer = SpliceTransfer(source, sink, count, pipe, done, behind)
    try:
        await transfer.finish()
    finally:
        transfer.end()


@pytest.fixture
async def tcp_pair(waiting, tcp_pair):
    return tcp_pair


async def read(stream: trio.abc.ReceiveStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await stream.receive_some(min(count - len(data), 65536))
        assert more, f"ended after {len(data)} of {count} bytes"
        data += more
    return data


# -- the session says what may be spliced --------------------------------------------------------------------


def test_the_rest_of_a_large_produce_request_may_be_moved():
    talk = negotiated(session())
    request = messages.produce(1, acks=1, size=MEGABYTE)
    head = request[: STREAM_ABOVE + 5]
    assert client_sends(talk, head) == head
    assert talk.passthrough_bytes() == len(request) - len(head)
    talk.spliced_upstream(1000)
    assert talk.passthrough_bytes() == len(request) - len(head) - 1000
    talk.spliced_upstream(len(request) - len(head) - 1000)
    assert talk.passthrough_bytes() == 0
    assert client_sends(talk, messages.plain(2)) == messages.plain(2)


def test_nothing_is_moved_of_a_request_that_is_decoded():
    talk = negotiated(session())
    talk.responses.trusted = True  # else it would be asked first whether the broker lets its sender in
    body = messages.heartbeat(1)[4:] + bytes(MEGABYTE // 2)
    assert client_sends(talk, (struct.pack(">i", len(body)) + body)[: 2 * STREAM_ABOVE]) == b""
    assert talk.passthrough_bytes() == 0


def test_a_request_of_the_proxy_waits_until_a_moved_one_is_complete():
    talk = negotiated(session())
    request = messages.produce(1, acks=1, size=MEGABYTE)
    client_sends(talk, request[:STREAM_ABOVE])
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    talk.call(Call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, message, "a-client", ConnectionId(1), CallId(1)))
    assert taken(talk.to_upstream) == b""
    talk.spliced_upstream(talk.passthrough_bytes())
    assert wire.api_of(taken(talk.to_upstream))[0] == ApiKey.CONSUMER_GROUP_HEARTBEAT


def large_response_has_begun(size: int = MEGABYTE) -> tuple[Talk, bytes]:
    talk = negotiated(session())
    client_sends(talk, messages.plain(1))
    response = wire.response(ApiKey.DELETE_RECORDS, 0, 1, bytes(size))
    assert broker_sends(talk, response[:2000]) == response[:2000]
    return talk, response


def test_the_rest_of_a_large_response_may_be_moved():
    talk, response = large_response_has_begun()
    assert talk.responses.passthrough_bytes() == len(response) - 2000
    talk.responses.spliced(len(response) - 2000)
    assert talk.responses.passthrough_bytes() == 0
    assert talk.idle


def test_records_may_be_moved_once_what_stands_before_them_has_come():
    talk = negotiated(session())
    client_sends(talk, wire.request(ApiKey.FETCH, 16, 1, b""))
    before, records, behind = messages.fetch_response(1, MEGABYTE)
    assert len(before) < 100  # Kafka writes it by itself
    assert broker_sends(talk, before) == before
    assert (talk.responses.passthrough_bytes(), talk.responses.trailing_bytes()) == (MEGABYTE, len(behind))
    talk.responses.spliced(len(records))
    assert talk.responses.passthrough_bytes() == 0
    assert broker_sends(talk, behind) == behind
    assert talk.idle


def test_nothing_is_moved_to_a_client_that_is_gone():
    talk, _ = large_response_has_begun()
    talk.client_closed()
    assert talk.responses.passthrough_bytes() == 0


# -- splicing --------------------------------------------------------------------------------------------------


async def test_a_move_brings_every_byte_in_order_and_leaves_the_next_ones(tcp_pair):
    source, far_source = tcp_pair()
    sink, far_sink = tcp_pair()
    data = os.urandom(3 * MEGABYTE)
    done, pipe = SpliceProgress(), Pipe()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(far_source.send_all, data + b"next")
        nursery.start_soon(move, source, sink, len(data), pipe, done)
        assert await read(far_sink, len(data)) == data
    assert (done.taken, done.ended, done.sink_broken, pipe.held) == (len(data), False, False, 0)
    assert low_water(source) == 1
    assert await source.receive_some() == b"next"
    pipe.close()


async def test_a_move_is_woken_for_the_last_bytes_with_those_behind_them_and_leaves_these(tcp_pair):
    source, far_source = tcp_pair()
    sink, far_sink = tcp_pair()
    done, pipe = SpliceProgress(), Pipe()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(move, source, sink, 1000, pipe, done, 3)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert low_water(source) == 1003
        await far_source.send_all(bytes(1000))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert done.taken == 0
        await far_source.send_all(b"end")
        assert await read(far_sink, 1000) == bytes(1000)
    assert await source.receive_some() == b"end"
    assert low_water(source) == 1
    pipe.close()


async def test_a_sink_that_does_not_read_stops_the_source(tcp_pair):
    source, far_source = tcp_pair()
    sink, _far_sink = tcp_pair()
    done, pipe = SpliceProgress(), Pipe()
    written = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(move, source, sink, 100 * MEGABYTE, pipe, done)
        while True:  # until nothing is taken any more, in any buffer on the way
            if (n := far_source.send_nowait(bytes(65536))) == 0:
                await trio.testing.wait_all_tasks_blocked(0.05)
                if (n := far_source.send_nowait(bytes(65536))) == 0:
                    break
            written += n
        assert written < 100 * MEGABYTE
        assert pipe.held <= splice.PIPE_SIZE
        nursery.cancel_scope.cancel()
    assert low_water(source) == 1
    pipe.close()


async def test_a_move_tells_what_it_took_when_a_side_ends(tcp_pair):
    source, far_source = tcp_pair()
    sink, far_sink = tcp_pair()
    done, pipe = SpliceProgress(), Pipe()
    await far_source.send_all(bytes(1000))
    await far_source.aclose()
    await move(source, sink, MEGABYTE, pipe, done)
    assert (done.taken, done.ended) == (1000, True)
    assert await read(far_sink, 1000) == bytes(1000)
    pipe.close()


def test_pipes_are_kept_for_the_next_body_and_a_dirty_one_is_not():
    pool = PipePool(2)
    before = descriptors()
    pipe = pool.borrow()
    pool.give_back(pipe)
    assert pool.borrow() is pipe
    pipe.held = 1
    pool.give_back(pipe)
    assert descriptors() == before
    pool.close()


def test_no_more_pipes_are_borrowed_than_there_may_be():
    pool = PipePool(1)
    pipe = pool.borrow()
    assert pool.borrow() is None
    pool.give_back(pipe)
    assert pool.borrow() is pipe
    pool.give_back(pipe)
    pool.close()


def test_without_descriptors_there_is_no_pipe(monkeypatch):
    def none_left(_flags: int) -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe2", none_left)
    assert PipePool(2).borrow() is None


# -- a whole connection over sockets -------------------------------------------------------------------------


@pytest.fixture
def moves(monkeypatch) -> list[int]:
    """How many bytes each move was asked for."""
    asked = []

    begin_splice = WriteBuffer.begin_splice

    def watched(buffer, source, count, pipe, behind):
        asked.append(count)
        return begin_splice(buffer, source, count, pipe, behind)

    monkeypatch.setattr(WriteBuffer, "begin_splice", watched)
    return asked


async def test_large_bodies_are_moved_both_ways(tcp_pair, moves):
    async with a_bench(tcp_pair) as bench:
        before = descriptors()
        await bench.negotiate()
        for n in range(1, 4):
            request = messages.produce(n, acks=1, size=MEGABYTE)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.client.send_all, request)
                assert await bench.at_broker.frame() == request
            response = wire.response(ApiKey.PRODUCE, 9, n, bytes(MEGABYTE))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.broker.send_all, response)
                assert await bench.from_proxy.frame() == response
        assert len(moves) >= 6
        assert min(moves) >= SPLICE_MIN_BYTES
        assert bench.count("request_duration_seconds_count", api_key="PRODUCE") == 3
        await bench.client.send_all(messages.plain(9))
        assert await bench.at_broker.frame() == messages.plain(9)
        bench.connection._deps.pipes.close()
        assert descriptors() == before


async def test_all_records_of_a_fetch_response_are_moved(tcp_pair, moves):
    async with a_bench(tcp_pair) as bench:
        await bench.negotiate()
        for n in (1, 2):
            await bench.client.send_all(wire.request(ApiKey.FETCH, 16, n, b""))
            await bench.at_broker.frame()
            before, records, behind = messages.fetch_response(n, MEGABYTE)
            async with trio.open_nursery() as nursery:
                await bench.broker.send_all(before)
                nursery.start_soon(bench.broker.send_all, records + behind)
                assert await bench.from_proxy.frame() == before + records + behind
        assert len(moves) == 2
        assert min(moves) >= MEGABYTE - RECEIVE_SIZE  # what stands before them may come with some of them


async def test_what_follows_a_body_at_once_is_read_behind_it(tcp_pair, moves):
    async with a_bench(tcp_pair) as bench:
        await bench.negotiate()
        requests = [messages.produce(n, acks=1, size=MEGABYTE) for n in (1, 2)]
        answers = [wire.response(ApiKey.PRODUCE, 9, n, bytes(MEGABYTE)) for n in (1, 2)]
        for source, whole, sink in (
            (bench.client, requests, bench.at_broker),
            (bench.broker, answers, bench.from_proxy),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(source.send_all, b"".join(whole))
                assert [await sink.frame(), await sink.frame()] == whole
        assert len(moves) >= 4


async def test_a_client_that_goes_in_the_middle_of_a_body_ends_its_connection_only(tcp_pair, moves):
    async with a_bench(tcp_pair) as bench:
        await bench.negotiate()
        await bench.client.send_all(messages.plain(1))
        assert await bench.at_broker.frame() == messages.plain(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.broker.send_all, bytes(0) + wire.response(20, 0, 1, bytes(8 * MEGABYTE)))
            await read(bench.client, MEGABYTE)
            await bench.client.aclose()
            nursery.cancel_scope.deadline = trio.current_time() + 5
        await bench.broker.aclose()
        with trio.fail_after(10):
            await bench.ended.wait()
        assert moves
        assert bench.count("internal_errors_total", where="connection") == 0


async def test_a_broker_that_goes_in_the_middle_of_a_body_ends_the_connection(tcp_pair, moves):
    async with a_bench(tcp_pair) as bench:
        await bench.negotiate()
        await bench.client.send_all(messages.plain(1))
        assert await bench.at_broker.frame() == messages.plain(1)
        response = wire.response(ApiKey.DELETE_RECORDS, 0, 1, bytes(2 * MEGABYTE))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.broker.send_all, response[:MEGABYTE])
            assert await read(bench.client, MEGABYTE) == response[:MEGABYTE]
        await bench.broker.aclose()
        with trio.fail_after(10):
            assert await bench.client.receive_some() == b""
            await bench.client.aclose()
            await bench.ended.wait()
        assert moves
        assert bench.count("client_to_proxy_disconnects_total", cause="server_closed") == 1


async def test_what_is_to_be_said_during_a_body_follows_it_however_much(tcp_pair, moves):
    size, said = 16 * MEGABYTE, bytes(4 * HIGH_WATER)
    async with a_bench(tcp_pair) as bench:
        await bench.negotiate()
        await bench.client.send_all(messages.plain(1))
        assert await bench.at_broker.frame() == messages.plain(1)
        response = wire.response(ApiKey.DELETE_RECORDS, 0, 1, bytes(size))
        await bench.broker.send_all(response[:MEGABYTE])
        assert await read(bench.client, MEGABYTE) == response[:MEGABYTE]
        bench.connection._shell.to_client.write([said])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.broker.send_all, response[MEGABYTE:])
            await trio.testing.wait_all_tasks_blocked(0.05)  # the client takes no more
            with trio.fail_after(20):
                for _ in range((len(response) + len(said)) // MEGABYTE - 1):
                    await read(bench.client, MEGABYTE)
        assert len(moves) == 1


async def test_without_a_pipe_bodies_are_copied(monkeypatch, tcp_pair, moves):
    monkeypatch.setattr(PipePool, "borrow", lambda _pool: None)
    async with a_bench(tcp_pair) as bench:
        await bench.negotiate()
        request = messages.produce(1, acks=1, size=MEGABYTE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.client.send_all, request)
            assert await bench.at_broker.frame() == request
        assert not moves


async def test_bytes_are_handed_over_that_are_there_and_none_is_waited_for(tcp_pair):
    near, far = tcp_pair()
    taken = []
    assert near.hand_over(taken.append) is True  # nothing to be taken
    assert far.send_nowait(b"hello") == 5
    await near.wait_readable()
    assert near.hand_over(lambda data: data == b"bye") is False
    await near.aclose()
    with pytest.raises(trio.ClosedResourceError):
        near.hand_over(taken.append)
    assert taken == []


async def test_the_kernel_takes_as_much_for_a_broker_as_for_any_connection() -> None:
    """trio lets a connection that it opens hold 16 KiB of unsent bytes; a large body then goes out in crumbs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = await open_tcp(*server.getsockname())
        async with stream:
            limit = stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
            with socket.socket() as untouched:
                assert limit == untouched.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
