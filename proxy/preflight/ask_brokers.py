"""Asks brokers what they tell anybody: their addresses (if they want no authentication) and their API versions.

One connection for each, all at once with a bound, each with a deadline.
"""

from collections.abc import Mapping, Sequence

import msgspec
import trio

from protocol_codecs import ApiKey, CodecError, decode
from protocol_codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol_codecs.messages.metadata import MetadataRequest, MetadataResponse
from proxy.cluster.bootstrap import exchange
from proxy.cluster.dialer import Open, UnreachableError
from proxy.config.schema import Address
from proxy.preflight.facts import Apis, Unknown
from proxy.wire.frame_splitter import FrameError
from proxy.wire.framing import request_frame, response_body_offset

CONCURRENT = 20
"""Brokers that are asked at once."""

MOST_BROKERS = 1_000
"""A cluster that says it has more is not asked: each of them may take as long as it likes, up to the timeout."""

_MOST_BYTES = 1024 * 1024
"""Of an answer: more than any of a broker with so many others."""

_CLIENT_ID = "epochgate-preflight"
_API_VERSIONS_VERSION = 3
"""The first with the finalized features; Kafka 2.4 and newer have it, older ones answer UNSUPPORTED_VERSION."""
_METADATA_VERSION = 1
_UNREACHABLE_DO = "see that this machine reaches the brokers' addresses, with the TLS settings that they want"
_NEEDS_ACCOUNT_DO = (
    "give an account that the brokers know: --kafka-conf, or `fleet.kafka` in the configuration"
)
_FAILURES = (OSError, UnicodeError, trio.BrokenResourceError, UnreachableError, CodecError, FrameError)


class BrokerAddress(msgspec.Struct, frozen=True):
    """A broker in the cluster's metadata."""

    node_id: int
    address: Address


class Found(msgspec.Struct, frozen=True):
    """The brokers of a cluster as anybody is told them; ``answered`` has the API versions of the addresses asked."""

    brokers: tuple[BrokerAddress, ...] | Unknown
    answered: Mapping[str, Apis]


async def find_brokers(bootstrap: Sequence[Address], open_: Open, timeout_s: float) -> Found:
    """Ask the bootstrap brokers, all at once, for the cluster's brokers, without credentials."""
    answered: dict[str, Apis] = {}
    told: dict[Address, tuple[BrokerAddress, ...]] = {}
    failures: dict[Address, str] = {}
    limiter = trio.CapacityLimiter(CONCURRENT)

    async def ask(address: Address) -> None:
        try:
            async with limiter:
                with trio.fail_after(timeout_s):
                    stream = await open_(address.host, address.port)
                    async with stream:
                        answered[str(address)] = _read_versions(await _ask_versions(stream))
                        told[address] = await _ask_metadata(stream)
        except (*_FAILURES, trio.TooSlowError) as error:
            failures[address] = f"{address}: {_reason(error, timeout_s)}"

    async with trio.open_nursery() as nursery:
        for address in bootstrap:
            nursery.start_soon(ask, address)
    brokers: tuple[BrokerAddress, ...] | Unknown
    if told:
        brokers = not_too_many(next(iter(told.values())))
    elif answered:
        brokers = Unknown("brokers tell it to authenticated clients only", _NEEDS_ACCOUNT_DO)
    else:
        brokers = Unknown("; ".join(failures[one] for one in bootstrap), _UNREACHABLE_DO)
    return Found(brokers, answered)


def not_too_many(brokers: tuple[BrokerAddress, ...]) -> tuple[BrokerAddress, ...] | Unknown:
    """The brokers, or that they are too many to be asked."""
    if len(brokers) <= MOST_BROKERS:
        return brokers
    why = f"the cluster says that it has {len(brokers)} brokers, and at most {MOST_BROKERS} are asked"
    return Unknown(why, "see that this is the cluster that you mean")


async def ask_apis(
    brokers: Sequence[BrokerAddress], open_: Open, timeout_s: float
) -> dict[int, Apis | Unknown]:
    """Ask every broker for its API versions; what it answers, or why it did not, by node id."""
    answers: dict[int, Apis | Unknown] = {}
    limiter = trio.CapacityLimiter(CONCURRENT)

    async def ask(broker: BrokerAddress) -> None:
        async with limiter:
            answers[broker.node_id] = await _ask(broker.address, open_, timeout_s)

    async with trio.open_nursery() as nursery:
        for broker in brokers:
            nursery.start_soon(ask, broker)
    return answers


async def _ask(address: Address, open_: Open, timeout_s: float) -> Apis | Unknown:
    try:
        with trio.fail_after(timeout_s):
            stream = await open_(address.host, address.port)
            async with stream:
                return _read_versions(await _ask_versions(stream))
    except (*_FAILURES, trio.TooSlowError) as error:
        return Unknown(f"{address}: {_reason(error, timeout_s)}", _UNREACHABLE_DO)


async def _ask_versions(stream: trio.abc.Stream) -> bytes:
    message = ApiVersionsRequest(client_software_name="epochgate", client_software_version="preflight")
    return await exchange(
        stream, request_frame(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, 1, _CLIENT_ID, message), _MOST_BYTES
    )


def _read_versions(frame: bytes) -> Apis:
    """:raises CodecError: it is not the answer; a broker that lacks the version answers in v0."""
    offset = response_body_offset(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, frame)
    try:
        response = decode(ApiVersionsResponse, _API_VERSIONS_VERSION, frame, offset)
    except CodecError:
        response = decode(ApiVersionsResponse, 0, frame, offset)
    return Apis(
        versions={one.api_key: (one.min_version, one.max_version) for one in response.api_keys},
        features={one.name: one.max_version_level for one in response.finalized_features},
    )


async def _ask_metadata(stream: trio.abc.Stream) -> tuple[BrokerAddress, ...]:
    request = request_frame(ApiKey.METADATA, _METADATA_VERSION, 2, _CLIENT_ID, MetadataRequest(topics=()))
    frame = await exchange(stream, request, _MOST_BYTES)
    offset = response_body_offset(ApiKey.METADATA, _METADATA_VERSION, frame)
    response = decode(MetadataResponse, _METADATA_VERSION, frame, offset)
    return tuple(BrokerAddress(one.node_id, Address(one.host, one.port)) for one in response.brokers)


def _reason(error: Exception, timeout_s: float) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {timeout_s:g} s"
    several = error.__cause__
    errors = several.exceptions if isinstance(several, ExceptionGroup) else (error,)
    return "; ".join(
        dict.fromkeys(getattr(one, "strerror", None) or str(one) or type(one).__name__ for one in errors)
    )
