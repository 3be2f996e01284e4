"""Three brokers whose leaders move under load: clients stay behind the proxy, whoever leads.

All clients authenticate by SASL, so the proxy knows no node when it starts. Who connects where is what the kernel
saw (`support/tracing.py`), and nothing that a client or the proxy says about itself.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType
from kio.schema.fetch.v16.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v16.response import FetchResponse
from kio.schema.list_offsets.v5.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from support.broker import Kafka
from support.clients import CONFLUENT, CONFLUENT_PRODUCER, JAVA, KAFKA_PYTHON
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy, running_proxy
from support.leaders import leaders_of, move_leaders
from support.ownership import overlaps
from support.raw import PlainLogin, RawConnection
from support.secured import Login, TlsFiles, allow, secret, secured_cluster
from support.tracing import needs_strace, ports_of, trace_file, traced
from support.waiting import eventually

from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

PARTITIONS = 6
USER = "alice"
LOGIN = PlainLogin(USER, secret(USER))
NOT_LEADER = 6
UNAUTHORIZED = 29  # as long as a node has not heard of an ACL


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, empty_folder) -> Cluster:
    return own_kafka_of_module(brokers=3, **secured_cluster(TlsFiles(empty_folder("moving-tls"))))


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    """As a super user sees it."""
    return Kafka(cluster.bootstrap, source="moving", version=cluster.version)


@pytest.fixture
def fresh_proxy(cluster, folder) -> Iterator[Proxy]:
    """It knows one broker, and that one tells it nothing before somebody has authenticated."""
    first = cluster.bootstrap_of("SASL").split(",", maxsplit=1)[0]
    with running_proxy(first, folder / "proxy") as proxy:
        yield proxy


def leaders(*nodes: int) -> dict[int, int]:
    """Partitions in turn to these nodes."""
    return {partition: nodes[partition % len(nodes)] for partition in range(PARTITIONS)}


def metadata(*topics: str) -> MetadataRequest:
    """A question about topics, and brokers."""
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=topic) for topic in topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


class Load:
    """A producer and consumers of three makes in one translated group, all of them traced."""

    def __init__(self, consumers: Consumers, kafka: Kafka, bootstrap: str) -> None:
        self.topic = kafka.new_topic(partitions=PARTITIONS)
        self._group = f"translate-{self.topic}"
        allow(kafka.admin, USER, ResourceType.TOPIC, self.topic, AclOperation.READ, AclOperation.WRITE)
        allow(kafka.admin, USER, ResourceType.GROUP, self._group, AclOperation.READ)
        self._consumers, self._kafka, self._bootstrap = consumers, kafka, bootstrap
        self.members: list[ConsumerProcess] = []
        self.producer: ConsumerProcess

    def start(self) -> None:
        login = Login(USER, "PLAIN")
        self.producer = self._consumers.start(
            traced(CONFLUENT_PRODUCER),
            self._bootstrap,
            "",
            self.topic,
            only={
                "bootstrap": self._bootstrap,
                "topic": self.topic,
                "partitions": PARTITIONS,
                "own_settings": login.confluent(),
            },
        )
        self.members = [
            self._consumers.start(
                traced(kind),
                self._bootstrap,
                self._group,
                self.topic,
                "range",
                metadata_max_age_ms=5_000,
                own_settings=login.settings(kind.name),
            )
            for kind in (CONFLUENT, KAFKA_PYTHON, JAVA)
        ]

    def flows(self, what: str) -> None:
        """Wait until something that is produced from now on is read, from every partition."""
        since = self.producer.mark()
        self.producer.wait_for("produced", since=since, timeout_s=60)
        target = self._acknowledged_later()
        eventually(
            self.read_by_partition,
            lambda read: all(read[number] >= count for number, count in target.items()),
            what=f"records of every partition flow {what}",
            timeout_s=60,
            between_s=0.5,
        )

    def _acknowledged_later(self) -> dict[int, int]:
        """{partition: records}, when every partition has got more of them than now."""
        now = self._acknowledged()
        return eventually(
            self._acknowledged,
            lambda then: len(then) == PARTITIONS and all(then[n] > now.get(n, 0) for n in then),
            what="every partition takes records",
            timeout_s=60,
        )

    def _acknowledged(self) -> dict[int, int]:
        reports = self.producer.seen("produced")
        return {int(n): count for n, count in reports[-1].fields["acknowledged"].items()} if reports else {}

    def read_by_partition(self) -> Counter[int]:
        """How many different records were read."""
        consumed = set().union(*(member.consumed() for member in self.members))
        return Counter(partition.number for partition, _ in consumed)

    def traces(self) -> list[Path]:
        folder = self._consumers.folder
        return [trace_file(folder / f"{one.name}.client.log") for one in self._consumers.all]


def test_no_client_connects_to_a_broker_whoever_leads(cluster, kafka, fresh_proxy, consumers, empty_folder):
    needs_strace()
    load = Load(consumers, kafka, fresh_proxy.bootstrap)
    move_leaders(cluster.bootstrap, kafka.admin, load.topic, leaders(1, 2), [1, 2, 3])
    cluster.stop_broker(3)
    load.start()
    load.flows("with two brokers")

    cluster.start_broker(3)
    for how, order in (("with a broker that is new", (2, 3, 1)), ("after all leaders have moved", (3, 1, 2))):
        move_leaders(cluster.bootstrap, kafka.admin, load.topic, leaders(*order), [1, 2, 3])
        load.flows(how)
    cluster.stop_broker(2)
    load.flows("without a broker that is removed")
    cluster.start_broker(2)
    move_leaders(cluster.bootstrap, kafka.admin, load.topic, leaders(2), [1, 2, 3])
    load.flows("with all leaders on the broker that was away")

    load.producer.send("close")
    load.producer.wait_for("closed", timeout_s=60)
    sent = load.producer.seen("closed")[0].fields["sent"]
    eventually(
        lambda: load.read_by_partition().total(),
        lambda n: n >= sent,
        what="everything is read",
        between_s=0.5,
    )
    for member in load.members:
        member.close()
    assert overlaps([member.events for member in load.members]) == []

    connected = ports_of(load.traces())
    assert connected.keys() <= fresh_proxy.ports, "somebody walked past the proxy"
    assert {int(fresh_proxy.of_node(node).rsplit(":")[-1]) for node in (1, 2, 3)} <= connected.keys()

    direct = Consumers(empty_folder("moving-direct"))
    try:
        control = direct.start(traced(CONFLUENT), cluster.bootstrap, load.topic, load.topic, "range")
        control.wait_until(control.consumed, "it reads", timeout_s=60)
        seen = ports_of([trace_file(direct.folder / f"{control.name}.client.log")])
    finally:
        direct.end()
    assert {broker.port for broker in cluster.brokers} & seen.keys(), "the trace would have shown it"


def test_a_fresh_proxy_finds_every_node_once_somebody_has_authenticated(cluster, kafka, fresh_proxy):
    """kroxylicious 416, 417: a client comes to a node's port with what another replica has told it."""
    topic = kafka.new_topic(partitions=PARTITIONS)
    allow(kafka.admin, USER, ResourceType.TOPIC, topic, AclOperation.READ)
    on_node_3 = next(number for number, node in leaders_of(kafka.admin, topic).items() if node == 3)
    asked = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(
            ListOffsetsTopic(
                name=topic, partitions=(ListOffsetsPartition(partition_index=on_node_3, timestamp=-1),)
            ),
        ),
    )

    def answer_at_node_3() -> int:
        with RawConnection(fresh_proxy.of_node(3), login=LOGIN) as connection:
            return int(connection.call(asked).topics[0].partitions[0].error_code)

    def error_at_node_3() -> int:
        return eventually(answer_at_node_3, lambda code: code != UNAUTHORIZED, what="the node has the ACL")

    assert error_at_node_3() == NOT_LEADER, (
        "nobody knows node 3 yet, and node 1 answers: a client asks for metadata"
    )
    with RawConnection(fresh_proxy.of_node(3), login=LOGIN) as connection:
        told = connection.call(metadata())
    assert {b.node_id: f"{b.host}:{b.port}" for b in told.brokers} == {
        node: fresh_proxy.of_node(node) for node in (1, 2, 3)
    }
    assert error_at_node_3() == 0


