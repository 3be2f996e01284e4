"""The proxy opens an upstream connection for a client with a certificate, which has gone before that is over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from proxy.connection.dial_for_client import dial_for_client
from proxy.session.errors import ClientError, UpstreamError
from proxy.transport.dialer import Dialed, UnreachableError
from tests.proxy.fakes import messages
from tests.proxy.fakes.bench import Bench, a_bench
from translation.actions import never

TAKES_S = 8.0


class SlowSpeaker:
    """Takes so long for a token, the connection and the authentication, or fails then."""

    def __init__(self, error: Exception | None = None) -> None:
        self.bench: Bench
        self.cancelled_at: float | None = None
        self.closed = False
        self.client_gone = trio.Event()
        self._error = error

    async def dial(self, node_id: int | None) -> Dialed:
        try:
            await trio.sleep(TAKES_S)
        except trio.Cancelled:
            self.cancelled_at = trio.current_time()
            raise
        if self._error is not None:
            raise self._error
        return await self.bench.dial(node_id)

    def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def a_client_of(speaker: SlowSpeaker) -> AsyncIterator[Bench]:
    async with a_bench(identify=lambda _stream: speaker) as bench:
        speaker.bench = bench
        gone = speaker.client_gone
        bench.proxy_to_client.peer_closed = gone.is_set  # as streams of sockets have it
        yield bench


async def hang_up_after(bench: Bench, speaker: SlowSpeaker, seconds: float) -> float:
    await trio.sleep(seconds)
    speaker.client_gone.set()
    await bench.client.aclose()
    return trio.current_time()


async def test_a_client_that_has_gone_ends_the_dial(autojump_clock):
    speaker = SlowSpeaker()
    async with a_client_of(speaker) as bench:
        await bench.client.send_all(messages.ask_versions(1))
        gone_at = await hang_up_after(bench, speaker, 2)
        await bench.ended.wait()
        assert trio.current_time() - gone_at < 0.5
        assert speaker.cancelled_at is not None
        assert speaker.closed
        assert bench.dialed == []
        assert bench.count("client_to_proxy_disconnects_total", cause="client_closed") == 1


@pytest.mark.parametrize(
    "requests",
    [messages.plain(1), messages.ask_versions(1) + messages.plain(2)],
    ids=["a-request", "a-request-behind-ApiVersions"],
)
async def test_what_a_client_sent_before_it_has_gone_still_reaches_the_broker(autojump_clock, requests):
    """It may be records without acks."""
    speaker = SlowSpeaker()
    async with a_client_of(speaker) as bench:
        await bench.client.send_all(requests)
        await hang_up_after(bench, speaker, 2)
        assert await bench.at_broker.frame() is not None
        assert trio.current_time() >= TAKES_S
        assert speaker.cancelled_at is None


async def test_a_client_that_waits_gets_its_connection(autojump_clock):
    async with a_client_of(SlowSpeaker()) as bench:
        await bench.negotiate()
        assert bench.dialed == [None]


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("refused"),
        ClientError("principal", "nobody speaks for it"),
        UpstreamError("authentication", "refused"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_of_the_dial_is_raised_as_it_is(autojump_clock, error):
    with pytest.raises(type(error)) as raised:
        await dial_for_client(SlowSpeaker(error), 1, never, owes_only_versions=True)
    assert raised.value is error
