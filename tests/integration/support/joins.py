"""The call by which a member of each kind joins a group, made by hand."""

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.streams_group_heartbeat.v0 import request as streams_group_heartbeat

from support import raw_member

LEAVE = -1


def join_group(group: str, topic: str) -> JoinGroupRequest:
    """A classic consumer's."""
    subscription = ConsumerProtocolSubscription(topics=(topic,), owned_partitions=())
    return JoinGroupRequest(
        group_id=group,
        session_timeout=dt.timedelta(seconds=10),
        rebalance_timeout=dt.timedelta(seconds=30),
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=raw_member.embedded(subscription)),),
    )


def consumer_group_heartbeat(group: str, topic: str) -> ConsumerGroupHeartbeatRequest:
    """A native consumer's."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rebalance_timeout=dt.timedelta(seconds=30),
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )


def share_group_heartbeat(group: str, topic: str) -> ShareGroupHeartbeatRequest:
    """A share consumer's."""
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=str(uuid.uuid4()), member_epoch=0, subscribed_topic_names=(topic,)
    )


def streams_heartbeat(group: str, topic: str) -> streams_group_heartbeat.StreamsGroupHeartbeatRequest:
    """That of an application which only reads a topic, without a store."""
    only = streams_group_heartbeat.Subtopology(
        subtopology_id="0",
        source_topics=(topic,),
        state_changelog_topics=(),
        repartition_source_topics=(),
        copartition_groups=(),
    )
    return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout=dt.timedelta(seconds=30),
        topology=streams_group_heartbeat.Topology(epoch=0, subtopologies=(only,)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id=str(uuid.uuid4()),
        client_tags=(),
        task_offsets=None,
        task_end_offsets=None,
    )


Join = Callable[[str, str], Any]

OF_TYPE: Mapping[str, Join] = {
    "consumer": consumer_group_heartbeat,
    "share": share_group_heartbeat,
    "streams": streams_heartbeat,
}
"""By the type that the group of such a member has."""

ALL: tuple[Join, ...] = (join_group, *OF_TYPE.values())


def leaving(heartbeat: Any) -> Any:
    """The heartbeat of the same member when it leaves."""
    fields: dict[str, Any] = {"member_epoch": LEAVE}
    if isinstance(heartbeat, streams_group_heartbeat.StreamsGroupHeartbeatRequest):
        fields["topology"] = None  # which may be told at epoch 0 only
    return dataclasses.replace(heartbeat, **fields)
