"""What holds for every conversation: the terms of its listener, what a request may be, and what ends it."""

from collections.abc import Callable

import msgspec

from proxy.config.schema import Limits
from proxy.session.collect_budget import CollectBudget
from proxy.session.request_metrics import Meter, api_name
from proxy.wire.api_versions import ApiVersionsNegotiator, Ranges
from proxy.wire.broker_addresses import MapAddress
from proxy.wire.frame_splitter import FrameError, Piece
from proxy.wire.request_header import RequestHeader
from translation.passthrough.topic_names import TopicBook
from translation.policy.policy import Mode

_SIZE_BYTES = 4


class ClientError(Exception):
    """What the client sent ends its connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class UpstreamError(Exception):
    """What the broker sent ends the connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Terms(msgspec.Struct, frozen=True):
    """What all connections of one listener have in common. ``clock`` gives seconds, for latencies.

    ``topics`` are the names of topics that were seen, ``mode_of`` is what the policy says of a group, and ``collected``
    is the room for large group calls, which all listeners share.
    """

    map_address: MapAddress
    negotiator: ApiVersionsNegotiator
    limits: Limits
    meter: Meter
    clock: Callable[[], float]
    topics: TopicBook = msgspec.field(default_factory=TopicBook)
    mode_of: Callable[[str], Mode] = lambda _group_id: Mode.OBSERVE
    collected: CollectBudget = msgspec.field(
        default_factory=lambda: CollectBudget(Limits().group_calls_held_max_bytes)
    )


def check_token(piece: Piece, limits: Limits) -> None:
    """Refuse a token of SASL that is too large. Raises FrameError."""
    allowed = limits.sasl_max_bytes
    if piece.frame_size > allowed + _SIZE_BYTES:
        raise FrameError(
            "oversized",
            f"a frame of {piece.frame_size} bytes in authentication, where {allowed} are allowed",
        )


def check_decodable(piece: Piece, limits: Limits, *, trusted: bool) -> None:
    """Refuse to hold a frame that is too large to be decoded, or to be decoded for a stranger. Raises FrameError."""
    allowed = limits.decoded_max_bytes
    if not trusted:
        allowed = min(allowed, limits.first_frame_max_bytes)
    if piece.frame_size > allowed:
        raise FrameError("oversized", f"a frame of {piece.frame_size} bytes, more than the {allowed} decoded")


def check_offered(header: RequestHeader, ranges: Ranges, meter: Meter) -> None:
    """Refuse a version that the client was not offered. Raises ClientError."""
    offered = ranges.get(header.api_key)
    if offered is None or not offered[0] <= header.version <= offered[1]:
        said = "is not offered" if offered is None else f"is offered in versions {offered[0]} to {offered[1]}"
        meter.refused(header.api_key)
        raise ClientError(
            "not_offered", f"a request for {api_name(header.api_key)} v{header.version}, which {said}"
        )
