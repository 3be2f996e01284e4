"""DescribeCluster (60): the nodes of the cluster. Flexible from the start (KIP-700).

- v1: brokers or controllers (KIP-919).
- v2: fenced brokers too, on request (KIP-1073).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int8, int16, int32, string
from protocol_codecs.message import Message


class DescribeClusterRequest(Message, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    """Asks for the brokers (endpoint type 1) or the controllers (2)."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Message):
    """One node and the address at which clients reach it."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Message, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    """The nodes of the cluster."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
