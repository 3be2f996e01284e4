"""A running proxy speaks for clients with certificates, at scripted brokers."""

import math
import ssl
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
import trio
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode
from proxy.config.fleet import UnreadableSecret
from proxy.config.identity import IdentityMode
from proxy.config.schema import Address
from proxy.config.tls import ClientAuth
from proxy.connection import kept_authentication
from proxy.connection.client_connection import ClientConnection
from proxy.identity import speaker
from proxy.identity.credentials import Credentials
from proxy.session.errors import UpstreamError
from proxy.transport.tls_errors import TlsError
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.certificates import Authority, connect_tls
from tests.proxy.fakes.secured_broker import SecuredBroker
from tests.proxy.fakes.serving import Running
from tests.proxy.identity.serving import a_client, speaking


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


async def answered(proxy: Running, authority: Authority, name: str, number: int = 7) -> bool:
    """Whether a client with this certificate gets an answer."""
    client = await connect_tls(proxy.port(1), a_client(authority, name))
    try:
        answer = await proxy.ask(client, messages.plain(number))
    except trio.BrokenResourceError:
        return False
    finally:
        await trio.aclose_forcefully(client)
    return answer is not None


async def test_the_broker_sees_each_clients_principal_and_one_token_of_it(broker, authority, tmp_path):
    async with speaking(broker, authority, tmp_path) as proxy:
        for name in ("alice", "bob", "alice", "alice"):
            assert await answered(proxy, authority, name)
        principals = [principal for principal, request in broker.ordinary if request == messages.plain(7)]
        assert principals == ["CN=alice", "CN=bob", "CN=alice", "CN=alice"]
        assert sorted(owner for owner, _ in broker.tokens.made.values()) == ["CN=alice", "CN=bob"]
        assert proxy.count("identity_tokens_total", result="created") == 2
        assert proxy.count("identity_principals") == 2
        assert proxy.count("identity_authentications_total", result="done") == 4
    assert broker.tokens.made == {}, "all are expired at the end"
    assert len(broker.tokens.expired) == 2


async def test_nothing_of_the_client_reaches_the_broker_before_its_authentication(
    broker, authority, tmp_path
):
    async with speaking(broker, authority, tmp_path) as proxy:
        broker.tokens.unknown_for = 2
        assert await answered(proxy, authority, "alice")
        strangers = [
            wire.api_of(one)[0] for one in broker.requests if one not in [r for _, r in broker.ordinary]
        ]
        assert set(strangers) <= {
            ApiKey.API_VERSIONS,
            ApiKey.METADATA,  # the proxy's first contact
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.CREATE_DELEGATION_TOKEN,
        }


async def test_a_client_is_not_spoken_for_where_its_node_should_be_and_another_is(
    broker, authority, tmp_path
):
    """The proxy learns the cluster's id from the first client's metadata, and names it after authentication."""
    broker.cluster_id = "the-cluster"
    async with speaking(broker, authority, tmp_path) as proxy:
        client = await connect_tls(proxy.port(1), a_client(authority, "alice"))
        await proxy.ask(client, messages.metadata(1))
        await trio.aclose_forcefully(client)
        assert await answered(proxy, authority, "alice")
        named = [one for who, one in broker.ordinary if wire.api_of(one) == (ApiKey.API_VERSIONS, 5)]
        assert len(named) == 1

        broker.node_id = 3
        with structlog.testing.capture_logs() as logs:
            assert not await answered(proxy, authority, "alice")
        (reason,) = (one["reason"] for one in logs if one.get("cause") == "server_error")
        assert "not broker 1 of the cluster the-cluster" in reason
        assert proxy.count("proxy_to_server_errors_total", kind="wrong_route") == 1


async def test_a_node_whose_address_becomes_known_during_the_authentication_is_dialed_itself(
    broker, authority, tmp_path, nursery
):
    other = SecuredBroker(2, {}, broker.tokens)
    other.nursery = nursery
    await other.start()
    async with speaking(broker, authority, tmp_path) as proxy:
        assert await answered(proxy, authority, "alice"), "her token is made"
        client = await connect_tls(proxy.port(2), a_client(authority, "alice"))
        broker.holds_back = trio.Event()
        await client.send_all(messages.plain(8))
        await broker.arrival()
        proxy.server.nodes.learn(2, Address(*other.nodes[2]))
        broker.holds_back.set()
        with trio.fail_after(10):
            assert await wire.FrameReader(client).frame() is not None
        await trio.aclose_forcefully(client)
    assert ("CN=alice", messages.plain(8)) in other.ordinary
    other.stop()


