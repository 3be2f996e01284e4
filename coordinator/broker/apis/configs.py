"""DescribeConfigs (32) and IncrementalAlterConfigs (44): group settings take effect, topic settings are only stored.

Topics keep whatever settings they are given and show them again; brokers show none.
"""

from coordinator.broker.context import RequestScope
from coordinator.config import GROUP_SETTINGS, CoordinatorConfig, broker_value
from coordinator.errors import RequestRefused
from protocol_codecs.all_messages import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from protocol_codecs.error_code import ErrorCode

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE = 0, 1
SOURCE_TOPIC, SOURCE_BROKER, SOURCE_DEFAULT, SOURCE_GROUP = 1, 4, 5, 8
TYPE_BOOLEAN, TYPE_STRING, TYPE_INT = 1, 2, 3
_TYPES = {bool: TYPE_BOOLEAN, str: TYPE_STRING, int: TYPE_INT}
_DEFAULTS = CoordinatorConfig()


async def describe(context: RequestScope, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Serve a DescribeConfigs request."""
    results = tuple(_describe(context, resource) for resource in request.resources)
    return DescribeConfigsResponse(results=results)


async def alter(
    context: RequestScope, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Serve an IncrementalAlterConfigs request."""
    responses = []
    for resource in request.resources:
        error, why = ErrorCode.NONE, None
        try:
            _alter(context, resource, validate_only=request.validate_only)
        except RequestRefused as refused:
            error, why = refused.code, refused.message
        responses.append(
            IncrementalAlterConfigsResponseResource(
                error_code=error,
                error_message=why,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


def _describe(
    context: RequestScope, resource: DescribeConfigsRequestResource
) -> DescribeConfigsResponseResource:
    error, why = ErrorCode.NONE, None
    shown: tuple[DescribeConfigsResponseConfig, ...] = ()
    try:
        configs = _configs(context, resource.resource_type, resource.resource_name)
        wanted = resource.configuration_keys
        shown = tuple(c for c in configs if not wanted or c.name in wanted)
    except RequestRefused as refused:
        error, why = refused.code, refused.message
    return DescribeConfigsResponseResource(
        error_code=error,
        error_message=why,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=shown,
    )


def _configs(context: RequestScope, kind: int, name: str) -> list[DescribeConfigsResponseConfig]:
    if kind == GROUP:
        own = context.cluster.group_settings.get(name, {})
        return [
            _group_setting(setting, own.get(setting), context.cluster.config) for setting in GROUP_SETTINGS
        ]
    if kind == TOPIC:
        topic = context.cluster.topics.get(name)
        if topic is None:
            raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return [
            DescribeConfigsResponseConfig(
                name=setting,
                value=value,
                config_source=SOURCE_TOPIC,
                config_type=TYPE_STRING,
                documentation=None,
            )
            for setting, value in topic.settings.items()
        ]
    if kind == BROKER:
        return []
    raise RequestRefused(ErrorCode.INVALID_REQUEST, f"resource type {kind}")


def _group_setting(setting: str, own: str | None, config: CoordinatorConfig) -> DescribeConfigsResponseConfig:
    """Return a group's own setting, else the broker's, which counts as a default only if it is Kafka's default."""
    value = broker_value(config, setting)
    source = SOURCE_DEFAULT if value == broker_value(_DEFAULTS, setting) else SOURCE_BROKER
    return DescribeConfigsResponseConfig(
        name=setting,
        value=_shown(value) if own is None else _as_parsed(own, value),
        config_source=source if own is None else SOURCE_GROUP,
        config_type=_TYPES[type(value)],
        documentation=None,
    )


def _as_parsed(own: str, kind: int | str | bool) -> str:
    """Return a group's own setting as Kafka shows it, which has parsed it."""
    return own.strip().lower() if isinstance(kind, bool) else own.strip()


def _shown(value: int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _alter(
    context: RequestScope, resource: IncrementalAlterConfigsRequestResource, *, validate_only: bool
) -> None:
    cluster, name = context.cluster, resource.resource_name
    if resource.resource_type == GROUP:
        if not name:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, "the group id is empty")
        settings = _changed(cluster.group_settings.get(name, {}), resource.configs)
        cluster.check_group_settings(settings)
        if not validate_only:
            cluster.set_group_settings(name, settings)
        return
    topic = cluster.topics.get(name) if resource.resource_type == TOPIC else None
    if topic is None:
        code = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if resource.resource_type == TOPIC
            else ErrorCode.INVALID_REQUEST
        )
        raise RequestRefused(code, f"resource {name!r} of type {resource.resource_type}")
    changed = _changed(topic.settings, resource.configs)
    if not validate_only:
        cluster.set_topic_settings(name, changed)


def _changed(
    settings: dict[str, str], changes: tuple[IncrementalAlterConfigsRequestConfig, ...]
) -> dict[str, str]:
    result = dict(settings)
    for change in changes:
        if change.config_operation == SET and change.value is not None:
            result[change.name] = change.value
        elif change.config_operation == DELETE:
            result.pop(change.name, None)
        else:
            raise RequestRefused(
                ErrorCode.INVALID_CONFIG, f"operation {change.config_operation} on {change.name}"
            )
    return result
