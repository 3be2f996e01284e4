"""Asks brokers what they tell anybody: their addresses (if they want no authentication) and their API versions.

One connection for each, all at once with a bound, each with a deadline.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from errno import errorcode

import msgspec
import trio

from protocol_codecs import ApiKey
from protocol_codecs.messages.api_versions import NODE_FROM
from protocol_codecs.messages.metadata import MetadataRequest, MetadataResponse
from proxy.config.host_names import is_host
from proxy.config.schema import Address
from proxy.preflight.facts import Apis, Unknown
from proxy.transport.broker_calls import (
    BrokerCalls,
    ConnectionClosedError,
    NoAnswerError,
    WrongRouteError,
)
from proxy.transport.dialer import Open
from proxy.transport.node_table import NodeIdentity

CONCURRENT = 20
"""Brokers that are asked at once."""

MOST_BROKERS = 1_000
"""A cluster that says it has more is not asked: each of them may take as long as it likes, up to the timeout."""

_MOST_BYTES = 1024 * 1024
"""Of an answer: more than any of a broker with so many others."""

_MOST_ELEMENTS = 20_000
"""Of the arrays of an answer: a broker is not to keep this process busy with many small ones."""

_MOST_PORT = 65_535
_MOST_CHARS = 300
"""Of what a broker says that is repeated in a report."""


_CLIENT_ID = "epochgate-preflight"
_METADATA_VERSION = 2
_UNREACHABLE_DO = "see that this machine reaches the brokers' addresses, with the TLS settings that they want"
_NEEDS_ACCOUNT_DO = (
    "give an account that the brokers know: --kafka-conf, or `fleet.kafka` in the configuration"
)
_ADDRESS_DO = "mend advertised.listeners of the broker"
_ROUTE_DO = "mend advertised.listeners of the broker, or what leads from that address to another one"

_FAILURES = (OSError, UnicodeError, trio.BrokenResourceError, trio.TooSlowError, NoAnswerError)


class BrokerAddress(msgspec.Struct, frozen=True):
    """A broker in the cluster's metadata."""

    node_id: int
    address: Address

    @property
    def is_usable(self) -> bool:
        """Whether a connection to it can be tried at all."""
        return 0 < self.address.port <= _MOST_PORT and is_host(self.address.host)


class Found(msgspec.Struct, frozen=True):
    """The brokers of a cluster as Metadata names them; ``answered`` has the API versions of the addresses asked.

    ``cluster_id`` is the cluster's, None if it is not known.
    """

    brokers: tuple[BrokerAddress, ...] | Unknown
    answered: Mapping[str, Apis]
    cluster_id: str | None = None


async def find_brokers(bootstrap: Sequence[Address], open_: Open, timeout_s: float) -> Found:
    """Ask the bootstrap brokers, all at once, for the cluster's brokers, without credentials."""
    answered: dict[str, Apis] = {}
    told: dict[Address, MetadataResponse] = {}
    failures: dict[Address, Exception] = {}
    limiter = trio.CapacityLimiter(CONCURRENT)

    async def ask(address: Address) -> None:
        try:
            async with limiter:
                with trio.fail_after(timeout_s):
                    stream = await open_(address.host, address.port)
                    async with stream:
                        calls = _calls(stream)
                        answered[str(address)] = await _apis(calls)
                        told[address] = await _metadata(calls)
        except _FAILURES as error:
            failures[address] = error

    async with trio.open_nursery() as nursery:
        for address in bootstrap:
            nursery.start_soon(ask, address)
    brokers: tuple[BrokerAddress, ...] | Unknown
    cluster_id = None
    if told:
        metadata = next(iter(told.values()))
        brokers = believable(
            [BrokerAddress(one.node_id, Address(one.host, one.port)) for one in metadata.brokers]
        )
        cluster_id = metadata.cluster_id
    elif any(str(one) in answered and isinstance(failures[one], ConnectionClosedError) for one in bootstrap):
        brokers = Unknown("brokers tell it to authenticated clients only", _NEEDS_ACCOUNT_DO)
    else:
        reasons = (f"{one}: {_reason(failures[one], timeout_s)}" for one in bootstrap)
        brokers = Unknown("; ".join(reasons), _UNREACHABLE_DO)
    return Found(brokers, answered, cluster_id)


