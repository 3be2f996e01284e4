"""Connects to brokers with the account's librdkafka properties, for requests that librdkafka does not have.

librdkafka 2.16 lists groups of consumers only, and can't describe share groups and streams groups. This module has the
part of its properties that most clusters use: TLS with PEM files, and SASL by PLAIN or SCRAM.
"""

import ssl
from collections.abc import Mapping

import trio

from protocol_codecs import ApiKey, Message
from protocol_codecs.message import M
from protocol_codecs.messages.api_versions import NODE_FROM
from proxy.config.fleet import Property
from proxy.config.schema import Address
from proxy.transport.broker_calls import BrokerCalls
from proxy.transport.node_table import NodeIdentity
from proxy.transport.sasl_exchange import SaslRefused, authenticate
from proxy.transport.tcp_stream import open_tcp
from proxy.transport.tls_stream import TlsStream
from proxy.wire.sasl_login import MECHANISMS, login

_CLIENT_ID = "epochgate-exporter"
_DEFAULT_PORT = 9092
_MOST_BYTES = 64 * 1024 * 1024
_MOST_ELEMENTS = 2_000_000
"""Of the arrays of one answer: descriptions of groups with ten thousand members and their partitions fit."""

_NOT_HERE = ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem", "ssl.engine.location")


class UnsupportedAccount(Exception):
    """The properties ask for something that this module does not have, or name a file that can't be used."""


class BrokerRefuses(Exception):
    """A broker answers with an error code, or lacks an API."""


class BrokerAccount:
    """How to connect as the account of these librdkafka properties.

    :raises UnsupportedAccount: see there.
    """

    def __init__(self, properties: Mapping[str, Property]) -> None:
        given = {name: str(value) for name, value in properties.items()}
        servers = given.get("bootstrap.servers") or given.get("metadata.broker.list", "")
        self.bootstrap = tuple(_address(one) for one in servers.split(",") if one.strip())
        protocol = given.get("security.protocol", "plaintext").lower()
        for name in _NOT_HERE:
            if name in given:
                raise UnsupportedAccount(f"`{name}` is not supported for counts of the cluster's groups")
        self._tls = _context(given) if protocol.endswith("ssl") else None
        self._sasl: tuple[str, str, str] | None = None
        if protocol.startswith("sasl"):
            mechanism = given.get("sasl.mechanisms") or given.get("sasl.mechanism", "GSSAPI")
            if mechanism not in MECHANISMS:
                raise UnsupportedAccount(
                    f"`sasl.mechanisms: {mechanism}` is not supported for counts of the cluster's groups, only "
                    + ", ".join(MECHANISMS)
                )
            self._sasl = mechanism, given.get("sasl.username", ""), given.get("sasl.password", "")

    async def connect(self, address: Address, meant: NodeIdentity | None = None) -> "BrokerConnection":
        """Connect and authenticate; the caller closes the connection. ``meant``: the broker that is to be there.

        :raises OSError, trio.BrokenResourceError, TlsError, NoAnswerError: no connection, or no usable answer.
        :raises WrongRouteError: another broker is there, and checks that.
        :raises BrokerRefuses, LoginError: the broker refuses the credentials, or can't be trusted.
        """
        transport = await open_tcp(*address)
        stream: trio.abc.Stream = transport
        try:
            if self._tls is not None:
                name = address.host if self._tls.check_hostname else None
                stream = tls = TlsStream(transport, self._tls, server_side=False, server_name=name)
                await tls.handshake()
            connection = BrokerConnection(stream)
            await connection.learn_versions()
            if self._sasl is not None:
                await connection.authenticate(*self._sasl)
            if meant is not None:
                await connection.check_route(meant)
        except BaseException:
            transport.socket.close()
            raise
        return connection


class BrokerConnection:
    """One connection with one request in flight."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._calls = BrokerCalls(stream, _CLIENT_ID, _MOST_BYTES, _MOST_ELEMENTS)
        self._versions: dict[int, tuple[int, int]] = {}

    async def aclose(self) -> None:
        """Close it."""
        await self._calls.aclose()

    async def learn_versions(self) -> None:
        """Ask for the broker's API versions, which it tells before authentication too."""
        answer = await self._calls.api_versions("exporter")
        self._versions = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}

    async def check_route(self, meant: NodeIdentity) -> None:
        """Have the broker check that it is this one, if it can; after authentication.

        :raises WrongRouteError: it is another one.
        """
        if self._versions.get(ApiKey.API_VERSIONS, (0, 0))[1] >= NODE_FROM:
            await self._calls.api_versions("exporter", meant)

    async def authenticate(self, mechanism: str, user: str, password: str) -> None:
        """Authenticate by SASL.

        :raises BrokerRefuses: the broker does not have the mechanism, or refuses the credentials.
        :raises LoginError: it does not know the password itself.
        """
        try:
            await authenticate(self._calls, mechanism, login(mechanism, user, password))
        except SaslRefused as error:
            raise BrokerRefuses(str(error)) from None

    def version(self, api_key: ApiKey, response: type[Message]) -> int | None:
        """The newest version that the broker has and this project declares."""
        low, high = self._versions.get(api_key, (1, 0))
        own = response.__schema__.versions
        newest = min(high, own.high)
        return newest if newest >= max(low, own.low) else None

    async def call(self, api_key: ApiKey, message: Message, response: type[M]) -> M:
        """Send a request in the newest common version and return its answer.

        :raises BrokerRefuses: the broker does not have the API in any version that is declared here.
        :raises NoAnswerError: there is no usable answer.
        """
        version = self.version(api_key, response)
        if version is None:
            raise BrokerRefuses(f"the broker has no {api_key.name} of a known version")
        return await self._calls.call(api_key, version, message, response)


def _address(text: str) -> Address:
    text = text.strip().rpartition("://")[2]
    try:
        return Address.parse(text)
    except ValueError:
        return Address(text.strip("[]"), _DEFAULT_PORT)


def _context(given: Mapping[str, str]) -> ssl.SSLContext:
    """The TLS context of the properties; librdkafka's defaults where they say nothing.

    :raises UnsupportedAccount: a file can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        file, pem = given.get("ssl.ca.location"), given.get("ssl.ca.pem")
        if file or pem:
            context.load_verify_locations(cafile=file, cadata=pem)
        else:
            context.load_default_certs()
        if certificate := given.get("ssl.certificate.location"):
            password = given.get("ssl.key.password", "")
            context.load_cert_chain(certificate, given.get("ssl.key.location"), password=password)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise UnsupportedAccount(f"the account's TLS files can't be used: {error}") from None
    return context
