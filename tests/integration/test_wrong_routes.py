"""Two brokers whose addresses lead to each other's: Java since 4.4 notices it by its own check (KIP-1242).

The brokers advertise relays. Those are crossed under a consumer, straight and behind the proxy, and set right again.
"""

import contextlib
from collections.abc import Iterator

import pytest
from support.broker import Kafka
from support.clients import JAVA
from support.entry import running_proxy
from support.waiting import eventually

from tests.jepsen.log_relay import LogRelay
from tests.skips import not_here
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.ports import free_ports

pytestmark = pytest.mark.kafka

FEW = 12


class Routes:
    """A relay before each of two brokers."""

    def __init__(self, cluster: Cluster, relays: list[LogRelay]) -> None:
        self.bootstrap = cluster.bootstrap_of("RELAYED")
        """The brokers' own ports; clients learn those of the relays."""
        self._relays = relays

    def cross(self) -> None:
        """Lead to the other broker from now on, and end what is connected."""
        first, second = self._relays
        first.broker, second.broker = second.broker, first.broker
        for relay in self._relays:
            relay.cut()
            relay.restore()


@pytest.fixture(scope="module")
def relay_ports() -> list[int]:
    """What the brokers advertise, in their order."""
    return free_ports(2)


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, relay_ports) -> Cluster:
    """Two brokers that check whom a client means."""
    relayed = ExtraListener("RELAYED", "PLAINTEXT", advertised_ports=relay_ports)
    started = own_kafka_of_module(brokers=2, listeners=[relayed])
    if started.version < "4.4":
        not_here(f"Kafka {started.version} does not check whom a client means")
    return started


@pytest.fixture
def routes(cluster, relay_ports) -> Iterator[Routes]:
    """Routes that are right."""
    brokers = [int(one.rpartition(":")[2]) for one in cluster.bootstrap_of("RELAYED").split(",")]
    with contextlib.ExitStack() as stack:
        relays = [stack.enter_context(LogRelay(*ports)) for ports in zip(relay_ports, brokers, strict=True)]
        yield Routes(cluster, relays)


@pytest.fixture(params=["straight", "behind the proxy"])
def bootstrap(request, routes, folder) -> Iterator[str]:
    """Where the client connects first, which is no wrong route."""
    if request.param == "straight":
        yield routes.bootstrap
        return
    with running_proxy(routes.bootstrap, folder / "proxy") as proxy:
        yield proxy.bootstrap


def test_a_wrong_route_is_refused_by_the_clients_own_check(
    cluster, routes, bootstrap, consumers, group, folder
):
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    cluster_id = kafka.admin.describe_cluster().result(timeout=60).cluster_id
    topic = kafka.new_topic()
    kafka.produce(topic, FEW)
    consumer = consumers.start(JAVA, bootstrap, group, topic, "range")
    consumer.wait_until(lambda: len(consumer.consumed()) == FEW, "everything is read")
    log = folder / f"{consumer.name}.client.log"
    refusal = (
        f"Rebootstrap requested by server due to cluster metadata mismatch for cluster {cluster_id} and node "
    )
    assert refusal not in log.read_text()

    routes.cross()
    kafka.produce(topic, FEW)
    eventually(lambda: refusal in log.read_text(), what="the client is refused")
    consumer.kill()  # Java 4.4.0 may have ended by itself: it can't handle the refusals of two nodes in one poll
    assert len(consumer.consumed()) == FEW

    routes.cross()
    after = consumers.start(JAVA, bootstrap, group, topic, "range")
    after.wait_until(lambda: len(after.consumed()) >= FEW, "what came meanwhile is read")
    after.close()
