"""ApiVersions (18): the APIs and versions that a broker serves. The header of its response is always v0.

- v1: the response has a throttle time; v2: the broker answers before it throttles.
- v3: flexible body; the client names its software (KIP-511); features as tagged fields (KIP-584).
- v4: a feature's lowest level may be 0.
- v5: the client names the cluster and node that it means to reach (KIP-1242).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int16, int32, int64, string
from protocol_codecs.message import Message

NODE_FROM = 5
"""The first version in which the client names the cluster and the node that it means to reach."""


class ApiVersionsRequest(Message, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """Asks which APIs and versions the broker serves."""

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


class ApiVersion(Message):
    """The versions of one API that are served, both ends inclusive."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Message):
    """The levels of one feature that the broker supports."""

    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Message):
    """The level of one feature that the cluster has finalized."""

    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Message, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """The APIs, versions and features that the broker serves."""

    error_code: int = int16()
    api_keys: tuple[ApiVersion, ...] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = array(
        SupportedFeatureKey, "3+", ignorable=True, tag=0
    )
    finalized_features_epoch: int = int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: tuple[FinalizedFeatureKey, ...] = array(
        FinalizedFeatureKey, "3+", ignorable=True, tag=2
    )
    zk_migration_ready: bool = boolean("3+", ignorable=True, tag=3)
