"""Runs an embedded cluster: opens listeners, runs the coordinators, and shuts both down."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from coordinator.broker.clock import Clock
from coordinator.broker.cluster import EmbeddedCluster, NodeAddress
from coordinator.broker.cluster_metrics import ClusterMetrics
from coordinator.broker.connection import serve_connection
from coordinator.broker.metrics_port import serve_metrics


@asynccontextmanager
async def serve(cluster: EmbeddedCluster) -> AsyncIterator[EmbeddedCluster]:
    """Serve the cluster while the context lasts; then close its connections."""
    async with trio.open_nursery() as nursery:
        addresses = []
        for node_id, port in zip(cluster.node_ids, cluster.ports, strict=True):
            listeners = await trio.open_tcp_listeners(port, host=cluster.host)
            nursery.start_soon(
                partial(
                    trio.serve_listeners,
                    partial(serve_connection, cluster, node_id),
                    listeners,
                    handler_nursery=nursery,
                )
            )
            actual_port = listeners[0].socket.getsockname()[1]
            rack = cluster.racks[node_id] if cluster.racks else None
            addresses.append(NodeAddress(node_id, cluster.host, actual_port, rack))
        clock = Clock()
        cluster.start(clock, addresses)
        if cluster.metrics_port is not None:
            listeners = await trio.open_tcp_listeners(cluster.metrics_port, host=cluster.metrics_host)
            cluster.metrics_port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(serve_metrics, listeners, ClusterMetrics(cluster, clock).render)
        for shard in cluster.shards:
            nursery.start_soon(shard.run)
        for leader in cluster.share_leaders.values():
            nursery.start_soon(leader.run)
        if cluster.connect_groups is not None:
            nursery.start_soon(cluster.connect_groups.run)
        try:
            yield cluster
        finally:
            cluster.stop()
            nursery.cancel_scope.cancel()
