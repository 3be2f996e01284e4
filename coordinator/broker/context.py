"""The context of a request besides its body."""

import msgspec

from coordinator.broker.cluster import EmbeddedCluster
from coordinator.broker.share_leader import ShareLeader


class RequestScope(msgspec.Struct, frozen=True):
    """The node that received the request, the version, and the client."""

    cluster: EmbeddedCluster
    node_id: int
    version: int
    client_id: str
    client_host: str
    connection_id: int
    """Share sessions belong to connections."""

    @property
    def share_leader(self) -> ShareLeader:
        """Return what the node does for share groups."""
        return self.cluster.share_leaders[self.node_id]
