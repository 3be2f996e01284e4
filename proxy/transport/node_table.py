"""The brokers' own addresses by node id, learned from responses as they pass."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from proxy.config.schema import Address


class NodeIdentity(msgspec.Struct, frozen=True):
    """The broker that a connection is meant to reach; brokers since Kafka 4.4 check it (KIP-1242)."""

    cluster_id: str
    node_id: int


class NodeTable:
    """See the module. ``on_change`` is called with each node that is new or has changed its address."""

    def __init__(self, on_change: Callable[[int, Address], None] = lambda _node_id, _address: None) -> None:
        self._addresses: dict[int, Address] = {}
        self.racks: dict[int, str | None] = {}
        """By node id, of those that a Metadata response has named. Those of before v1 have no racks."""
        self.cluster_id: str | None = None
        """As the newest Metadata response names it. Those of before v2 have none."""
        self.checks_identity = False
        """Whether brokers check whom a connection is meant to reach, as the first contact has shown."""
        self._on_change = on_change

    def learn(self, node_id: int, address: Address) -> None:
        """Record the address of a node."""
        if self._addresses.get(node_id) != address:
            self._addresses[node_id] = address
            self._on_change(node_id, address)

    def forget(self, node_ids: Iterable[int]) -> None:
        """Forget the addresses of these nodes, until responses name them again."""
        for node_id in node_ids:
            self._addresses.pop(node_id, None)

    def adopt(self, other: "NodeTable") -> None:
        """Record all that another table knows."""
        for node_id in other:
            self.learn(node_id, other._addresses[node_id])  # noqa: SLF001  another of the same class
        self.racks |= other.racks
        self.cluster_id = other.cluster_id or self.cluster_id
        self.checks_identity = other.checks_identity

    def address_of(self, node_id: int) -> Address | None:
        """Return the node's address; None while no response has named it."""
        return self._addresses.get(node_id)

    def identity_of(self, node_id: int) -> NodeIdentity | None:
        """Return whom a connection to the node's address is meant to reach; None if brokers would not check that."""
        if not self.checks_identity or self.cluster_id is None or node_id not in self._addresses:
            return None
        return NodeIdentity(self.cluster_id, node_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)
