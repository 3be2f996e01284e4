"""What the broker serves beside Kafka's APIs if it is told to: client-side assignors, an experiment."""

from collections.abc import Collection

from coordinator.broker.versions import OFFERED
from coordinator.config import CoordinatorConfig
from protocol_codecs.api_key import ApiKey
from protocol_codecs.experimental import (
    CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS,
    EXPERIMENTAL_APIS,
    ClientAssignorsHeartbeatRequest,
)
from protocol_codecs.message import Message
from protocol_codecs.records import CONSUMER_OFFSETS, TopicCodec

VERSION = 0
"""The only version of these APIs."""


def keys(config: CoordinatorConfig) -> Collection[int]:
    """Return the private keys that are served: none without the experiment."""
    return EXPERIMENTAL_APIS.keys() if config.experimental_client_assignors else ()


def request_type(config: CoordinatorConfig, api_key: int, version: int) -> type[Message] | None:
    """Return the class of a request that only the experiment reads so; None for all others."""
    if not config.experimental_client_assignors:
        return None
    if api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        low, high = OFFERED[ApiKey.CONSUMER_GROUP_HEARTBEAT]
        return ClientAssignorsHeartbeatRequest if low <= version <= high else None
    api = EXPERIMENTAL_APIS.get(api_key)
    return api.request if api is not None and version == VERSION else None


def groups_codec(config: CoordinatorConfig) -> TopicCodec:
    """Return the codec of the groups' log."""
    return (
        CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS if config.experimental_client_assignors else CONSUMER_OFFSETS
    )
