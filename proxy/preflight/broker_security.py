"""What security brokers require of whoever connects, and what a configuration lacks for it: before anything is started.

A listener says that without credentials. It closes a connection that speaks plain text to a TLS port, and to
SaslHandshake with a mechanism that it does not have it answers with those that it has, or with ILLEGAL_SASL_STATE if it
requires no authentication (KIP-43). No certificate is verified here and nothing secret is sent.
"""

import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import trio

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol_codecs.printable import printable
from proxy.config.fleet import Property
from proxy.config.schema import Address, Config
from proxy.config.tls import UpstreamTls
from proxy.transport.broker_calls import BrokerCalls, ConnectionClosedError, NoAnswerError

TIMEOUT_S = 5.0
"""For each of the connections that it takes to learn what a broker requires."""

_REQUEST_S = 10.0
_CLIENT_ID = "epochgate-preflight"
_MOST_BYTES = 1024 * 1024
_MOST_ELEMENTS = 20_000
_MOST_MECHANISMS = 10
_MOST_CHARS = 300
_DEFAULT_PORT = 9092
"""librdkafka's, for a broker without one."""
_FAILURES = (
    OSError,
    UnicodeError,
    ssl.SSLError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
    NoAnswerError,
)
_NO_CERTIFICATE = ("ALERT_CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE")
_PREFERRED = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_NO_PASSWORD = frozenset({"GSSAPI", "OAUTHBEARER"})
"""Mechanisms whose account is not a name with a password."""


class NotLearned(Exception):
    """No broker says what it requires. The message has the reason for each address."""


class Required(msgspec.Struct, frozen=True):
    """what a listener of a broker requires: TLS, a certificate of the client, one of these SASL mechanisms (none: no
    SASL).

    ``mechanisms`` is None if it requires authentication and does not say by which.
    """

    address: Address
    tls: bool
    certificate: bool = False
    mechanisms: tuple[str, ...] | None = ()

    @property
    def protocol(self) -> str:
        """The listener's security protocol, as Kafka names it."""
        if self.mechanisms == ():
            return "SSL" if self.tls else "PLAINTEXT"
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"

    def __str__(self) -> str:
        """For people: the protocol, the mechanisms, and a certificate."""
        how = [self.protocol]
        if self.mechanisms:
            how.append("by " + " or ".join(self.mechanisms))
        if self.certificate:
            how.append("with a client certificate")
        return " ".join(how)


async def learn(addresses: Sequence[Address]) -> Required:
    """Ask these brokers, one after another until one answers, what they require.

    :raises NotLearned: none answers.
    """
    reasons: list[str] = []
    for address in addresses:
        try:
            return await _learn(address)
        except _FAILURES as error:
            why = "no answer" if isinstance(error, trio.TooSlowError) else str(error) or type(error).__name__
            reasons.append(f"{address}: {why}"[:_MOST_CHARS])
    raise NotLearned(printable("; ".join(reasons)))


async def _learn(address: Address) -> Required:
    try:
        with trio.fail_after(TIMEOUT_S):
            return await _ask(address, await _connect(address), tls=False)
    except (NoAnswerError, trio.BrokenResourceError, trio.TooSlowError) as error:
        plain: Exception = error
    try:
        with trio.fail_after(TIMEOUT_S):
            stream = trio.SSLStream(await _connect(address), _anybody(), server_hostname=address.host)
            try:
                await stream.do_handshake()
                return await _ask(address, stream, tls=True)
            except (NoAnswerError, trio.BrokenResourceError) as error:
                if _requires_certificate(error):
                    return Required(address, tls=True, certificate=True)
                raise
            finally:
                await trio.aclose_forcefully(stream)
    except (NoAnswerError, trio.BrokenResourceError, trio.TooSlowError):
        raise plain from None  # it is no TLS port either


async def _connect(address: Address) -> trio.SocketStream:
    return await trio.open_tcp_stream(address.host, address.port)


async def _ask(address: Address, stream: trio.abc.Stream, *, tls: bool) -> Required:
    calls = BrokerCalls(stream, _CLIENT_ID, _MOST_BYTES, _MOST_ELEMENTS)
    try:
        await calls.api_versions("preflight")
        try:
            answer = await calls.call(
                ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=""), SaslHandshakeResponse
            )
        except ConnectionClosedError:
            return Required(address, tls, mechanisms=None)
    finally:
        await calls.aclose()
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return Required(address, tls)
    return Required(
        address, tls, mechanisms=tuple(map(printable, answer.mechanisms[:_MOST_MECHANISMS])) or None
    )