async def test_a_token_that_has_not_reached_the_broker_is_tried_again_without_another_one(
    broker, authority, tmp_path
):
    async with speaking(broker, authority, tmp_path) as proxy:
        broker.tokens.unknown_for = 3
        connections = broker.connections
        assert await answered(proxy, authority, "alice")
        assert len(broker.tokens.made) == 1
        assert proxy.count("identity_authentications_total", result="retried") == 3
        assert broker.connections == connections + 5, (
            "the account's, three fresh ones that fail, and the last"
        )


async def test_a_token_that_never_reaches_the_broker_ends_the_connection_in_time(
    broker, authority, tmp_path, monkeypatch
):
    monkeypatch.setattr(speaker, "RETRIED_FOR_S", 0.5)
    async with speaking(broker, authority, tmp_path) as proxy:
        broker.tokens.unknown_for = 1000
        began = time.monotonic()
        with structlog.testing.capture_logs() as logs:
            assert not await answered(proxy, authority, "alice")
        assert time.monotonic() - began < 5
        assert len(broker.tokens.made) == 1, "without a second token"
        assert proxy.count("identity_authentications_total", result="failed") == 1
        assert proxy.count("proxy_to_server_errors_total", kind="authentication") == 1
        assert not proxy.count("unreachable_nodes"), "the broker is there"
        for _, hmac in broker.tokens.made.values():
            assert hmac.hex() not in str(logs)


async def test_a_token_that_was_removed_at_the_brokers_is_replaced_once(
    broker, authority, tmp_path, monkeypatch
):
    monkeypatch.setattr(speaker, "NEW_FOR_S", 0.0)
    async with speaking(broker, authority, tmp_path) as proxy:
        assert await answered(proxy, authority, "alice")
        broker.tokens.made.clear()
        assert await answered(proxy, authority, "alice")
        assert len(broker.tokens.made) == 1
        assert proxy.count("identity_tokens_total", result="created") == 2


@pytest.mark.parametrize(
    ("keys", "name", "said"),
    [
        ({"allow": ("CN=a.*",)}, "bob", "`identity.allow`"),
        ({"deny": ("CN=bob",)}, "bob", "`identity.deny`"),
        ({}, "admin", "CREATE_TOKENS"),
        ({"rules": "RULE:^CN=x$/x/"}, "bob", "no rule"),
        ({"principals": 1}, "bob", "1 principals"),
    ],
)
async def test_a_client_whom_the_proxy_may_not_speak_for_is_refused_alone(
    broker, authority, tmp_path, keys, name, said
):
    async with speaking(broker, authority, tmp_path, **keys) as proxy:
        others = []
        if "rules" not in keys:
            others = [await connect_tls(proxy.port(1), a_client(authority, "alice"))]
            assert await proxy.ask(others[0], messages.plain(1)) is not None
        with structlog.testing.capture_logs() as logs:
            assert not await answered(proxy, authority, name)
        assert any(said in str(line.get("reason")) for line in logs), logs
        assert proxy.count("client_to_proxy_errors_total", kind="principal") == 1
        assert proxy.count("identity_authentications_total", result="refused") == 1
        for other in others:
            assert await proxy.ask(other, messages.plain(2)) is not None
            await trio.aclose_forcefully(other)
        assert not any(principal == f"CN={name}" for principal, _ in broker.ordinary)


