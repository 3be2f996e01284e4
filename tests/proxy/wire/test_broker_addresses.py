"""No address of a broker reaches a client (docs/reference/protocol-contracts.md lists the responses that carry one)."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from protocol_codecs.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.registry import APIS
from proxy.config.schema import Address
from proxy.server.advertised_cluster import AdvertisedCluster
from proxy.transport.node_table import NodeTable
from proxy.wire.broker_addresses import CARRYING_ADDRESSES, rewrite_addresses
from tests.proxy.fakes import wire

BROKER_HOST = "kafka-behind"


class View:
    """The clients' view of a cluster whose nodes 0 to 9 have ports."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.hidden = 0
        addresses = {node: Address("proxy", 9100 + node) for node in range(10)}
        self.view = AdvertisedCluster(self.table, addresses, self._hide)

    def _hide(self) -> None:
        self.hidden += 1


def through(view: View, api_key: ApiKey, version: int, message):
    frame = wire.response(api_key, version, 42, message)
    out = rewrite_addresses(
        api_key, version, frame, view.view.map_address, view.view.known_nodes, view.view.learn
    )
    assert BROKER_HOST.encode() not in out
    assert wire.answered_id(out) == 42
    return wire.body_of(out, api_key, version)


@pytest.mark.parametrize("version", list(APIS[ApiKey.METADATA].versions))
def test_metadata(version):
    view = View()
    brokers = tuple(MetadataResponseBroker(node_id=n, host=BROKER_HOST, port=9092) for n in (1, 2, 1001))
    partition = MetadataResponsePartition(partition_index=0, leader_id=1001, replica_nodes=(1001, 1))
    message = MetadataResponse(
        brokers=brokers, cluster_id="c", topics=(MetadataResponseTopic(name="t", partitions=(partition,)),)
    )
    answer = through(view, ApiKey.METADATA, version, message)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "proxy", 9101), (2, "proxy", 9102)]
    assert answer.topics[0].partitions[0].leader_id == 1001
    assert view.hidden == 1
    assert view.table.cluster_id == ("c" if version >= 2 else None)
    assert view.table.address_of(1001) == Address(BROKER_HOST, 9092), "learned all the same"


@pytest.mark.parametrize("version", list(APIS[ApiKey.METADATA].versions))
def test_metadata_without_brokers_names_those_that_were_named_before(version):
    view = View()
    topic = MetadataResponseTopic(name="t", partitions=(MetadataResponsePartition(leader_id=-1),))
    empty = MetadataResponse(controller_id=-1, topics=(topic,))
    assert not through(view, ApiKey.METADATA, version, empty).brokers, "none is known yet"

    rack = "a" if version else None
    brokers = tuple(
        MetadataResponseBroker(node_id=n, host=BROKER_HOST, port=9092, rack=rack) for n in (1, 2, 1001)
    )
    told = through(view, ApiKey.METADATA, version, MetadataResponse(brokers=brokers))
    answer = through(view, ApiKey.METADATA, version, empty)
    assert answer.brokers == told.brokers
    assert [broker.node_id for broker in answer.brokers] == [1, 2]
    assert answer.topics[0].partitions[0].leader_id == -1
    assert [broker.rack for broker in answer.brokers] == [rack, rack], (
        "Java's leader rejoins if a rack changes"
    )


def test_metadata_with_an_error_stays_without_brokers():
    view = View()
    broker = MetadataResponseBroker(node_id=1, host=BROKER_HOST, port=9092)
    through(view, ApiKey.METADATA, 13, MetadataResponse(brokers=(broker,)))
    error = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    assert not through(view, ApiKey.METADATA, 13, error).brokers


def test_responses_without_racks_leave_those_that_are_known():
    view = View()
    for version, rack in ((1, "a"), (0, None)):
        broker = MetadataResponseBroker(node_id=1, host=BROKER_HOST, port=9092, rack=rack)
        through(view, ApiKey.METADATA, version, MetadataResponse(brokers=(broker,)))
    (broker,) = through(view, ApiKey.METADATA, 1, MetadataResponse()).brokers
    assert broker.rack == "a"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_find_coordinator_of_one_key(version):
    message = FindCoordinatorResponse(node_id=3, host=BROKER_HOST, port=9092)
    answer = through(View(), ApiKey.FIND_COORDINATOR, version, message)
    assert (answer.node_id, answer.host, answer.port) == (3, "proxy", 9103)


@pytest.mark.parametrize("version", [0, 3])
def test_a_coordinator_without_a_port_is_not_available(version):
    view = View()
    message = FindCoordinatorResponse(node_id=77, host=BROKER_HOST, port=9092)
    answer = through(view, ApiKey.FIND_COORDINATOR, version, message)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)
    assert view.hidden == 1


@pytest.mark.parametrize("version", [4, 5, 6])
def test_find_coordinator_of_several_keys(version):
    missing = Coordinator(key="c", node_id=-1, port=-1, error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    message = FindCoordinatorResponse(
        coordinators=(
            Coordinator(key="a", node_id=3, host=BROKER_HOST, port=9092),
            Coordinator(key="b", node_id=77, host=BROKER_HOST, port=9092),
            missing,
        )
    )
    answer = through(View(), ApiKey.FIND_COORDINATOR, version, message)
    found, hidden, unchanged = answer.coordinators
    assert (found.node_id, found.host, found.port) == (3, "proxy", 9103)
    assert (hidden.node_id, hidden.error_code) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert unchanged == missing


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_cluster(version):
    brokers = tuple(DescribeClusterBroker(broker_id=n, host=BROKER_HOST, port=9092) for n in (4, 11))
    answer = through(View(), ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterResponse(brokers=brokers))
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(4, "proxy", 9104)]


def test_the_list_of_responses_with_addresses_is_closed():
    assert {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER} == CARRYING_ADDRESSES


def test_a_node_is_announced_when_it_is_new_and_when_it_moves():
    heard = []
    table = NodeTable(on_change=lambda node_id, address: heard.append((node_id, address)))
    for port in (9092, 9092, 9093):
        table.learn(1, Address("kafka-1", port))
    assert heard == [(1, Address("kafka-1", 9092)), (1, Address("kafka-1", 9093))]
    assert len(table) == 1