def believable(brokers: Sequence[BrokerAddress]) -> tuple[BrokerAddress, ...] | Unknown:
    """The brokers, or why such a list can't be that of a cluster.

    An empty list is refused too: nothing that is asked of every broker is true because there is none.
    """
    ids = [one.node_id for one in brokers]
    (often, times), *_ = Counter(ids).most_common(1) or [(0, 0)]
    if not ids:
        why = "the cluster says that it has no brokers"
    elif len(ids) > MOST_BROKERS:
        why = f"the cluster says that it has {len(ids)} brokers, and at most {MOST_BROKERS} are asked"
    elif min(ids) < 0:
        why = f"the cluster names a broker {min(ids)}, which no broker is"
    elif times > 1:
        why = f"the cluster names broker {often} {times} times"
    else:
        return tuple(brokers)
    return Unknown(why, "see that this is the cluster that you mean, and that it has started")


async def ask_apis(
    brokers: Sequence[BrokerAddress], open_: Open, timeout_s: float, cluster_id: str | None = None
) -> dict[int, Apis | Unknown]:
    """Ask every broker for its API versions; what it answers, or why it did not, by node id.

    With the cluster's id those of Kafka 4.4 check that they are the brokers that the cluster names (KIP-1242).
    """
    answers: dict[int, Apis | Unknown] = {}
    limiter = trio.CapacityLimiter(CONCURRENT)

    async def ask(broker: BrokerAddress) -> None:
        async with limiter:
            meant = None if cluster_id is None else NodeIdentity(cluster_id, broker.node_id)
            answers[broker.node_id] = await _ask(broker, open_, timeout_s, meant)

    async with trio.open_nursery() as nursery:
        for broker in brokers:
            nursery.start_soon(ask, broker)
    return answers


async def _ask(
    broker: BrokerAddress, open_: Open, timeout_s: float, meant: NodeIdentity | None
) -> Apis | Unknown:
    address = broker.address
    if not broker.is_usable:
        return Unknown(f"it advertises {_shortened(str(address))}, which is no address", _ADDRESS_DO)
    try:
        with trio.fail_after(timeout_s):
            stream = await open_(address.host, address.port)
            async with stream:
                return await _apis(_calls(stream), meant)
    except WrongRouteError as error:
        return Unknown(_shortened(f"{address}: {error}"), _ROUTE_DO)
    except _FAILURES as error:
        return Unknown(f"{address}: {_reason(error, timeout_s)}", _UNREACHABLE_DO)


def _calls(stream: trio.abc.Stream) -> BrokerCalls:
    return BrokerCalls(stream, _CLIENT_ID, _MOST_BYTES, _MOST_ELEMENTS)


async def _apis(calls: BrokerCalls, meant: NodeIdentity | None = None) -> Apis:
    response = await calls.api_versions("preflight")
    apis = Apis(
        versions={one.api_key: (one.min_version, one.max_version) for one in response.api_keys},
        features={one.name: one.max_version_level for one in response.finalized_features},
    )
    if meant is not None and apis.versions.get(ApiKey.API_VERSIONS, (0, 0))[1] >= NODE_FROM:
        await calls.api_versions("preflight", meant)
    return apis


async def _metadata(calls: BrokerCalls) -> MetadataResponse:
    request = MetadataRequest(topics=())
    return await calls.call(ApiKey.METADATA, _METADATA_VERSION, request, MetadataResponse)


def _reason(error: Exception, timeout_s: float) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {timeout_s:g} s"
    cause = error.__cause__
    if isinstance(cause, ExceptionGroup):
        errors: tuple[BaseException, ...] = cause.exceptions
    else:
        errors = (error if str(error) or cause is None else cause,)
    return _shortened("; ".join(dict.fromkeys(map(_said, errors))))


def _said(error: BaseException) -> str:
    """What an error says, without the address, which stands before it anyway."""
    if isinstance(error, OSError) and error.errno is not None and error.errno in errorcode:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
