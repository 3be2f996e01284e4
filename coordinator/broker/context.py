"""What an API of the broker knows of a request besides its body."""

import msgspec

from coordinator.broker.cluster import EmbeddedCluster


class RequestContext(msgspec.Struct, frozen=True):
    """Which node was asked, in which version, and by whom."""

    cluster: EmbeddedCluster
    node_id: int
    version: int
    client_id: str
    client_host: str
