"""Asks everybody: brokers without credentials, brokers with those of an account, and running proxies."""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec
import trio

from proxy.admin.admin_client import NO_CREDENTIALS, Credentials
from proxy.config.fleet import Property, kafka_properties
from proxy.config.regular_file import read_regular_file
from proxy.config.schema import Address, Config, Upstream
from proxy.config.tls import UpstreamTls
from proxy.groups.snapshot import Snapshot
from proxy.metrics.registry import Metrics
from proxy.preflight.account import ask_with_account
from proxy.preflight.account_messages import Answers
from proxy.preflight.ask_brokers import Found, ask_apis, find_brokers
from proxy.preflight.ask_proxies import ask_proxies
from proxy.preflight.facts import BadProperty, Broker, Facts, Unknown, Version
from proxy.transport.dialer import Open
from proxy.transport.listeners import BindError, bind
from proxy.transport.tcp_stream import open_tcp
from proxy.transport.tls_context import Certificates, TlsOpener
from translation.policy.policy import Policy

_ADMIN_S = 2.0
"""How long the admin port of a proxy on this machine may take to answer, in seconds."""
_MAX_SECRET_BYTES = 64 * 1024
_TLS_PROTOCOLS = ("ssl", "sasl_ssl")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to ask. ``account`` are librdkafka properties; None: nobody, so brokers are asked as anybody may.

    ``proxies`` are URLs of admin ports, ``replicas`` one whose host name has the addresses of all replicas.

    ``timeout_s`` is for each request, in seconds.
    """

    bootstrap: tuple[Address, ...]
    tls: UpstreamTls | None
    account: Mapping[str, Property] | None
    policy: Policy
    config: Config | None = None
    proxies: tuple[str, ...] = ()
    replicas: str | None = None
    credentials: Credentials = NO_CREDENTIALS
    version: Version | None = None
    timeout_s: float


async def ask(target: Target) -> Facts:
    """Ask, and return what was learned.

    :raises BadProperty: the account's properties can't be used.
    :raises TlsFilesError: a file of the TLS settings can't be used.
    """
    learned = await _Asking(target).run()
    seen = await trio.to_thread.run_sync(
        ask_proxies, target.proxies, target.replicas, target.timeout_s, target.credentials
    )
    return msgspec.structs.replace(learned, proxy=seen.snapshot, complete_proxy=seen.lacks)


class _Asking:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._open = _opener(target.tls)
        self._found = Found((), {})
        self._answers: Answers | Unknown | None = None
        self._refused: BadProperty | None = None

    async def run(self) -> Facts:
        target = self._target
        async with trio.open_nursery() as nursery:
            if target.account is not None:
                nursery.start_soon(self._ask_account, target.account)
            self._found = await find_brokers(target.bootstrap, self._open, target.timeout_s)
            if target.account is None:
                await self._ask_as_anybody()
        return await self._facts()

    async def _ask_as_anybody(self) -> None:
        if isinstance(self._found.brokers, Unknown):
            self._answers = self._found.brokers
        else:
            await self._ask_account(properties_of(self._target.bootstrap, self._target.tls))

    async def _ask_account(self, properties: Mapping[str, Property]) -> None:
        if find_spec("confluent_kafka") is None:
            why = "the Kafka client that asks for it, confluent-kafka, is not installed"
            self._answers = Unknown(why, "pip install '.[fleet]' in a checkout of Epochgate")
            return
        try:
            self._answers = await ask_with_account(properties, self._target.timeout_s)
        except BadProperty as error:
            self._refused = error

    async def _facts(self) -> Facts:
        target, answers = self._target, self._answers
        asks_no_proxy = not target.proxies and target.replicas is None
        if self._refused is not None:
            raise self._refused
        assert answers is not None  # noqa: S101  run() has asked
        told = None if isinstance(answers, Unknown) else answers
        unknown = answers if isinstance(answers, Unknown) else Unknown("it was not asked", "")
        addresses, open_ = self._found.brokers, self._open
        if isinstance(addresses, Unknown) and told is not None and not isinstance(told.brokers, Unknown):
            addresses, open_ = told.brokers, _opener(tls_of(target.account or {}))
        brokers: tuple[Broker, ...] | Unknown = Unknown("", "")
        if isinstance(addresses, Unknown):
            brokers = addresses
        else:
            apis = await ask_apis(addresses, open_, target.timeout_s, self._found.cluster_id)
            nobody = unknown if told is None or not isinstance(told.brokers, Unknown) else told.brokers
            settings = {} if told is None else told.settings
            brokers = tuple(
                Broker(
                    node_id=one.node_id,
                    host=one.address.host,
                    port=one.address.port,
                    apis=apis[one.node_id],
                    settings=settings.get(one.node_id, nobody),
                )
                for one in addresses
            )
        return Facts(
            brokers=brokers,
            bootstrap=self._found.answered if isinstance(brokers, Unknown) else {},
            groups=unknown if told is None else told.groups,
            complete_groups=None if told is None else told.complete_groups,
            acls=unknown if told is None else told.acls,
            policy=target.policy,
            config=target.config,
            taken_ports=taken_ports(target.config) if target.config is not None and asks_no_proxy else None,
            version=target.version,
        )


def _opener(tls: UpstreamTls | None) -> Open:
    return open_tcp if tls is None else TlsOpener(tls, Certificates("upstream", tls, Metrics())).open


def taken_ports(config: Config) -> dict[str, str]:
    """The ports of a configuration that can't be bound on this machine, each with the reason. None is listened on.

    There are none while a proxy answers at the configuration's admin port: they are its own.
    """
    wanted = [(config.admin.bind, config.admin.port)]
    for listener in config.listeners:
        wanted += ((listener.bind, port) for port in (listener.port, *listener.node_ports.values()))
    taken = {}
    for host, port in wanted:
        if port:
            try:
                bind(host, port).close()
            except BindError as error:
                taken[f"{host}:{port}"] = str(error)
    return {} if taken and _is_running(config) else taken


def _is_running(config: Config) -> bool:
    """Whether a proxy answers at the admin port of this configuration."""
    admin = config.admin
    seen = ask_proxies((admin.url(),), None, _ADMIN_S, Credentials.of(admin))
    return isinstance(seen.snapshot, Snapshot)


def account_of(
    config: Config | None, given: Mapping[str, str], bootstrap: str | None
) -> dict[str, Property] | None:
    """The account that is asked with: the one that was given, else the fleet's; None if there is neither.

    :raises UnreadableSecret: a secret of the fleet's is not there.
    """
    if given:
        properties: dict[str, Property] = dict(given)
        if bootstrap is None and config is not None:
            bootstrap = ",".join(config.upstream.bootstrap)
        if bootstrap is not None:
            properties.setdefault("bootstrap.servers", bootstrap)
        return properties
    return None if config is None or config.fleet is None else kafka_properties(config.fleet, os.environ)


def replicas_url(address: str, *, tls: bool = False) -> str:
    """The URL of an admin port whose host name has the addresses of all replicas.

    :raises ValueError: the address has another form than host:port.
    """
    return f"{'https' if tls else 'http'}://{Address.parse(address)}"


def upstream_of(config: Config | None, bootstrap: str | None, given: Mapping[str, str]) -> Upstream:
    """The brokers that are asked without credentials: those that were named, else the configuration's.

    :raises ValueError: an address has another form than host:port, or nobody is named.
    """
    if bootstrap is None and config is not None:
        return config.upstream
    named = bootstrap or str(given.get("bootstrap.servers", ""))
    if not named:
        raise ValueError("name a broker: --config or --from")
    tls = tls_of(given) or (None if config is None else config.upstream.tls)
    return Upstream(bootstrap=tuple(part.strip() for part in named.split(",")), tls=tls)


def properties_of(bootstrap: Sequence[Address], tls: UpstreamTls | None) -> dict[str, Property]:
    """The librdkafka properties that connect as the proxy does."""
    properties: dict[str, Property] = {"bootstrap.servers": ",".join(map(str, bootstrap))}
    if tls is None:
        return properties
    properties["security.protocol"] = "SSL"
    named = {
        "ssl.ca.location": tls.ca,
        "ssl.certificate.location": tls.certificate,
        "ssl.key.location": tls.key,
    }
    properties |= {name: file for name, file in named.items() if file is not None}
    if tls.key_password_file is not None:
        secret = read_regular_file(Path(tls.key_password_file), _MAX_SECRET_BYTES).decode().rstrip("\r\n")
        properties["ssl.key.password"] = secret
    if not tls.verify_hostname:
        properties["ssl.endpoint.identification.algorithm"] = "none"
    return properties


def tls_of(properties: Mapping[str, Property]) -> UpstreamTls | None:
    """The TLS settings that an account's properties mean; None if it uses none."""
    if str(properties.get("security.protocol", "")).lower() not in _TLS_PROTOCOLS:
        return None
    certificate, key = properties.get("ssl.certificate.location"), properties.get("ssl.key.location")
    has_both = certificate is not None and key is not None
    ca = properties.get("ssl.ca.location")
    return UpstreamTls(
        ca=None if ca is None else str(ca),
        verify_hostname=properties.get("ssl.endpoint.identification.algorithm") != "none",
        certificate=str(certificate) if has_both else None,
        key=str(key) if has_both else None,
        clients_share_identity=has_both,
    )


def with_files(given: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    """Add properties whose values are the contents of files; line ends at the end do not count.

    :raises ValueError: a file can't be read, or a property is given twice. The message names no value.
    """
    found = dict(given)
    for name, file in files.items():
        if name in found:
            raise ValueError(f"{name} is given twice")
        try:
            found[name] = read_regular_file(Path(file), _MAX_SECRET_BYTES).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{name}: {file} can't be read: {error}") from None
    return found
