"""Metadata (3), v0 to v13: nodes, topics, partitions and leaders. A request may create the topics that it names."""

from coordinator.broker.cluster import EmbeddedCluster, Topic
from coordinator.broker.context import RequestScope
from coordinator.broker.partition_log import LEADER_EPOCH
from coordinator.broker.topic_names import is_valid
from protocol_codecs.all_messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import ZERO_UUID


async def serve(context: RequestScope, request: MetadataRequest) -> MetadataResponse:
    """Serve the request."""
    cluster = context.cluster
    wants_all = request.topics is None or (context.version == 0 and not request.topics)
    if wants_all:
        topics = tuple(_found(cluster, topic) for topic in cluster.topics.values())
    else:
        may_create = request.allow_auto_topic_creation and cluster.auto_create_partitions > 0
        topics = tuple(_asked(cluster, topic, may_create=may_create) for topic in request.topics or ())
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=a.node_id, host=a.host, port=a.port, rack=a.rack)
            for a in cluster.addresses.values()
        ),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=topics,
    )


def _asked(
    cluster: EmbeddedCluster, asked: MetadataRequestTopic, *, may_create: bool
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        topic = cluster.topic_by_id(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        return _found(cluster, topic)
    name = asked.name or ""
    if name not in cluster.topics:
        if not is_valid(name):
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name)
        if not may_create:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        cluster.create_topic(name, cluster.auto_create_partitions)
    return _found(cluster, cluster.topics[name])


def _found(cluster: EmbeddedCluster, topic: Topic) -> MetadataResponseTopic:
    leaders = [cluster.leader_of(number) for number in range(topic.image.partitions)]
    return MetadataResponseTopic(
        name=topic.image.name,
        topic_id=topic.image.topic_id,
        partitions=tuple(
            MetadataResponsePartition(
                partition_index=number,
                leader_id=leader,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=(leader,),
                isr_nodes=(leader,),
            )
            for number, leader in enumerate(leaders)
        ),
    )
