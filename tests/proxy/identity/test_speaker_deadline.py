"""How long a client waits: for its token, its connection to the broker and the authentication together within one
bound, and for a new token to reach the brokers."""

import math
from collections.abc import Awaitable, Callable

import pytest
import trio

from proxy.config.schema import Address
from proxy.identity.client_certificate import CertificatePrincipals
from proxy.identity.credentials import Credentials, Token
from proxy.identity.principal_rules import PrincipalRules
from proxy.identity.speaker import SPREADS_S, CertificateListener, CertificateSpeaker
from proxy.identity.spoken_for import SpokenFor
from proxy.metrics.registry import Metrics
from proxy.session.errors import ClientError, UpstreamError
from proxy.transport.dialer import Dialed, UnreachableError


class SlowSource:
    """Has credentials after so many seconds."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s

    def connected(self, principal: str) -> None: ...

    def disconnected(self, principal: str) -> None: ...

    def useless(self, credentials: Credentials) -> None: ...

    async def credentials_of(self, principal: str) -> Credentials:
        await trio.sleep(self._after_s)
        return Credentials("SCRAM-SHA-256", principal, "secret")


class FreshTokens(SlowSource):
    """Has a token that was made at this moment."""

    async def credentials_of(self, principal: str) -> Credentials:
        now = trio.current_time()
        return Token.of("SCRAM-SHA-256", principal, "id", b"hmac", now, now + 3600)


class ScriptedDialer:
    """In place of a dialer: connects after so many seconds to a broker that never answers."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self.brokers: list[trio.abc.Stream] = []
        self.asked_at = math.nan

    async def dial(self, node_id: int | None) -> Dialed:
        self.asked_at = trio.current_time()
        await trio.sleep(self._after_s)
        ours, its = trio.testing.memory_stream_pair()
        self.brokers.append(its)
        return Dialed(ours, Address("broker", 1), assumed=False)


class Valid(CertificatePrincipals):
    """Every certificate is Alice's, and never expires."""

    def principal_of(self, certificate: bytes, now: float) -> str:
        return "CN=alice"


def a_speaker(token_after_s: float, connection_after_s: float = 0.0) -> CertificateSpeaker:
    listener = CertificateListener(
        SlowSource(token_after_s),
        Valid(PrincipalRules("DEFAULT")),
        SpokenFor((".*",), ()),
        ScriptedDialer(connection_after_s),
        Metrics(),
    )
    return CertificateSpeaker(listener, "CN=alice", b"")


def within_10_s(ask: Callable[[], Awaitable[object]], error: type[Exception], said: str):
    async def look() -> None:
        began = trio.current_time()
        with trio.fail_after(60), pytest.raises(error, match=f"no {said} within 10 s"):
            await ask()
        assert trio.current_time() - began == pytest.approx(10)

    return look()


async def test_a_token_that_does_not_come_ends_the_connection_in_time(autojump_clock):
    speaker = a_speaker(token_after_s=1000)
    await within_10_s(lambda: speaker.dial(1), UpstreamError, "token")
    await within_10_s(speaker.login, ClientError, "token")


async def test_a_slow_token_leaves_its_rest_to_the_connection_and_the_broker(autojump_clock):
    slow_to_connect = a_speaker(token_after_s=7, connection_after_s=8)
    await within_10_s(lambda: slow_to_connect.dial(1), UnreachableError, "connection")
    slow_to_answer = a_speaker(token_after_s=4, connection_after_s=4)
    await within_10_s(lambda: slow_to_answer.dial(1), UpstreamError, "answer")


async def test_a_new_token_is_used_when_brokers_may_know_it(autojump_clock):
    dialer = ScriptedDialer(after_s=60)
    listener = CertificateListener(
        FreshTokens(0), Valid(PrincipalRules("DEFAULT")), SpokenFor((".*",), ()), dialer, Metrics()
    )
    began = trio.current_time()
    with pytest.raises(UnreachableError):
        await CertificateSpeaker(listener, "CN=alice", b"").dial(1)
    assert dialer.asked_at - began == pytest.approx(SPREADS_S)
