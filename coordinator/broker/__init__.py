"""The small broker around the coordinator: several nodes in one process, topics in memory, real clients welcome.

    async with serve(EmbeddedCluster(nodes=3)) as cluster:
        cluster.create_topic("orders", partitions=6)
        Consumer({"bootstrap.servers": cluster.bootstrap, ...})

A development and test part. Topics are lost when it stops, there is no replication, no security, no transaction and no
quota; never give it data that somebody needs.
"""

from coordinator.broker.cluster import EmbeddedCluster, TopicExists, UnknownTopic
from coordinator.broker.server import serve

__all__ = ["EmbeddedCluster", "TopicExists", "UnknownTopic", "serve"]
