"""The record layer: two ends of our own, over a pair of sockets."""

import os
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from proxy.transport.tcp_stream import feed
from proxy.transport.tls_errors import TlsError
from proxy.transport.tls_stream import TlsStream
from proxy.transport.write_buffer import WriteBuffer
from tests.proxy.fakes.certificates import Authority, tls_pair

Pair = tuple[TlsStream, TlsStream]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def agreed(authority: Authority) -> AsyncIterator[Pair]:
    """A client and a server that have shaken hands."""
    client, server = tls_pair(authority)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.handshake)
        await server.handshake()
    yield client, server
    for stream in (client, server):
        await trio.aclose_forcefully(stream)


@pytest.fixture
async def pair(authority: Authority) -> AsyncIterator[Pair]:
    async with agreed(authority) as both:
        yield both


@pytest.fixture
async def fed_pair(waiting: None, authority: Authority) -> AsyncIterator[Pair]:
    """What they receive is taken by ``feed``, in one way of waiting or the other."""
    async with agreed(authority) as both:
        yield both


async def received(stream: TlsStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await stream.receive_some()
        assert more, f"the stream ended after {len(data)} of {size} bytes"
        data += more
    return data


async def test_large_data_arrives_whole_in_both_directions_at_once(pair: Pair) -> None:
    client, server = pair
    there, back = os.urandom(3_000_000), os.urandom(3_000_000)
    got: dict[str, bytes] = {}

    async def read(name: str, stream: TlsStream, size: int) -> None:
        got[name] = await received(stream, size)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, there)
        nursery.start_soon(server.send_all, back)
        nursery.start_soon(read, "there", server, len(there))
        nursery.start_soon(read, "back", client, len(back))
    assert got == {"there": there, "back": back}


@pytest.mark.parametrize("seed", range(8))
async def test_what_the_kernel_does_not_take_at_once_follows_in_order(pair: Pair, seed: int) -> None:
    """A write buffer writes without waiting; the reader is slow, so most writes are taken in part."""
    client, server = pair
    chance = random.Random(seed)  # noqa: S311  no secret
    pieces = [chance.randbytes(chance.choice((1, 100, 5_000, 70_000, 300_000))) for _ in range(40)]
    async with trio.open_nursery() as nursery:
        buffer = WriteBuffer(client, nursery)

        async def write() -> None:
            for piece in pieces:
                buffer.write([piece])
                await buffer.drained()

        nursery.start_soon(write)
        got = b""
        while len(got) < sum(map(len, pieces)):
            got += await server.receive_some(chance.choice((1, 1_000, 50_000)))
    assert got == b"".join(pieces)


async def fed(stream: TlsStream, size: int, at_once: int = 1) -> bytes:
    """So many bytes, or until the end; ``at_once`` is how often it takes something before it wants a pause."""
    data = b""
    ended = False
    left = at_once

    def take(more: bytes) -> bool:
        nonlocal data, ended, left
        data += more
        ended = not more
        left -= 1
        return not ended and len(data) < size and left > 0

    while not ended and len(data) < size:
        left = at_once
        await feed(stream, take)
    return data


@pytest.mark.parametrize("at_once", [1, 2, 1000])
async def test_what_is_fed_is_whole_in_both_directions(fed_pair: Pair, at_once: int) -> None:
    client, server = fed_pair
    there, back = os.urandom(2_000_000), os.urandom(2_000_000)
    got: dict[str, bytes] = {}

    async def read(name: str, stream: TlsStream, size: int) -> None:
        got[name] = await fed(stream, size, at_once)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, there)
            nursery.start_soon(server.send_all, back)
            nursery.start_soon(read, "there", server, len(there))
            nursery.start_soon(read, "back", client, len(back))
    assert got == {"there": there, "back": back}


async def test_the_end_is_fed_with_goodbye_and_without(fed_pair: Pair) -> None:
    client, server = fed_pair
    with trio.fail_after(30):
        await client.send_all(b"bye")
        await client.send_eof()
        assert await fed(server, 1000, 1000) == b"bye"
        assert server.peer_closed()
        await server.send_all(b"too late")  # nobody reads it any more
        await trio.aclose_forcefully(server.transport)
        assert await fed(client, 1000) == b""


async def test_a_broken_record_that_is_fed_is_named(fed_pair: Pair) -> None:
    client, server = fed_pair
    await client.transport.send_all(bytes([23, 3, 3, 0, 32]) + bytes(32))
    with pytest.raises(TlsError, match="TLS"), trio.fail_after(30):
        await fed(server, 1)


async def test_a_small_write_needs_no_task(pair: Pair) -> None:
    client, server = pair
    assert client.send_nowait(b"hello") == 5
    assert await server.receive_some() == b"hello"


