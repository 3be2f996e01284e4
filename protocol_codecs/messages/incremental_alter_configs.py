"""IncrementalAlterConfigs (44): change individual settings of resources.

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group. Operations: 0 set, 1 delete, 2 append,
3 subtract.

- v1: flexible.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int8, int16, int32, string
from protocol_codecs.message import Message


class IncrementalAlterConfigsRequestConfig(Message):
    """One changed setting."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsRequestResource(Message):
    """One resource and its changes."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[IncrementalAlterConfigsRequestConfig, ...] = array(IncrementalAlterConfigsRequestConfig)


class IncrementalAlterConfigsRequest(
    Message, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    """Asks to change settings, or (``validate_only``) whether they could be changed."""

    resources: tuple[IncrementalAlterConfigsRequestResource, ...] = array(
        IncrementalAlterConfigsRequestResource
    )
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponseResource(Message):
    """The result of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(
    Message, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    """The result of each resource."""

    throttle_time_ms: int = int32()
    responses: tuple[IncrementalAlterConfigsResponseResource, ...] = array(
        IncrementalAlterConfigsResponseResource
    )
