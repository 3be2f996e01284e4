"""ApiVersions (18), v0 to v5. A version that is not supported is answered in v0, which every client can read.

Since v5 a client may name the cluster and the node that it means to reach, both or neither (KIP-1242).
"""

from collections.abc import Collection

from coordinator.broker import experimental
from coordinator.broker.context import RequestScope
from coordinator.broker.versions import FEATURES, OFFERED, SHOWN_FROM_0
from protocol_codecs.all_messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol_codecs.api_key import ApiKey
from protocol_codecs.codec import decode_prefix, encode
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.messages.api_versions import NODE_FROM

_ANY_NODE = -1


def answer(context: RequestScope, frame: bytes, start: int) -> bytes:
    """Return the body of the answer to the request whose body begins at ``start``; before v5 that is ignored.

    Raises MalformedMessage.
    """
    version = context.version
    low, high = OFFERED[ApiKey.API_VERSIONS]
    if not low <= version <= high:
        own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)
        return encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own,)), 0)
    error = ErrorCode.NONE
    if version >= NODE_FROM:
        request, _ = decode_prefix(ApiVersionsRequest, version, frame, start)
        error = _misrouted(request, context)
    if error != ErrorCode.NONE:
        return encode(ApiVersionsResponse(error_code=error), version)
    return encode(_response(experimental.keys(context.cluster.config)), version)


def _misrouted(request: ApiVersionsRequest, context: RequestScope) -> ErrorCode:
    """Return the error of a request that means another broker, NONE if it means this one or any."""
    names_cluster = request.cluster_id is not None
    if names_cluster != (request.node_id != _ANY_NODE):
        return ErrorCode.INVALID_REQUEST
    here = context.cluster.cluster_id, context.node_id
    if names_cluster and (request.cluster_id, request.node_id) != here:
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def _response(private_keys: Collection[int]) -> ApiVersionsResponse:
    offered = [
        ApiVersion(api_key=key, min_version=0 if key is SHOWN_FROM_0 else low, max_version=high)
        for key, (low, high) in sorted(OFFERED.items())
    ]
    offered += [ApiVersion(api_key=key) for key in sorted(private_keys)]
    return ApiVersionsResponse(
        api_keys=tuple(offered),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=1, max_version=level)
            for name, level in FEATURES.items()
        ),
        finalized_features_epoch=0,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ),
    )
