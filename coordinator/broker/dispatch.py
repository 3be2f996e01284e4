"""Decodes a request, calls the function that serves its API, and encodes the answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from coordinator.broker import experimental
from coordinator.broker.apis import (
    api_versions,
    configs,
    describe_cluster,
    fetch,
    find_coordinator,
    group_requests,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    share_acknowledge,
    share_fetch,
    topics,
)
from coordinator.broker.context import RequestScope
from coordinator.broker.versions import OFFERED
from coordinator.config import CoordinatorConfig
from coordinator.errors import CoordinatorError
from protocol_codecs import registry
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.all_messages import ResponseHeader
from protocol_codecs.api_key import ApiKey
from protocol_codecs.codec import decode_prefix, encode
from protocol_codecs.experimental import EXPERIMENTAL_APIS, REQUEST_HEADER_VERSION, RESPONSE_HEADER_VERSION
from protocol_codecs.message import Message

Served = Callable[[RequestScope, Any], Awaitable[Message | None]]


class UnknownApi(CoordinatorError):
    """A request of an API or version that the broker does not offer."""


APIS_SERVED: dict[int, Served] = {
    ApiKey.PRODUCE: produce.serve,
    ApiKey.FETCH: fetch.serve,
    ApiKey.LIST_OFFSETS: list_offsets.serve,
    ApiKey.METADATA: metadata.serve,
    ApiKey.FIND_COORDINATOR: find_coordinator.serve,
    ApiKey.CREATE_TOPICS: topics.create,
    ApiKey.DELETE_TOPICS: topics.delete,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.serve,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.serve,
    ApiKey.DESCRIBE_CONFIGS: configs.describe,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.alter,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.serve,
    ApiKey.OFFSET_COMMIT: group_requests.serve,
    ApiKey.OFFSET_FETCH: group_requests.serve,
    ApiKey.JOIN_GROUP: group_requests.serve,
    ApiKey.HEARTBEAT: group_requests.serve,
    ApiKey.LEAVE_GROUP: group_requests.serve,
    ApiKey.SYNC_GROUP: group_requests.serve,
    ApiKey.DESCRIBE_GROUPS: group_requests.serve,
    ApiKey.LIST_GROUPS: group_requests.serve,
    ApiKey.TXN_OFFSET_COMMIT: group_requests.serve,
    ApiKey.DELETE_GROUPS: group_requests.serve,
    ApiKey.OFFSET_DELETE: group_requests.serve,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: group_requests.serve,
    ApiKey.CONSUMER_GROUP_DESCRIBE: group_requests.serve,
    ApiKey.SHARE_GROUP_HEARTBEAT: group_requests.serve,
    ApiKey.SHARE_GROUP_DESCRIBE: group_requests.serve,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: group_requests.serve,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: group_requests.serve,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: group_requests.serve,
    ApiKey.SHARE_FETCH: share_fetch.serve,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge.serve,
}


async def answer(context: RequestScope, api_key: int, frame: bytes, start: int) -> bytes | None:
    """Return the answer to the request whose body begins at ``start``. Raises UnknownApi and CodecError."""
    version = context.version
    if api_key == ApiKey.API_VERSIONS:
        return api_versions.answer(context, frame, start)
    request_type, served = _served(context, api_key)
    # As brokers do, ignore what follows the message: librdkafka has sent surplus bytes behind some requests.
    request, _ = decode_prefix(request_type, version, frame, start)
    response = await served(context, request)
    return None if response is None else encode(response, version)


def request_header_version(config: CoordinatorConfig, api_key: int, version: int) -> int:
    """Return the version of the request's header. Raises UnknownApi."""
    if api_key in experimental.keys(config):
        return REQUEST_HEADER_VERSION
    try:
        return registry.request_header_version(api_key, version)
    except KeyError as error:
        raise UnknownApi(f"API {api_key}") from error


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Return the encoded header of the answer."""
    header = ResponseHeader(correlation_id=correlation_id)
    if api_key == ApiKey.API_VERSIONS:
        return encode(header, 0)
    if api_key in EXPERIMENTAL_APIS:
        return encode(header, RESPONSE_HEADER_VERSION)
    return encode(header, registry.response_header_version(api_key, version))


def _served(context: RequestScope, api_key: int) -> tuple[type[Message], Served]:
    """Return the request's class, and the function that serves it. Raises UnknownApi."""
    extended = experimental.request_type(context.cluster.config, api_key, context.version)
    if extended is not None:
        return extended, group_requests.serve
    served = APIS_SERVED.get(api_key)
    low, high = OFFERED.get(ApiKey(api_key), (0, -1)) if served is not None else (0, -1)
    if served is None or not low <= context.version <= high:
        raise UnknownApi(f"API {api_key} v{context.version}")
    return ALL_APIS[api_key].request, served
