"""ApiVersions (18), v0 to v4. A version that is not supported is answered in v0, which every client can read."""

from collections.abc import Collection

from coordinator.broker.versions import FEATURES, OFFERED, SHOWN_FROM_0
from protocol_codecs.all_messages import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol_codecs.api_key import ApiKey
from protocol_codecs.codec import encode
from protocol_codecs.error_code import ErrorCode


def answer(version: int, private_keys: Collection[int] = ()) -> bytes:
    """Return the body of the answer, with these APIs beside Kafka's. The body of the request is ignored."""
    low, high = OFFERED[ApiKey.API_VERSIONS]
    if not low <= version <= high:
        own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)
        return encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own,)), 0)
    return encode(_response(private_keys), version)


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
