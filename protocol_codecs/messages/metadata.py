"""Metadata (3): brokers and topics.

- v0: an empty array of topics asks for all of them.
- v1: null asks for all, empty for none; racks, the controller, internal topics.
- v2: the cluster id.
- v3: the response has a throttle time; v6: the broker answers before it throttles.
- v4: whether unknown topics may be created.
- v5: offline replicas.
- v7: leader epochs (KIP-320).
- v8: the operations that the client may perform, as bit fields, on request.
- v9: flexible.
- v10: topic ids in the response; v12: also in the request, with null names (KIP-516).
- v11: no operations on the cluster any more; DescribeCluster has them (KIP-700).
- v13: an error for the whole response.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int16, int32, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class MetadataRequestTopic(Message):
    """One topic asked for, by name or by id."""

    topic_id: Uuid = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


class MetadataRequest(Message, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """Asks for the brokers, and for topics: some, or all (null; an empty array in v0)."""

    topics: tuple[MetadataRequestTopic, ...] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Message):
    """One broker and where clients reach it."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Message):
    """One partition: its leader and replicas, by node id."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: tuple[int, ...] = array(int32)
    isr_nodes: tuple[int, ...] = array(int32)
    offline_replicas: tuple[int, ...] = array(int32, "5+", ignorable=True)


class MetadataResponseTopic(Message):
    """One topic."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: Uuid = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponse(Message, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """Brokers, topics and partitions of the cluster."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", ignorable=True)
