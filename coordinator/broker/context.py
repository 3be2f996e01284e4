"""The context of a request besides its body."""

import msgspec

from coordinator.broker.cluster import EmbeddedCluster


class RequestContext(msgspec.Struct, frozen=True):
    """The node that received the request, the version, and the client."""

    cluster: EmbeddedCluster
    node_id: int
    version: int
    client_id: str
    client_host: str
