"""Whom a call is aimed at: all that the caller knows of the group and its members, which is everything."""

import datetime as dt
import importlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription
from support.raw_member import embedded

INSTANCE_ID = "machine-1"
PARTITIONS = 6
WATCHED_PARTITION = 1
"""Callers commit for this one."""
OWN_PARTITION = 0
"""The members commit for this one, to see whether they still can."""
SESSION_TIMEOUT_MS = 30_000
REBALANCE_TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class Known:
    """What there is to know of a member; `generation` is the member epoch in a group of the new protocol."""

    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True)
class Target:
    """A group with a dynamic member and a static one. `key` begins the ids of what belongs to the caller's column."""

    group: str
    key: str
    topic_id: uuid.UUID
    dynamic: Known
    static: Known

    @property
    def topic(self) -> str:
        """What the members read."""
        return topic_of(self.key)

    @property
    def other_topic(self) -> str:
        """A topic that exists, and that the members do not read."""
        return other_topic_of(self.key)


def topic_of(key: str) -> str:
    """The topic that all groups of a column read."""
    return f"{key}-topic"


def other_topic_of(key: str) -> str:
    """The topic that nobody reads."""
    return f"{key}-other"


def message(api: str, version: int, struct: str = "", /, **fields: Any) -> Any:
    """A request of kio's (`api` as its module is called), or the struct of that name in one.

    Fields that this version does not have are left out.
    """
    module = importlib.import_module(f"kio.schema.{api}.v{version}.request")
    kind = getattr(module, struct or f"{api.title().replace('_', '')}Request")
    return kind(**{key: value for key, value in fields.items() if key in kind.__dataclass_fields__})


def join_group(
    group: str,
    version: int,
    topics: Iterable[str],
    *,
    member_id: str = "",
    instance_id: str | None = None,
    protocol_type: str = "consumer",
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
) -> Any:
    """JoinGroup with range, and nothing claimed."""
    metadata = embedded(ConsumerProtocolSubscription(topics=tuple(topics), owned_partitions=()))
    subscription = message("join_group", version, "JoinGroupRequestProtocol", name="range", metadata=metadata)
    return message(
        "join_group",
        version,
        group_id=group,
        session_timeout=dt.timedelta(milliseconds=session_timeout_ms),
        rebalance_timeout=dt.timedelta(milliseconds=REBALANCE_TIMEOUT_MS),
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=(subscription,),
    )
