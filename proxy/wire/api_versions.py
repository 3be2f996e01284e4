"""Negotiates API versions: a client is offered the broker's own ranges, cut to what was reviewed (KIP-511, KIP-584).

The result belongs to one upstream connection, since the brokers of a cluster may differ during an upgrade.
"""

import re
from collections.abc import Mapping
from functools import cached_property

import msgspec
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode, MalformedMessage, decode, encode
from protocol_codecs.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from protocol_codecs.registry import APIS
from proxy.wire import request_upgrades
from proxy.wire.framing import correlation_id_of, response_body_offset, response_of_body
from proxy.wire.supported_versions import (
    API_NEEDS,
    AUTHENTICATION_APIS,
    FEATURE_NEEDS,
    NEVER_OFFERED,
    NEWEST_REVIEWED,
    OLDEST_REVIEWED,
    VERSION_NEEDS,
)
from proxy.wire.translated_apis import GUARDED, TRANSLATED

Ranges = Mapping[int, tuple[int, int]]
"""API key -> lowest and highest version, both inclusive."""

LEARNING_VERSION = 0
"""The version in which the proxy itself asks: every broker answers it, and it has the ranges."""

SOFTWARE_FROM = 3
"""The version since which clients name their software (KIP-511)."""

_SOFTWARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")
_ERROR_BODY_VERSION = 0
_REMEMBERED = 64
_MOST_APIS = 1024
_HIGHEST_VERSION = 2**15 - 1


class NegotiatedVersions(msgspec.Struct, frozen=True):
    """``broker`` are the broker's own ranges, ``client`` those that the client may use.

    ``body`` is the response for the client, in the version that it asked in.
    """

    broker: Ranges
    client: Ranges
    body: bytes


class ApiVersionsNegotiator:
    """Makes offers, and remembers them: thousands of connections get the same answer from the same broker.

    ``allow_unknown_apis`` offers what was not reviewed, in the broker's own range; never what is only for brokers.
    ``withheld`` APIs are not offered either.
    """

    def __init__(self, *, allow_unknown_apis: bool, withheld: frozenset[int] = frozenset()) -> None:
        self._allow_unknown_apis = allow_unknown_apis
        self._withheld = withheld
        self._negotiated: dict[tuple[int, bytes], NegotiatedVersions] = {}

    @property
    def default_ranges(self) -> Ranges:
        """What a client may use that never asks; the broker refuses what it lacks."""
        every = _EVERYTHING if self._allow_unknown_apis else _EVERYTHING_REVIEWED
        if not self._withheld:
            return every
        return {api_key: versions for api_key, versions in every.items() if api_key not in self._withheld}

    @cached_property
    def for_authenticated(self) -> "ApiVersionsNegotiator":
        """The one for clients in whose place the proxy has authenticated."""
        return ApiVersionsNegotiator(
            allow_unknown_apis=self._allow_unknown_apis, withheld=AUTHENTICATION_APIS
        )

    def negotiate(self, version: int, frame: bytes) -> NegotiatedVersions:
        """The offer that follows from the broker's response in this version.

        :raises MalformedMessage: it is not an ApiVersions response, and the version was 0.
        """
        body = frame[response_body_offset(ApiKey.API_VERSIONS, version, frame) :]
        known = self._negotiated.get((version, body))
        if known is None:
            if len(self._negotiated) >= _REMEMBERED:
                self._negotiated.clear()
            known = self._negotiated[version, body] = self._negotiate(version, body)
        return known

    def _negotiate(self, version: int, body: bytes) -> NegotiatedVersions:
        response, version = _read(version, body)
        if response.error_code != ErrorCode.NONE:
            keys = tuple(_capped(key) for key in response.api_keys if key.api_key == ApiKey.API_VERSIONS)
            return NegotiatedVersions({}, {}, encode(replace(response, api_keys=keys), version))
        broker = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        client = {
            api_key: versions
            for api_key in broker
            if (versions := self._client_range(api_key, broker[api_key]))
        }
        for api_key, needed in API_NEEDS.items():
            if not client.keys() >= needed:
                client.pop(api_key, None)
        for (api_key, first), needed_api in VERSION_NEEDS.items():
            low, high = client.get(api_key, (0, -1))
            if high >= first and needed_api not in client:
                if low < first:
                    client[api_key] = (low, first - 1)
                else:
                    del client[api_key]
        answer = replace(
            response,
            api_keys=tuple(
                ApiVersion(api_key=api_key, min_version=low, max_version=high)
                for api_key, (low, high) in client.items()
            ),
            finalized_features=tuple(
                kept for feature in response.finalized_features if (kept := _consistent(feature, client))
            ),
        )
        return NegotiatedVersions(broker, client, encode(answer, version))

    def _client_range(self, api_key: int, broker: tuple[int, int]) -> tuple[int, int] | None:
        if api_key in self._withheld:
            return None
        low, high = broker
        newest = NEWEST_REVIEWED.get(api_key)
        if newest is None:
            return broker if self._allow_unknown_apis and api_key not in NEVER_OFFERED else None
        low = max(request_upgrades.lowest_offered_version(api_key, low), _oldest(api_key))
        high = min(high, newest)
        return (low, high) if low <= high else None


