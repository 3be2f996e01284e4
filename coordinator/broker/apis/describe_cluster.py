"""DescribeCluster (60), v0 to v2: lists the nodes."""

from coordinator.broker.context import RequestScope
from protocol_codecs.all_messages import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


async def serve(context: RequestScope, _request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Serve the request."""
    cluster = context.cluster
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=tuple(
            DescribeClusterBroker(broker_id=a.node_id, host=a.host, port=a.port, rack=a.rack)
            for a in cluster.addresses.values()
        ),
    )
