"""Bytes that are no Kafka, before and after authentication, on plain TCP and on TLS: they end one connection.

Each ends in a log line and a count, and those who behave are served on.
"""

import random
import struct
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing

from protocol_codecs import ApiKey
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest
from proxy.config.schema import Listener
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.certificates import Authority, connect_tls
from tests.proxy.fakes.serving import Running, config_for, serving

_chance = random.Random(5)  # noqa: S311  no secret
RANDOM = [wire.framed(_chance.randbytes(size)) for size in (3, 9, 40, 300, 5_000)]
BAD = {
    "oversized": struct.pack(">i", 2**31 - 1) + b"x" * 50,
    "negative": struct.pack(">i", -2),
    "truncated": messages.metadata(1)[:-3],
    "header-cut-short": wire.framed(b"\0\x03"),
    "body-cut-short": wire.framed(messages.heartbeat(1)[4:-4]),
    "client-id-beyond-the-end": struct.pack(">ihhih", 10, 3, 1, 1, 30_000),
    "no-such-version": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    **{f"random-{number}": data for number, data in enumerate(RANDOM)},
}


async def authenticate(proxy: Running, stream: trio.abc.Stream) -> None:
    shake = wire.request(ApiKey.SASL_HANDSHAKE, 1, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    token = wire.request(ApiKey.SASL_AUTHENTICATE, 2, 2, SaslAuthenticateRequest(auth_bytes=b"t"))
    for request in (messages.ask_versions(0), shake, token, messages.metadata(3)):
        assert await proxy.ask(stream, request) is not None


@pytest.mark.parametrize(
    "authenticated", [False, True], ids=["before-authentication", "after-authentication"]
)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_bad_input_ends_one_connection(tmp_path: Path, *, tls: bool, authenticated: bool) -> None:
    authority = Authority(tmp_path)
    listener = Listener(
        bind="127.0.0.1",
        port=0,
        advertised_host="127.0.0.1",
        nodes={"0-3": 0},
        tls=authority.listener_tls() if tls else None,
    )

    async def client() -> trio.abc.Stream:
        return await (
            connect_tls(proxy.port(1), authority.client_context()) if tls else connect(proxy.port(1))
        )

    async with a_cluster(1) as brokers, serving(config_for(brokers, listeners=(listener,))) as proxy:
        good = await client()
        for name, data in BAD.items():
            before = errors(proxy)
            bad = await client()
            if authenticated:
                await authenticate(proxy, bad)
            with structlog.testing.capture_logs() as logs:
                await bad.send_all(data)
                if name == "truncated":
                    await bad.aclose()
                else:
                    with trio.fail_after(10):
                        assert await bad.receive_some() == b"", name
                await until(lambda before=before: errors(proxy) == before + 1)
            (line,) = [entry for entry in logs if entry["event"] == "connection closed"]
            assert line["reason"], name
            await trio.aclose_forcefully(bad)
            assert await proxy.ask(good, messages.plain(1)) is not None, "the others are served"
        await until(lambda: proxy.count("client_to_proxy_active_connections", node_id="1") == 1)
        await good.aclose()


def errors(proxy: Running) -> float:
    """What clients sent that ended their connection, of all kinds."""
    (family,) = [
        one
        for one in proxy.server.metrics.registry.collect()
        if one.name == "epochgate_client_to_proxy_errors"
    ]
    return sum(sample.value for sample in family.samples if sample.name.endswith("_total"))


async def until(is_so) -> None:
    with trio.fail_after(10):
        while not is_so():
            await trio.testing.wait_all_tasks_blocked(0.01)