def _oldest(api_key: int) -> int:
    return OLDEST_REVIEWED.get(api_key, 0)


def _read(version: int, body: bytes) -> tuple[ApiVersionsResponse, int]:
    """The broker's answer to a request in ``version``, and the version in which its client is told.

    UNSUPPORTED_VERSION has the form of v0 whatever was asked; librdkafka's mock cluster gives it a form that is
    neither that nor the one of the version asked for. What can't be read is told to the client as by a broker that
    knows v0 only, so that it asks once more, in v0.

    :raises MalformedMessage: an answer in v0 can't be read.
    """
    unsupported = body[:2] == _UNSUPPORTED
    for form in (_ERROR_BODY_VERSION, version) if unsupported else (version,):
        try:
            response = decode(ApiVersionsResponse, form, body)
        except MalformedMessage:
            if version == _ERROR_BODY_VERSION:
                raise
        else:
            return response, _ERROR_BODY_VERSION if unsupported else form
    return _unsupported(_ERROR_BODY_VERSION), _ERROR_BODY_VERSION


def _unsupported(newest: int) -> ApiVersionsResponse:
    """What says that ApiVersions may be asked in versions up to ``newest``."""
    return ApiVersionsResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION),
        api_keys=(ApiVersion(api_key=int(ApiKey.API_VERSIONS), min_version=0, max_version=newest),),
    )


def newest_offered(ranges: Ranges) -> int:
    """Return the newest version of ApiVersions that a client with these ranges may use."""
    return ranges.get(ApiKey.API_VERSIONS, (0, NEWEST_REVIEWED[ApiKey.API_VERSIONS]))[1]


def refusal(correlation_id: int, newest: int) -> bytes:
    """The answer to an ApiVersions request in a version above ``newest``, as brokers give it.

    Its body is v0 whatever was asked, and it names the versions of ApiVersions that may be asked. Java asks in its
    newest version once more after it has authenticated, whatever it was answered before.
    """
    body = encode(_unsupported(newest), _ERROR_BODY_VERSION)
    return response_of_body(ApiKey.API_VERSIONS, _ERROR_BODY_VERSION, correlation_id, body)


def answer(negotiated: NegotiatedVersions, version: int, frame: bytes) -> bytes:
    """The response for the client in place of the broker's ``frame``."""
    return response_of_body(ApiKey.API_VERSIONS, version, correlation_id_of(frame), negotiated.body)


def _capped(key: ApiVersion) -> ApiVersion:
    return replace(key, max_version=min(key.max_version, NEWEST_REVIEWED[key.api_key]))


def _consistent(feature: FinalizedFeatureKey, offered: Ranges) -> FinalizedFeatureKey | None:
    """The feature at the highest level whose APIs are all offered; None if there is no such level."""
    level = feature.max_version_level
    for needing_level, api_key, version in FEATURE_NEEDS.get(feature.name, ()):
        if level >= needing_level and offered.get(api_key, (0, -1))[1] < version:
            level = needing_level - 1
    if level < 1 or level < feature.min_version_level:
        return None
    return replace(feature, max_version_level=level)


_UNSUPPORTED = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
_EVERYTHING_REVIEWED: Ranges = {
    api_key: (_oldest(api_key), newest) for api_key, newest in NEWEST_REVIEWED.items()
}
_UNKNOWN_APIS = set(range(_MOST_APIS)) - NEWEST_REVIEWED.keys() - NEVER_OFFERED
_EVERYTHING: Ranges = {**dict.fromkeys(_UNKNOWN_APIS, (0, _HIGHEST_VERSION)), **_EVERYTHING_REVIEWED}

if not APIS.keys() >= TRANSLATED | GUARDED:
    raise ImportError("an API that is handed to the translation has no declared messages")


def software(request: ApiVersionsRequest) -> str:
    """The client's software as ``name/version``; empty if it tells none, or what KIP-511 does not allow."""
    name, version = request.client_software_name, request.client_software_version
    return f"{name}/{version}" if _SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version) else ""
