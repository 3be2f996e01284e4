"""Clients with certificates at work while brokers restart, the controller is killed, and a right is withdrawn; quotas.

A cluster of three nodes, each broker and controller.
"""

import ssl
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, ThrottleEvent
from confluent_kafka.admin import AclOperation, ResourceType
from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.metadata.v12.request import MetadataRequest
from kio.static.primitive import f64, i32
from support.broker import Kafka
from support.certificates import (
    Client,
    allow_tokens,
    certificate_proxy,
    cluster_with_tokens,
    identity_count,
    token_owners,
    withdraw_tokens,
)
from support.clients import CONFLUENT, DRIVERS, JAVA, ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy
from support.raw import RawConnection
from support.secured import TlsFiles, allow
from support.waiting import eventually

from tools.kafka.cluster import Cluster
from tools.kafka.settings import GROUP_DEFAULTS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

NODES = (1, 2, 3)
PARTITIONS = 4
LIFE_S = 60
"""The shortest life of tokens that the configuration allows."""
SESSION_MS = 45_000
QUOTA = 20_000.0
"""Bytes a second that one user may produce to a broker."""
PRODUCER = ClientKind(
    "producer", (), lambda: "", lambda _log: [sys.executable, str(DRIVERS / "producer_driver.py")]
)


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("faults-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module) -> Cluster:
    """Groups have Kafka's own timeouts, which are longer than a broker is away."""
    with_tokens = cluster_with_tokens(brokers=len(NODES))
    return own_kafka_of_module(**{**with_tokens, "overrides": {**with_tokens["overrides"], **GROUP_DEFAULTS}})


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="certificates under faults", version=cluster.version)


@pytest.fixture
def proxy(cluster, tls, folder) -> Iterator[Proxy]:
    with certificate_proxy(cluster, tls, folder / "proxy") as running:
        yield running


@pytest.fixture
def new_client(tls, cluster):
    """Makes clients for whom the account may make tokens."""

    def make(name: str) -> Client:
        client = Client(tls, name)
        allow_tokens(cluster, client.principal)
        return client

    return make


class Work:
    """A producer and two consumers in a translated group, all with one certificate."""

    def __init__(self, consumers: Consumers, kafka: Kafka, proxy: Proxy, client: Client) -> None:
        self.topic = kafka.new_topic(partitions=PARTITIONS)
        group = f"translate-{self.topic}"
        may_use(kafka, client, self.topic)
        allow(kafka.admin, client.principal, ResourceType.GROUP, group, AclOperation.READ)
        self.consumers = consumers
        self.producer = consumers.start(
            PRODUCER,
            proxy.bootstrap,
            "",
            self.topic,
            only={
                "bootstrap": proxy.bootstrap,
                "topic": self.topic,
                "partitions": PARTITIONS,
                "own_settings": {"enable.idempotence": True, **client.confluent()},
            },
        )
        self.members: list[ConsumerProcess] = [
            consumers.start(
                kind,
                proxy.bootstrap,
                group,
                self.topic,
                "range",
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=3_000,
                metadata_max_age_ms=5_000,
                own_settings=client.settings(kind.name),
            )
            for kind in (CONFLUENT, JAVA)
        ]
        self.until_shared()

    def until_shared(self) -> None:
        """Each member has a half."""
        self.consumers.wait_until(
            lambda: [len(one.owned()) for one in self.members] == [PARTITIONS // 2] * 2, "each has its share"
        )

    def flows(self) -> None:
        """What is produced from now on is read."""
        since = self.producer.mark()
        self.producer.wait_for("produced", since=since, timeout_s=120)
        self._until_read()

    def end(self) -> None:
        """The producer ends; every record was acknowledged, and is read."""
        self.producer.close()
        self._until_read()

    def _until_read(self) -> None:
        acknowledged = {
            int(partition): count
            for partition, count in self.producer.seen("produced")[-1].fields["acknowledged"].items()
        }
        written = {(number, offset) for number, count in acknowledged.items() for offset in range(count)}

        def read() -> set[tuple[int, int]]:
            return {(at.number, offset) for one in self.members for at, offset in one.consumed()}

        self.consumers.wait_until(lambda: written <= read(), "what was acknowledged is read", timeout_s=120)


def may_use(kafka: Kafka, client: Client, topic: str) -> None:
    allow(kafka.admin, client.principal, ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.WRITE)


def produce(proxy: Proxy, client: Client, topic: str, timeout_s: float = 60.0) -> object:
    """Produce a record; the error if that is refused."""
    failed: list[object] = []
    settings = {
        "bootstrap.servers": proxy.bootstrap,
        "message.timeout.ms": int(timeout_s * 1000),
        "log_level": 0,
    }
    producer = Producer({**settings, **client.confluent()})
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(timeout_s + 5) == 0
    return failed[0] if failed else None


def the_controller(cluster: Cluster) -> int:
    """The node that leads the metadata log."""
    log = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=i32(0)),))
    with RawConnection(cluster.brokers[0].address) as connection:
        answer = connection.call(DescribeQuorumRequest(topics=(log,)))
    return int(answer.topics[0].partitions[0].leader_id)


