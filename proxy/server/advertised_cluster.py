"""Which host and port clients are given for each broker (``advertised_host``, ``advertised_port``): the one that
leads to it through this proxy; which nodes are hidden (``epochgate_hidden_nodes_total``).
"""

from collections.abc import Callable, Iterable, Mapping

from protocol_codecs.address_rewrite import Node
from proxy.config.schema import Address
from proxy.transport.node_table import NodeTable


class AdvertisedCluster:
    """The cluster in the metadata of one listener's clients: ``addresses`` has a host and a port for each node id.

    It may change: responses that pass from then on have what it says.
    """

    def __init__(
        self, table: NodeTable, addresses: Mapping[int, Address], on_hidden: Callable[[], None]
    ) -> None:
        self.learns = True
        """Whether brokers are at the addresses that responses have. Not where the proxy connects to others by now."""
        self._table = table
        self._addresses = addresses
        self._on_hidden = on_hidden

    def known_nodes(self) -> tuple[Node, ...]:
        """Give the nodes that a broker has named before, at the addresses that clients are told."""
        return tuple(
            Node(node_id, *self._addresses[node_id], self._table.racks.get(node_id))
            for node_id in self._table
            if node_id in self._addresses
        )

    def learn(self, nodes: Iterable[Node], cluster_id: str | None) -> None:
        """Record the racks of the nodes that a Metadata response has named, and the cluster's id."""
        self._table.racks.update((node.node_id, node.rack) for node in nodes)
        self._table.cluster_id = cluster_id or self._table.cluster_id

    def map_address(self, node_id: int, host: str, port: int) -> Address | None:
        """Learn a broker's own address; give the one that clients are told.

        None if the node id is outside the configured ranges: the node must be left out then.
        """
        if self.learns:
            self._table.learn(node_id, Address(host, port))
        address = self._addresses.get(node_id)
        if address is None:
            self._on_hidden()
        return address