async def test_a_client_that_smuggles_sasl_is_disconnected_and_gains_nothing(broker, authority, tmp_path):
    async with speaking(broker, authority, tmp_path) as proxy:
        for request in (
            wire.request(ApiKey.SASL_HANDSHAKE, 1, 1, b"\0\5PLAIN"),
            wire.request(ApiKey.CREATE_DELEGATION_TOKEN, 3, 1, bytes(20)),
            wire.request(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, 1, bytes(20)),
            wire.framed(b"\x60\x82\x02\x6d" + bytes(600)),
        ):
            client = await connect_tls(proxy.port(1), a_client(authority, "alice"))
            assert await proxy.ask(client, messages.plain(1)) is not None
            before = len(broker.requests)
            await client.send_all(request)
            assert await client.receive_some() == b""
            assert request not in broker.requests[before:]
            await trio.aclose_forcefully(client)


async def test_a_client_without_a_certificate_authenticates_itself_where_that_is_optional(
    broker, authority, tmp_path
):
    async with speaking(broker, authority, tmp_path, client_auth=ClientAuth.OPTIONAL) as proxy:
        client = await connect_tls(proxy.port(1), authority.client_context())
        request = wire.request(ApiKey.SASL_HANDSHAKE, 1, 1, b"\0\5PLAIN")
        assert await proxy.ask(client, request) is not None
        assert request in broker.requests
        await trio.aclose_forcefully(client)
        assert await answered(proxy, authority, "alice")
        stranger = await connect_tls(proxy.port(1), authority.client_context())
        assert await proxy.ask(stranger, messages.plain(3)) is None, "the broker does not know it"
        await trio.aclose_forcefully(stranger)


# -- the life of a session -----------------------------------------------------------------------------------


async def test_a_connection_is_authenticated_again_before_its_session_ends(
    broker, authority, tmp_path, monkeypatch
):
    monkeypatch.setattr(speaker, "_SETTLES_S", 0.1)
    monkeypatch.setattr(kept_authentication, "_SOONEST_S", 0.1)
    broker.tokens.session_lifetime_ms = 500
    async with speaking(broker, authority, tmp_path) as proxy:
        client = await connect_tls(proxy.port(1), a_client(authority, "alice"))
        reader = wire.FrameReader(client)
        number = 0
        with trio.fail_after(20):
            while proxy.count("identity_authentications_total", result="again") < 3:
                number += 1
                await client.send_all(messages.plain(number))
                assert await reader.frame() is not None, f"closed for {broker.tokens.closed_for}"
        assert number > 3
        assert broker.tokens.closed_for == []
        assert {principal for principal, _ in broker.ordinary} == {"CN=alice"}
        assert proxy.count("identity_reauthentication_pause_seconds_count") >= 3
        await trio.aclose_forcefully(client)


async def test_records_without_acks_survive_a_client_that_closes_while_the_proxy_authenticates_again(
    broker, authority, tmp_path, monkeypatch
):
    monkeypatch.setattr(speaker, "_SETTLES_S", 0.1)
    monkeypatch.setattr(kept_authentication, "_SOONEST_S", 0.1)
    broker.tokens.session_lifetime_ms = 500
    async with speaking(broker, authority, tmp_path) as proxy:
        client = await connect_tls(proxy.port(1), a_client(authority, "alice"))
        assert await proxy.ask(client, messages.plain(1)) is not None
        broker.requests.clear()
        broker.holds_back = trio.Event()
        with trio.fail_after(10):
            while ApiKey.SASL_HANDSHAKE not in {wire.api_of(one)[0] for one in broker.requests}:
                await broker.arrival()
        await client.send_all(messages.produce(2, acks=0))
        await trio.aclose_forcefully(client)
        with trio.fail_after(10):
            while not proxy.count("client_to_proxy_disconnects_total", cause="client_closed"):
                await trio.lowlevel.checkpoint()
        assert messages.produce(2, acks=0) not in broker.requests
        broker.holds_back.set()
        await broker.got(messages.produce(2, acks=0))
        assert broker.tokens.closed_for == []


def served(proxy: Running) -> ClientConnection:
    (connection,) = proxy.server._parts.connections
    return connection


