"""Per-listener settings, request checks, and the errors that close a connection."""

from collections.abc import Callable

import msgspec

from protocol_codecs.api_key import api_name
from proxy.config.schema import Limits
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.request_metrics import RequestMetrics
from proxy.wire.api_versions import ApiVersionsNegotiator, Ranges
from proxy.wire.broker_addresses import KnownNodes, LearnRacks, MapAddress
from proxy.wire.frame_splitter import FrameError, Piece
from proxy.wire.request_header import RequestHeader
from translation.actions import ConnectionId
from translation.passthrough.topic_names import TopicNames
from translation.policy.policy import Mode, Rule

_SIZE_BYTES = 4


class ClientError(Exception):
    """The client sent something that ends its connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class UpstreamError(Exception):
    """The broker sent something that ends the connection. ``kind`` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ListenerContext(msgspec.Struct, frozen=True):
    """What the connections of one listener share. ``clock`` returns seconds; latencies are measured with it.

    ``topics`` maps the topic ids that were seen to names, ``rule_for`` returns the policy's rule for a group id, and
    ``passes_through`` returns for a connection, group and member whether the translation is sure to forward a
    Heartbeat. ``held_calls`` bounds the memory for large group calls in all listeners together. ``known_nodes`` returns
    those that a response has named before, with the racks that ``learn_racks`` was given.
    """

    map_address: MapAddress
    negotiator: ApiVersionsNegotiator
    limits: Limits
    request_metrics: RequestMetrics
    clock: Callable[[], float]
    topics: TopicNames = msgspec.field(default_factory=TopicNames)
    rule_for: Callable[[str], Rule] = lambda group_id: Rule(mode=Mode.OBSERVE, group=group_id)
    passes_through: Callable[[ConnectionId, str, str], bool] = lambda _connection_id, _group_id, _member_id: (
        False
    )
    held_calls: HeldCallsBudget = msgspec.field(
        default_factory=lambda: HeldCallsBudget(Limits().group_calls_held_max_bytes)
    )
    known_nodes: KnownNodes = tuple
    learn_racks: LearnRacks = lambda _nodes: None


def check_token(piece: Piece, limits: Limits) -> None:
    """Raise FrameError for a SASL token that is too large."""
    allowed = limits.sasl_max_bytes
    if piece.frame_size > allowed + _SIZE_BYTES:
        raise FrameError(
            "oversized",
            f"a frame of {piece.frame_size} bytes in authentication, where {allowed} are allowed",
        )


def check_decodable(piece: Piece, limits: Limits, *, trusted: bool) -> None:
    """Raise FrameError for a frame that is too large to be decoded; the limit is lower for untrusted clients."""
    allowed = limits.decoded_max_bytes
    if not trusted:
        allowed = min(allowed, limits.first_frame_max_bytes)
    if piece.frame_size > allowed:
        raise FrameError("oversized", f"a frame of {piece.frame_size} bytes, more than the {allowed} decoded")


def check_version_offered(header: RequestHeader, ranges: Ranges, request_metrics: RequestMetrics) -> None:
    """Raise ClientError for a version that the client was not offered."""
    offered = ranges.get(header.api_key)
    if offered is None or not offered[0] <= header.version <= offered[1]:
        said = "is not offered" if offered is None else f"is offered in versions {offered[0]} to {offered[1]}"
        request_metrics.refused(header.api_key)
        raise ClientError(
            "not_offered", f"a request for {api_name(header.api_key)} v{header.version}, which {said}"
        )
