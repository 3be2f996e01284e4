"""What a request is checked for before it is processed: its size (``limits.first_frame_max_bytes``,
``sasl_max_bytes``, ``decoded_max_bytes``), and its version.
"""

from protocol_codecs.api_key import api_name
from proxy.config.schema import Limits
from proxy.session.errors import ClientError
from proxy.session.request_metrics import RequestMetrics
from proxy.wire.api_versions import Ranges
from proxy.wire.frame_splitter import FrameError, Piece
from proxy.wire.request_header import RequestHeader

_SIZE_BYTES = 4


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
