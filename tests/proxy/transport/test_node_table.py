"""What clients are told of nodes."""

from proxy.config.schema import Address, Listener
from proxy.server.advertised_cluster import AdvertisedCluster
from proxy.transport.node_table import NodeTable


def test_a_node_has_a_name_of_its_own_where_the_advertised_host_says_so():
    listener = Listener(advertised_host="kafka-{node_id}.example", nodes={"7": 9107, "12": 9112})
    hidden: list[int] = []
    view = AdvertisedCluster(
        NodeTable(),
        {node_id: Address(listener.host_of(node_id), port) for node_id, port in listener.node_ports.items()},
        on_hidden=lambda: hidden.append(1),
    )
    assert view.map_address(7, "broker-7", 9092) == Address("kafka-7.example", 9107)
    assert view.map_address(12, "broker-12", 9092) == Address("kafka-12.example", 9112)
    assert view.map_address(13, "broker-13", 9092) is None
    assert hidden == [1]
