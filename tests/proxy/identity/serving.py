"""A proxy that speaks for clients with certificates, in front of scripted brokers that want SASL."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from proxy.config.identity import Identity, IdentityAccount, IdentityMode
from proxy.config.schema import Config, Listener
from proxy.config.tls import ClientAuth
from tests.proxy.fakes import serving
from tests.proxy.fakes.certificates import LOCAL, Authority
from tests.proxy.fakes.secured_broker import SecuredBroker
from tests.proxy.fakes.serving import Running, config_for


def a_config(broker: SecuredBroker, authority: Authority, folder: Path, **keys) -> Config:
    """``keys`` are those of ``identity``, and ``mode``, ``client_auth`` and ``rules`` of the listener."""
    password = folder / "password"
    password.write_text("gate-secret\n")
    listener = Listener(
        bind=LOCAL,
        port=0,
        advertised_host=LOCAL,
        nodes={"0-3": 0},
        tls=authority.listener_tls(
            client_ca=str(authority.file), client_auth=keys.pop("client_auth", ClientAuth.REQUIRED)
        ),
        identity=keys.pop("mode", IdentityMode.DELEGATION_TOKEN),
        principal_mapping_rules=keys.pop("rules", "RULE:^.*(CN=[^,]+).*$/$1/"),
    )
    account = IdentityAccount(username="gate", password_file=str(password), mechanism="SCRAM-SHA-256")
    identity = Identity(**{"allow": (".*",), "account": account} | keys)
    return replace(config_for({1: broker}), listeners=(listener,), identity=identity)


@asynccontextmanager
async def speaking(
    broker: SecuredBroker, authority: Authority, folder: Path, **keys
) -> AsyncIterator[Running]:
    async with serving.serving(a_config(broker, authority, folder, **keys)) as proxy:
        yield proxy


def a_client(authority: Authority, name: str) -> ssl.SSLContext:
    context = authority.client_context()
    context.load_cert_chain(*authority.issue(name, common_name=name))
    return context
