"""An embedded broker around the coordinator: several nodes in one process, for real clients.

    async with serve(EmbeddedCluster(nodes=3)) as cluster:
        cluster.create_topic("orders", partitions=6)
        Consumer({"bootstrap.servers": cluster.bootstrap, ...})

For development and tests only: without a ``log_directory`` all is lost when it stops, and there is no replication,
security, transaction or quota.
"""

from coordinator.broker.cluster import EmbeddedCluster, TopicExists, UnknownTopic
from coordinator.broker.server import serve

__all__ = ["EmbeddedCluster", "TopicExists", "UnknownTopic", "serve"]
