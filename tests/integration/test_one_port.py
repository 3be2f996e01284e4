"""Three brokers on one port, selected by server names (SNI): clients of five libraries in one translated group."""

import re
from collections.abc import Iterator

import pytest
from support import one_port
from support.broker import Kafka
from support.entry import Proxy, running_proxy
from support.host_names import resolved
from support.live_group import MODE, LiveGroup

from tools.kafka.cluster import Cluster
from tools.kafka.tls_files import TlsFiles

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("one-port-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module) -> Cluster:
    return own_kafka_of_module(brokers=len(one_port.NODES))


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="one port", version=cluster.version)


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def proxy(request, kafka, tls, folder) -> Iterator[Proxy]:
    certificate, key = tls.issue("proxy", *one_port.CERTIFIED)
    listener = {
        "advertised_host": None,
        "nodes": {},
        "nodes_by_name": one_port.TEMPLATE,
        "bootstrap_name": one_port.BOOTSTRAP,
        "node_ids": ["0-9"],
    }
    with (
        resolved(*one_port.NAMES),
        running_proxy(
            kafka.bootstrap,
            folder / "proxy",
            advertised_host=one_port.BOOTSTRAP,
            listener_tls={"certificate": str(certificate), "key": str(key)},
            listener=listener,
            policy=MODE.format(mode="translate"),
            workers=request.param,
        ) as proxy,
    ):
        yield proxy


def connections(proxy: Proxy) -> dict[str, float]:
    """Clients' connections by node."""
    found = re.findall(
        r'^epochgate_client_to_proxy_connections_total\{node_id="(\w+)"\} (\S+)$',
        proxy.metrics(),
        re.MULTILINE,
    )
    return {port: float(count) for port, count in found}


def test_five_libraries_produce_and_consume_on_one_port(kafka, consumers, proxy, tls, folder, group):
    topic = kafka.new_topic(partitions=one_port.PARTITIONS)
    live = LiveGroup(kafka, consumers, [proxy], group, {topic: one_port.PARTITIONS})
    one_port.run_clients(live, proxy.bootstrap, tls, folder)
    counted = connections(proxy)
    assert counted.keys() == {"bootstrap", *map(str, one_port.NODES)}
    assert min(counted.values()) >= 1
    assert 'kind="unknown_name"' not in proxy.metrics()
