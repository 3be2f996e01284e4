"""DescribeConfigs (32): the settings of resources, and where each value comes from.

Resource types as in IncrementalAlterConfigs. Sources: 1 topic, 2 dynamic broker, 3 dynamic default broker, 4 static
broker, 5 default, 6 broker logger, 7 client metrics, 8 group.

- v0 is gone from Kafka 4. v1: sources and synonyms; v2: the broker answers before it throttles.
- v3: types and documentation.
- v4: flexible.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int8, int16, int32, string
from protocol_codecs.message import Message


class DescribeConfigsRequestResource(Message):
    """One resource; null keys ask for all settings."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: tuple[str, ...] | None = array(string, nullable="0+")


class DescribeConfigsRequest(Message, api_key=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"):
    """Asks for settings."""

    resources: tuple[DescribeConfigsRequestResource, ...] = array(DescribeConfigsRequestResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsResponseSynonym(Message):
    """Another source from which the value of a setting could come."""

    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class DescribeConfigsResponseConfig(Message):
    """One setting."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: tuple[DescribeConfigsResponseSynonym, ...] = array(
        DescribeConfigsResponseSynonym, "1+", ignorable=True
    )
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResponseResource(Message):
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[DescribeConfigsResponseConfig, ...] = array(DescribeConfigsResponseConfig)


class DescribeConfigsResponse(Message, api_key=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"):
    """The settings of each resource."""

    throttle_time_ms: int = int32()
    results: tuple[DescribeConfigsResponseResource, ...] = array(DescribeConfigsResponseResource)
