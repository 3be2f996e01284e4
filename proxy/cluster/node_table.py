"""Maps node ids to broker addresses (learned from responses) and to the addresses that clients are given instead."""

from collections.abc import Callable, Mapping

from proxy.config.schema import NODE_ID, Address


class NodeTable:
    """The brokers' addresses by node id, learned from responses as they pass."""

    def __init__(self) -> None:
        self._addresses: dict[int, Address] = {}
        self.on_change: Callable[[int, Address], None] = lambda _node_id, _address: None
        """Called with each node that is new or has changed its address."""

    def learn(self, node_id: int, address: Address) -> None:
        """Record the address of a node."""
        if self._addresses.get(node_id) != address:
            self._addresses[node_id] = address
            self.on_change(node_id, address)

    def address_of(self, node_id: int) -> Address | None:
        """Return the node's address; None while no response has named it."""
        return self._addresses.get(node_id)

    def __len__(self) -> int:
        return len(self._addresses)


class AdvertisedCluster:
    """The cluster as the clients of one listener are told it: a host and a port for each node id."""

    def __init__(
        self, table: NodeTable, advertised_host: str, ports: Mapping[int, int], on_hidden: Callable[[], None]
    ) -> None:
        self._table = table
        self._addresses = {
            node_id: Address(advertised_host.replace(NODE_ID, str(node_id)), port)
            for node_id, port in ports.items()
        }
        self._on_hidden = on_hidden

    def map_address(self, node_id: int, host: str, port: int) -> Address | None:
        """Learn a broker's own address; give the one that clients are told.

        None if the node id is outside the configured ranges: the node must be left out then.
        """
        self._table.learn(node_id, Address(host, port))
        address = self._addresses.get(node_id)
        if address is None:
            self._on_hidden()
        return address
