"""JoinGroup in versions that the broker lacks: raised on the way there, lowered on the way back.

Only Kafka 4.0.0 lacks v0 and v1. Version 0 has no rebalance timeout; brokers that have v0 use the session
timeout.
"""

from collections.abc import Callable

from msgspec.structs import replace

from protocol_codecs import ApiKey, decode
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from proxy.envelope import correlation_id_of, request_frame, response_body_offset, response_frame
from proxy.request_header import RequestHeader, body_offset, client_id_of


def raised(header: RequestHeader, frame: bytes, version: int) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The request in ``version``, and what brings its response back to the version of the client.

    The correlation id stays the client's.
    """
    request = decode(JoinGroupRequest, header.version, frame, body_offset(frame, header))
    if header.version == 0:
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)

    def lowered(response_in_version: bytes) -> bytes:
        offset = response_body_offset(ApiKey.JOIN_GROUP, version, response_in_version)
        response = decode(JoinGroupResponse, version, response_in_version, offset)
        correlation_id = correlation_id_of(response_in_version)
        return response_frame(ApiKey.JOIN_GROUP, header.version, correlation_id, response)

    client_id = client_id_of(frame, header)
    return request_frame(ApiKey.JOIN_GROUP, version, header.correlation_id, client_id, request), lowered
