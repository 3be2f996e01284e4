"""Reads of ShareFetch and ShareAcknowledge requests what concerns the share session (KIP-932)."""

import msgspec

from protocol_codecs import CodecError, decode_bounded
from protocol_codecs.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol_codecs.messages.share_fetch import ShareFetchRequest
from protocol_codecs.registry import APIS
from proxy.wire.frame_splitter import Piece
from proxy.wire.request_header import HeaderError, RequestHeader, body_offset

OPENS, CLOSES = 0, -1
"""Share session epochs; others go on with an open session. Only a ShareFetch opens one."""

_RENEW = 4
"""The acknowledge type that keeps a record locked (KIP-1222)."""


class ShareRequest(msgspec.Struct, frozen=True):
    """What the request does to the session of this group's member."""

    group_id: str
    member_id: str
    epoch: int
    acknowledged: int
    """How many offsets are unlocked if the broker accepts its acknowledgements."""
    renews: bool
    """Whether locks begin anew."""


def read_share_request(
    header: RequestHeader, piece: Piece, max_bytes: int, max_elements: int
) -> ShareRequest | None:
    """The request that begins with this piece; None if it is larger than that, comes in pieces, or can't be read."""
    if not piece.last or piece.frame_size > max_bytes:
        return None
    try:
        offset = body_offset(piece.data, header)
        request, _ = decode_bounded(
            APIS[header.api_key].request, header.version, piece.data, offset, max_elements
        )
    except (CodecError, HeaderError):
        return None
    if not isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
        raise TypeError(f"API {header.api_key} has no share session")
    return ShareRequest(
        request.group_id or "",
        request.member_id or "",
        request.share_session_epoch,
        _acknowledged(request),
        request.is_renew_ack,
    )


def _acknowledged(request: ShareFetchRequest | ShareAcknowledgeRequest) -> int:
    """How many offsets the request acknowledges, without those that it renews."""
    offsets = 0
    for topic in request.topics:
        for partition in topic.partitions:
            for batch in partition.acknowledgement_batches:
                types = batch.acknowledge_types
                if len(types) > 1:
                    offsets += len(types) - types.count(_RENEW)
                elif types != (_RENEW,):
                    offsets += max(0, batch.last_offset - batch.first_offset + 1)
    return offsets
