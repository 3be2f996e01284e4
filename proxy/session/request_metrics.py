"""Counts requests and answers, their sizes, durations and errors, on the hot path: looks each labelled child of a
metric up once and keeps it.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from protocol_codecs import ApiKey, Message
from protocol_codecs.api_key import api_name
from protocol_codecs.error_code import error_name
from proxy.metrics.registry import Metrics
from proxy.session.in_flight import InFlightRequest
from proxy.wire.response_walks import ShareWalk

_SHARE_ACKNOWLEDGE = int(ApiKey.SHARE_ACKNOWLEDGE)
_UNKNOWN = "UNKNOWN"
_HIGHEST_VERSION = 99  # no API has come near in fifteen years; ApiVersions may be asked for in any version


_NO_ERRORS: frozenset[int] = frozenset()
_PARTS_WITH_ERRORS: dict[int, tuple[str, ...]] = {
    ApiKey.OFFSET_COMMIT: ("topics", "partitions"),
    ApiKey.TXN_OFFSET_COMMIT: ("topics", "partitions"),
    ApiKey.LEAVE_GROUP: ("members",),
    ApiKey.OFFSET_FETCH: ("groups",),
    ApiKey.DESCRIBE_GROUPS: ("groups",),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("groups",),
}
"""The fields in which responses of an API have further error codes, besides the one of the whole."""


def error_codes(api_key: int, message: Message) -> AbstractSet[int]:
    """Return the error codes in a response, without NONE."""
    code = getattr(message, "error_code", 0)
    if api_key not in _PARTS_WITH_ERRORS:
        return {code} if code else _NO_ERRORS
    fields = _PARTS_WITH_ERRORS[api_key]
    parts: list[Any] = [message]
    codes = {code}
    for field in fields:
        parts = [inner for part in parts for inner in getattr(part, field)]
    codes.update(getattr(part, "error_code", 0) for part in parts)
    return codes - {0}


class _Cache(dict[Any, Any]):
    """A dict that makes a missing value by ``make(key)``, once for each key."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> Any:
        made = self[key] = self._make(key)
        return made


class RequestMetrics:
    """Counts requests and responses. Times are seconds of the clock of :class:`InFlightRequest`."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        m = metrics
        self._requests = _Cache(
            lambda key: (
                m.client_requests.labels(*_labels(key[0], key[1]), str(key[2]).lower()),
                m.client_request_size.labels(_labels(key[0], 0)[0]),
            )
        )
        self._upstream_requests = _Cache(
            lambda key: m.upstream_requests.labels(*_labels(key[0], key[1]), str(key[2]).lower())
        )
        self._relayed = _Cache(lambda key: (*self._requests[key], self._upstream_requests[*key[:2], False]))
        self._responses = _Cache(
            lambda key: (
                m.upstream_responses.labels(*_labels(*key)),
                m.client_responses.labels(*_labels(*key)),
                m.client_response_size.labels(_labels(*key)[0]),
                m.request_duration.labels(_labels(*key)[0]),
            )
        )
        self._answers = _Cache(
            lambda key: (
                m.client_responses.labels(*_labels(*key)),
                m.answer_duration.labels(_labels(*key)[0]),
            )
        )
        self._calls = _Cache(
            lambda key: (
                m.upstream_responses.labels(*_labels(*key)),
                m.call_duration.labels(_labels(*key)[0]),
            )
        )

    def request(self, api_key: int, version: int, size: int, *, decoded: bool) -> None:
        """Count a request of a client."""
        count, sizes = self._requests[api_key, version, decoded]
        count.value += 1
        sizes.count += 1
        sizes.total += size

    def relayed(self, api_key: int, version: int, size: int, *, decoded: bool = False) -> None:
        """Count a client's request of ``size`` bytes that was relayed to a broker."""
        count, sizes, sent = self._relayed[api_key, version, decoded]
        count.value += 1
        sizes.count += 1
        sizes.total += size
        sent.value += 1

    def sent(self, api_key: int, version: int, *, injected: bool) -> None:
        """Count a request that was sent to a broker."""
        self._upstream_requests[api_key, version, injected].value += 1

    def response(self, entry: InFlightRequest, size: int, now: float) -> None:
        """Count a broker's response for a client, now that it is complete."""
        received, sent, sizes, duration = self._responses[entry.api_key, entry.version]
        received.value += 1
        sent.value += 1
        sizes.count += 1
        sizes.total += size
        duration.observe(now - entry.started)

    def answered(self, entry: InFlightRequest, message: Message, now: float) -> None:
        """Count a request that the proxy answered itself."""
        sent, duration = self._answers[entry.api_key, entry.version]
        sent.value += 1
        duration.observe(now - entry.started)
        for code in error_codes(entry.api_key, message):
            self.metrics.answer_errors.labels(api_name(entry.api_key), error_name(code)).inc()

    def call_returned(self, entry: InFlightRequest, now: float) -> None:
        """Count a broker's response to a request of the proxy."""
        received, duration = self._calls[entry.api_key, entry.version]
        received.value += 1
        duration.observe(now - entry.started)

    def call_result(self, api_key: int, message: Message) -> None:
        """Count the errors in a broker's response to a call of the translation."""
        for code in error_codes(api_key, message):
            self.metrics.call_errors.labels(api_name(api_key), error_name(code)).inc()

    def share_answered(self, api_key: int, walk: ShareWalk) -> None:
        """Count the errors that a broker's response gives for acknowledgements."""
        codes = walk.acknowledge_errors
        if api_key == _SHARE_ACKNOWLEDGE and walk.error_code:
            codes = [walk.error_code]
        for code, count in Counter(codes).items():
            self.metrics.share_acknowledge_errors.labels(error_name(code)).inc(count)

    def refused(self, api_key: int) -> None:
        """Count a request in a version that the client was not offered."""
        self.metrics.refused.labels(_labels(api_key, 0)[0]).inc()


def _labels(api_key: int, version: int) -> tuple[str, str]:
    """Return the labels of an API. Invented APIs and versions share one, so that clients can't fill the memory."""
    try:
        name = ApiKey(api_key).name
    except ValueError:
        return _UNKNOWN, _UNKNOWN
    return name, str(version) if 0 <= version <= _HIGHEST_VERSION else _UNKNOWN