def test_a_leader_that_has_moved_is_named_by_the_address_of_the_proxy(cluster, kafka, fresh_proxy):
    """grepplabs/kafka-proxy 223: node endpoints (KIP-951) not rewritten, and clients connect past the proxy."""
    topic = f"single-{fresh_proxy.of_node(0).rsplit(':')[-1]}"
    kafka.admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(30)
    allow(kafka.admin, USER, ResourceType.TOPIC, topic, AclOperation.READ)
    leader = eventually(
        lambda: leaders_of(kafka.admin, topic)[0], lambda node: node > 0, what="the topic has a leader"
    )
    other = next(node for node in (1, 2, 3) if node != leader)
    own_addresses = cluster.bootstrap_of("SASL").split(",")

    def answer_of(at: str) -> FetchResponse:
        with RawConnection(at, login=LOGIN) as connection:
            told = connection.call(metadata(topic))
            request = FetchRequest(
                max_wait=dt.timedelta(0),
                min_bytes=0,
                session_epoch=-1,
                topics=(
                    FetchTopic(
                        topic_id=told.topics[0].topic_id,
                        partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000),),
                    ),
                ),
                forgotten_topics_data=(),
            )
            return connection.call(request)

    def endpoint(at: str) -> str:
        answer = eventually(
            lambda: answer_of(at),
            lambda told: told.responses[0].partitions[0].error_code == NOT_LEADER,
            what="the node has heard of the topic and of the ACL",
        )
        (named,) = answer.node_endpoints
        assert named.node_id == leader
        return f"{named.host}:{named.port}"

    assert endpoint(own_addresses[other - 1]) == own_addresses[leader - 1], "so says the broker"
    with RawConnection(fresh_proxy.bootstrap, login=LOGIN) as connection:
        connection.call(metadata())  # the proxy learns its nodes
    assert endpoint(fresh_proxy.of_node(other)) == fresh_proxy.of_node(leader)