async def test_authenticating_again_is_no_activity_of_the_client(broker, authority, tmp_path, monkeypatch):
    monkeypatch.setattr(speaker, "_SETTLES_S", 0.1)
    monkeypatch.setattr(kept_authentication, "_SOONEST_S", 0.1)
    broker.tokens.session_lifetime_ms = 500
    async with speaking(broker, authority, tmp_path) as proxy:
        client = await connect_tls(proxy.port(1), a_client(authority, "alice"))
        assert await proxy.ask(client, messages.plain(1)) is not None
        reads = served(proxy).progress().reads
        with trio.fail_after(10):
            while not proxy.count("identity_authentications_total", result="again"):
                await trio.lowlevel.checkpoint()
        assert served(proxy).progress().reads == reads
        await trio.aclose_forcefully(client)


async def test_a_certificate_that_has_expired_ends_its_connection_at_the_next_authentication(
    broker, authority, tmp_path, monkeypatch
):
    monkeypatch.setattr(kept_authentication, "_SOONEST_S", 0.1)
    broker.tokens.session_lifetime_ms = 60_000
    monkeypatch.setattr(kept_authentication, "_EARLIEST", 0.001)
    monkeypatch.setattr(kept_authentication, "_LATEST", 0.001)
    async with speaking(broker, authority, tmp_path) as proxy:
        client = await connect_tls(proxy.port(1), a_client(authority, "alice"))
        assert await proxy.ask(client, messages.plain(1)) is not None
        monkeypatch.setattr(speaker, "time", SimpleNamespace(time=lambda: math.inf))
        with trio.fail_after(10), structlog.testing.capture_logs():
            assert await client.receive_some() == b""
        assert proxy.count("client_to_proxy_disconnects_total", cause="session_expired") == 1
        assert not proxy.count("identity_authentications_total", result="again")
        await trio.aclose_forcefully(client)


class BrokenTls(trio.abc.Stream):
    """The stream of a broker that refuses the proxy's certificate after the handshake, as in TLS 1.3."""

    async def send_all(self, data: bytes) -> None:
        pass

    async def wait_send_all_might_not_block(self) -> None:
        pass

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise TlsError("tls_record", "TLS: certificate required")

    async def aclose(self) -> None:
        pass


async def test_an_error_of_tls_at_the_broker_keeps_its_kind(broker, authority, tmp_path):
    async with speaking(broker, authority, tmp_path) as proxy:
        identities = proxy.server._parts.identities
        assert identities is not None
        listener = identities._listeners[0]
        dialed = await listener.dialer.dial(None)
        await dialed.stream.aclose()
        speaks = speaker.CertificateSpeaker(listener, "CN=alice", b"")
        with pytest.raises(UpstreamError, match="certificate required") as caught:
            await speaks._authenticated(replace(dialed, stream=BrokenTls()), Credentials("PLAIN", "a", "b"))
        assert caught.value.kind == "tls_record"


async def test_a_withdrawn_right_ends_a_connection_with_its_session(broker, authority, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_authentication, "_SOONEST_S", 0.1)
    monkeypatch.setattr(kept_authentication, "_PAUSE_S", 0.1)
    async with speaking(broker, authority, tmp_path, max_lifetime_ms=1000) as proxy:
        client = await connect_tls(proxy.port(1), a_client(authority, "alice"))
        assert await proxy.ask(client, messages.plain(1)) is not None
        broker.tokens.error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        with trio.fail_after(10), structlog.testing.capture_logs():
            assert await client.receive_some() == b""
        assert proxy.count("client_to_proxy_disconnects_total", cause="session_expired") == 1
        assert not proxy.count("identity_authentications_total", result="again"), "by a token that ends too"
        await trio.aclose_forcefully(client)


# -- mapped credentials --------------------------------------------------------------------------------------