async def test_several_records_are_read_at_once(pair: Pair) -> None:
    client, server = pair
    await client.send_all(bytes(60_000))
    await trio.testing.wait_all_tasks_blocked()
    assert len(await server.receive_some()) == 60_000


async def test_every_read_lets_others_have_their_turn(pair: Pair) -> None:
    client, server = pair
    await client.send_all(b"abcdef")
    for expected in (b"abcd", b"ef"):  # the second is there already
        with trio.testing.assert_checkpoints():
            assert await server.receive_some(4) == expected


async def test_no_more_than_asked_for_is_given(pair: Pair) -> None:
    client, server = pair
    await client.send_all(b"abcdef")
    assert [await server.receive_some(4), await server.receive_some(4)] == [b"abcd", b"ef"]


async def test_a_goodbye_is_the_end_of_the_stream_and_the_other_side_may_still_send(pair: Pair) -> None:
    client, server = pair
    await client.send_all(b"last words")
    await client.send_eof()
    assert await server.receive_some() == b"last words"
    assert await server.receive_some() == b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.receive_some)
        await server.send_all(bytes(1_000_000))
        await server.aclose()


async def test_a_goodbye_shows_that_the_peer_has_hung_up_once_it_is_read_also_on_an_open_connection(
    pair: Pair,
) -> None:
    client, server = pair
    await client.send_all(b"last words")
    with suppress(ssl.SSLError):  # the other side has not said goodbye
        client._ssl.unwrap()
    await client._flush()
    assert not server.peer_closed()
    while await server.receive_some():
        pass
    assert server.peer_closed()
    assert not server.transport.peer_closed()


async def test_an_end_without_goodbye_is_an_end_too(pair: Pair) -> None:
    client, server = pair
    await client.transport.send_eof()
    assert await server.receive_some() == b""


async def test_a_broken_record_is_named(pair: Pair) -> None:
    client, server = pair
    await client.transport.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsError, match="TLS: ") as caught:
        await server.receive_some()
    assert caught.value.kind == "tls_record"


async def test_a_peer_that_does_not_read_costs_bounded_memory(pair: Pair) -> None:
    client, _ = pair
    data = bytes(50_000_000)
    sent = 0
    while taken := client.send_nowait(data[sent : sent + 200_000]):
        sent += taken
    with trio.move_on_after(0.2):
        await client.send_all(data[sent:])
    waiting = len(client._rest) + client._to_peer.pending
    assert waiting < 200_000, "only what is encrypted at once"


@pytest.mark.parametrize(
    ("first", "kind", "said"),
    [
        (b"\x00\x00\x00\x2e\x00\x12\x00\x03", "plaintext", "plaintext Kafka on a TLS port"),
        (b"GET / HTTP/1.1\r\n\r\n", "http", "HTTP without TLS"),
        (b"SSH-2.0-x\r\n", "tls_handshake", "no TLS on a TLS port"),
        (b"\x16\x03\x01\x00\x05hello", "tls_handshake", "the TLS handshake failed"),
        (b"\x16", "tls_handshake", "closed the connection in the TLS handshake"),
    ],
)
async def test_what_is_no_tls_is_named(authority: Authority, first: bytes, kind: str, said: str) -> None:
    client, server = tls_pair(authority)
    await client.transport.send_all(first)
    await client.transport.send_eof()
    with pytest.raises(TlsError, match=said) as caught:
        await server.handshake()
    assert caught.value.kind == kind
    for stream in (client, server):
        await stream.aclose()


async def test_an_old_version_of_tls_is_refused(authority: Authority) -> None:
    client, server = tls_pair(authority)
    old = authority.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    new = authority.server_context()
    new.minimum_version = ssl.TLSVersion.TLSv1_3
    client = TlsStream(client.transport, old, server_side=False, server_name="127.0.0.1")
    server = TlsStream(server.transport, new, server_side=True)
    async with trio.open_nursery() as nursery:

        async def refused() -> None:
            with pytest.raises(TlsError, match="handshake failed"):
                await client.handshake()

        nursery.start_soon(refused)
        with pytest.raises(TlsError, match="unsupported protocol"):
            await server.handshake()
        await server.aclose()
    await client.aclose()


async def test_both_sides_say_that_a_certificate_is_missing(authority: Authority) -> None:
    demanding = authority.server_context()
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(authority.file)
    client, server = tls_pair(authority)
    server = TlsStream(server.transport, demanding, server_side=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.handshake)  # in TLS 1.3 it has no reason yet to fail
        with pytest.raises(TlsError, match="the peer shows no certificate, and `client_auth` is `required`"):
            await server.handshake()
        await server.aclose()
    with pytest.raises(TlsError, match="the peer requires a client certificate"):
        await client.receive_some()
    await client.aclose()