def _anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _requires_certificate(error: BaseException | None) -> bool:
    """Whether the broker ended TLS since no certificate was shown: 1.3 has an alert for it, Java another in 1.2."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and any(one in (error.reason or "") for one in _NO_CERTIFICATE):
            return True
        error = error.__cause__
    return False


def upstream_problem(tls: UpstreamTls | None, required: Required) -> str | None:
    """What `upstream` lacks to connect clients to such a listener; None if nothing."""
    where = f"the brokers require {required} at {required.address}"
    if required.tls and tls is None:
        return f"{where}, and `upstream.tls` is not set"
    if tls is not None and not required.tls:
        return f"{where}, and `upstream.tls` is set"
    if required.certificate and (tls is None or tls.certificate is None):
        return f"{where}, and `upstream.tls.certificate` is not set"
    return None


def account_problem(given: Mapping[str, Property], required: Required) -> str | None:
    """What the properties of `fleet.kafka` lack to connect to such a listener; None if nothing, as far as it says."""
    protocol = str(given.get("security.protocol", "PLAINTEXT")).upper()
    mechanism = str(given.get("sasl.mechanisms", given.get("sasl.mechanism", "")))
    where = f"the brokers require {required} at {required.address}"
    is_sasl = required.protocol.startswith("SASL")
    if is_sasl and not protocol.startswith("SASL"):
        return f"the member log has no account: {where}. {_how(required)}"
    if protocol != required.protocol:
        return f"{where}, and `fleet.kafka` has `security.protocol: {protocol}`. {_how(required)}"
    if is_sasl and required.mechanisms is not None and (mechanism or "GSSAPI") not in required.mechanisms:
        return f"{where}, and `fleet.kafka` has `sasl.mechanisms: {mechanism or 'GSSAPI'}`. {_how(required)}"
    if is_sasl and (mechanism or "GSSAPI") not in _NO_PASSWORD:
        missing = [name for name in ("sasl.username", "sasl.password") if not given.get(name)]
        if missing:
            what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
            return f"the member log has no account: {where}, and {what}. {_how(required)}"
    if required.certificate and not {
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.keystore.location",
    } & {*given}:
        return f"the member log has no account: {where}, and `fleet.kafka` has no `ssl.certificate.location`"
    return None


def _how(required: Required) -> str:
    if not required.protocol.startswith("SASL"):
        return f"Set `security.protocol: {required.protocol}` there"
    offered = required.mechanisms or ()
    mechanism = next((one for one in _PREFERRED if one in offered), (*offered, "MECHANISM")[0])
    properties = f"security.protocol: {required.protocol}, sasl.mechanisms: {mechanism}, sasl.username: NAME"
    return (
        f"Set `fleet.kafka: {{{properties}}}`, and its password from a Secret: in the chart `fleet.secretName` and "
        "`fleet.secretFiles: {sasl.password: KEY}`, else `fleet.kafka_files`"
    )


def log_problem(topic: str, given: Mapping[str, Property]) -> str | None:
    """What the brokers say to the account when it asks for its rights on the topic of the log; None if it has those
    that it needs, or there is no such topic yet. It blocks.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection  # noqa: PLC0415 - only with a member log
    from confluent_kafka.admin import AclOperation, AdminClient  # noqa: PLC0415

    errors: list[KafkaError] = []
    properties: dict[str, Any] = {"log_level": 0, **given, "error_cb": errors.append}
    admin = None
    try:
        admin = AdminClient(properties)
        asked = admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=_REQUEST_S
        )
        may = asked[topic].result(_REQUEST_S + 1).authorized_operations
    except (KafkaException, TypeError, ValueError, TimeoutError) as error:
        code = error.args[0].code() if isinstance(error, KafkaException) else None
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"the account of `fleet.kafka` may not describe the topic {topic}"
        if admin is not None:
            admin.poll(0)  # has what went wrong on the way put into `errors`
        said = [one.str() for one in errors if one.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001 its public name
        why = said[-1] if said else str(error) or "no answer"
        return printable(f"the brokers refuse the member log's account: {why}"[: 2 * _MOST_CHARS])
    needed = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    missing = [one.name for one in needed if may is not None and one not in may]
    return (
        f"the account of `fleet.kafka` lacks {', '.join(missing)} on the topic {topic}" if missing else None
    )


async def problems(config: Config, given: Mapping[str, Property]) -> list[str]:
    """What the configuration lacks, the most important first. ``given`` is `fleet.kafka` with its secrets.

    :raises NotLearned: no broker answers.
    """
    addresses = config.upstream.addresses
    required = await learn(addresses)
    found = [upstream_problem(config.upstream.tls, required)]
    if config.fleet is not None:
        brokers = addresses_of(given)
        of_log = required if set(brokers) <= set(addresses) else await learn(brokers)
        problem = account_problem(given, of_log)
        if problem is None:
            problem = await trio.to_thread.run_sync(log_problem, config.fleet.topic, given)
        found.insert(0, problem)
    return [one for one in found if one is not None]


def addresses_of(given: Mapping[str, Property]) -> list[Address]:
    """The brokers that librdkafka's properties name, without those in forms that only librdkafka reads."""
    text = str(given.get("bootstrap.servers", given.get("metadata.broker.list", "")))
    found = []
    for part in text.split(","):
        address = part.strip().rpartition("://")[2]
        with suppress(ValueError):  # librdkafka takes other forms too
            found.append(Address.parse(address if ":" in address else f"{address}:{_DEFAULT_PORT}"))
    return found