async def test_mapped_credentials_stand_for_a_principal_and_are_read_again(
    broker: SecuredBroker, authority, tmp_path
):
    broker.tokens.users |= {"alice-at-kafka": "a-secret", "bob-at-kafka": "b-secret"}
    mapped = tmp_path / "mapped.yaml"
    mapped.write_text(
        '"CN=alice": {username: alice-at-kafka, password: "a-secret", mechanism: SCRAM-SHA-256}\n'
    )
    keys = {"mode": IdentityMode.MAPPED, "mapped_file": str(mapped), "account": None}
    async with speaking(broker, authority, tmp_path, **keys) as proxy:
        assert await answered(proxy, authority, "alice")
        assert not await answered(proxy, authority, "bob")
        reloadable = proxy.server.reloadables[-1]
        with mapped.open("a") as file:
            file.write('"CN=bob": {username: bob-at-kafka, password: "b-secret", mechanism: SCRAM-SHA-256}\n')
        reloadable.reload("a test")
        assert await answered(proxy, authority, "bob")
        mapped.write_text('"CN=bob": {username: bob-at-kafka, password: 12345}\n')
        with structlog.testing.capture_logs() as logs:
            reloadable.reload("a test")
        (line,) = logs
        assert f"{mapped}:1:" in line["reason"]
        assert "password: expected a text in quotes" in line["reason"]
        assert "12345" not in str(line)
        assert await answered(proxy, authority, "bob"), "those before stay"
        assert {principal for principal, _ in broker.ordinary} == {"alice-at-kafka", "bob-at-kafka"}


# -- another configuration -----------------------------------------------------------------------------------


async def test_another_configuration_is_in_force_for_clients_that_connect_from_now_on(
    broker, authority, tmp_path
):
    async with speaking(broker, authority, tmp_path, allow=("CN=alice",)) as proxy:
        config, identities = proxy.server.config, proxy.server._parts.identities
        assert await answered(proxy, authority, "alice")
        assert not await answered(proxy, authority, "bob")
        section = replace(config.identity, allow=("CN=bob",))
        put_in_force = identities.prepare(replace(config, identity=section))
        assert not await answered(proxy, authority, "bob"), "nothing is done yet"
        put_in_force()
        assert await answered(proxy, authority, "bob")
        assert not await answered(proxy, authority, "alice")
        plain = replace(config.listeners[0], identity=IdentityMode.NONE, principal_mapping_rules="DEFAULT")
        stream = SimpleNamespace(peer_certificate=None)
        identify = identities.identify_at(7)
        identities.prepare(config, {7: config.listeners[0], 0: plain})()
        file, _ = authority.issue("another", common_name="alice")
        stream.peer_certificate = ssl.PEM_cert_to_DER_cert(file.read_text())
        assert identities.identify_at(0)(stream) is None, "its clients speak for themselves"
        speaking_for = identify(stream)
        assert speaking_for.principal == "CN=alice"
        speaking_for.close()
    assert broker.tokens.made == {}, "tokens of before are expired at the end"


@pytest.mark.parametrize("key", ["allow", "account", "mapped_file"])
async def test_a_configuration_that_can_not_be_used_changes_nothing(broker, authority, tmp_path, key):
    async with speaking(broker, authority, tmp_path) as proxy:
        config, identities = proxy.server.config, proxy.server._parts.identities
        missing = str(tmp_path / "missing")
        change = {
            "allow": ("(",),
            "account": replace(config.identity.account, password_file=missing),
            "mapped_file": missing,
        }[key]
        with pytest.raises(UnreadableSecret, match=r"missing: |is no regular expression"):
            identities.prepare(replace(config, identity=replace(config.identity, **{key: change})))
        assert await answered(proxy, authority, "alice")


async def test_a_rotated_password_is_read_again_and_one_that_is_missing_refused(broker, authority, tmp_path):
    async with speaking(broker, authority, tmp_path) as proxy:
        password = tmp_path / "password"
        (account,) = (one for one in proxy.server.reloadables if one.files == (password,))
        assert await answered(proxy, authority, "alice")
        broker.tokens.users["gate"] = "rotated"
        password.write_text("")
        with structlog.testing.capture_logs() as logs:
            account.reload("a test")
        assert logs[0]["event"] == "credentials of the account refused, those before stay"
        assert logs[0]["reason"] == f"{password}: has no password"
        assert proxy.count("tls_is_current", where="identity.account") == 0
        password.write_text("rotated\n")
        account.reload("a test")
        assert proxy.count("tls_is_current", where="identity.account") == 1
        assert proxy.count("tls_reloads_total", where="identity.account", result="refused") == 1
        assert proxy.count("tls_reloads_total", where="identity.account", result="applied") == 1
        assert await answered(proxy, authority, "bob")
    assert broker.tokens.made == {}