# -- brokers go and come back --------------------------------------------------------------------------------


def test_clients_work_on_while_each_broker_restarts(kafka, cluster, consumers, proxy, new_client):
    work = Work(consumers, kafka, proxy, alice := new_client("alice-restarts"))
    work.flows()
    for node in NODES:
        cluster.stop_broker(node)
        work.flows()
        cluster.start_broker(node)
        work.flows()
    work.end()
    assert identity_count(proxy, "tokens", "created") == 1, "brokers know the token again"
    assert identity_count(proxy, "authentications", "refused") == 0
    assert token_owners(cluster).count(alice.principal) == 1


def test_a_new_principal_gets_its_token_when_the_controller_has_been_killed(
    kafka, cluster, consumers, proxy, new_client
):
    """The client waits for it, and reconnects if it has to; others go on meanwhile."""
    work = Work(consumers, kafka, proxy, new_client("alice-fails-over"))
    bob = new_client("bob-fails-over")
    may_use(kafka, bob, work.topic)
    work.flows()
    killed = the_controller(cluster)
    cluster.kill_broker(killed)
    try:
        assert produce(proxy, bob, work.topic) is None
        work.flows()
    finally:
        cluster.start_broker(killed)
    work.flows()
    work.end()
    assert identity_count(proxy, "tokens", "created") == 2
    assert identity_count(proxy, "tokens", "refused") == 0


# -- rights that are withdrawn -------------------------------------------------------------------------------


def test_without_the_right_to_make_tokens_clients_go_on_until_theirs_ends(
    kafka, cluster, tls, folder, new_client
):
    """And again once the right is given back. New principals are refused meanwhile."""
    alice, bob = new_client("alice-withdrawn"), new_client("bob-withdrawn")
    topic = kafka.new_topic(partitions=1)
    for client in (alice, bob):
        may_use(kafka, client, topic)
    with certificate_proxy(
        cluster, tls, folder / "proxy", identity={"max_lifetime_ms": LIFE_S * 1000}
    ) as proxy:
        before = time.monotonic()
        with RawConnection(proxy.bootstrap, tls=context_of(alice)) as connection:
            assert asked(connection)
            for client in (alice, bob):
                withdraw_tokens(cluster, client.principal)
            assert produce(proxy, bob, topic, timeout_s=5) is not None, "a new principal"
            assert produce(proxy, alice, topic) is None, "a new connection of one with a token"
            served_at = [before]

            def is_served() -> bool:
                if asked(connection):
                    served_at.append(time.monotonic())
                    return True
                return False

            eventually(
                is_served,
                lambda served: not served,
                what="its connection ends with its token",
                timeout_s=2 * LIFE_S,
                between_s=0.25,
            )
        assert 0.9 * LIFE_S < served_at[-1] - before < LIFE_S + 2
        eventually(lambda: produce(proxy, alice, topic, timeout_s=5), what="its token has ended")
        assert 'disconnects_total{cause="session_expired"} 1.0' in proxy.metrics()
        assert "server_closed" not in proxy.log.read_text()
        allow_tokens(cluster, alice.principal)
        assert produce(proxy, alice, topic) is None
        assert identity_count(proxy, "tokens", "created") == 2


def context_of(client: Client) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=client.ca)
    context.load_cert_chain(client.certificate, client.key)
    return context


def asked(connection: RawConnection) -> bool:
    """Ask for metadata; False if the connection has ended."""
    request = MetadataRequest(
        topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    try:
        return bool(connection.call(request).brokers)
    except (ConnectionError, ssl.SSLError):
        return False


# -- quotas by user ------------------------------------------------------------------------------------------


def test_quotas_by_user_count_for_the_certificates_principal(kafka, cluster, proxy, new_client):
    limited, free = new_client("limited"), new_client("free")
    topic = kafka.new_topic(partitions=1)
    for client in (limited, free):
        may_use(kafka, client, topic)
    limit(cluster, limited.principal)

    def throttled(client: Client) -> list[float]:
        """What brokers say at ten times what a second allows (`throttle_time_ms` of Produce), in seconds."""
        seen: list[ThrottleEvent] = []
        producer = Producer(
            {"bootstrap.servers": proxy.bootstrap, "throttle_cb": seen.append, **client.confluent()}
        )
        for _ in range(10):
            producer.produce(topic, bytes(int(QUOTA)))
            assert producer.flush(60) == 0
        return [event.throttle_time for event in seen if event.throttle_time > 0]

    eventually(lambda: throttled(limited), what="the quota has reached the broker, and is felt")
    assert throttled(free) == []


def limit(cluster: Cluster, user: str) -> None:
    """A quota of `producer_byte_rate` for one user."""
    of_user = EntryData(
        entity=(EntityData(entity_type="user", entity_name=user),),
        ops=(OpData(key="producer_byte_rate", value=f64(QUOTA), remove=False),),
    )
    with RawConnection(cluster.brokers[0].address) as admin:
        (answer,) = admin.call(AlterClientQuotasRequest(entries=(of_user,), validate_only=False)).entries
    assert answer.error_code == 0, answer.error_message
