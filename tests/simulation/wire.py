"""The messages on simulated connections: decoded, with the fields of their headers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from protocol_codecs import ApiKey

GROUP = "payments"

KAFKA_4_3: Mapping[int, tuple[int, int]] = {
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
}

TRANSLATED = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
    }
)
"""The APIs that the shell hands to the translation; the others it relays."""


SHOWN_WHEN_PASSED = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""The APIs of which the shell shows the translation also the answers that the broker itself gave."""


class Ask(msgspec.Struct, frozen=True, gc=False):
    """A request. ``number`` is its correlation id on this connection."""

    number: int
    api_key: int
    version: int
    client_id: str
    message: Any


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The response to the request with this number."""

    number: int
    message: Any


def generation_in(message: Any) -> int:
    """Return the generation in a call; -1 if it has none."""
    generation = getattr(message, "generation_id", None)
    if generation is None:
        generation = getattr(message, "generation_id_or_member_epoch", -1)
    return int(generation)


def codes_in(message: Any) -> set[int]:
    """Return the error codes of a response."""
    if hasattr(message, "error_code"):
        return {message.error_code}
    return {partition.error_code for topic in message.topics for partition in topic.partitions}
