"""Clients with certificates on a real broker: through a proxy that ends TLS it sees each one's own principal."""

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from support.broker import Kafka
from support.certificates import (
    GATE,
    Client,
    allow_tokens,
    certificate_proxy,
    cluster_with_tokens,
    identity_count,
    token_owners,
)
from support.clients import CONFLUENT, JAVA
from support.entry import Proxy
from support.secured import TlsFiles, allow, secret
from support.waiting import eventually

from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("certificates-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module) -> Cluster:
    return own_kafka_of_module(**cluster_with_tokens())


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="certificates", version=cluster.version)


@pytest.fixture(scope="module")
def alice(tls, cluster) -> Client:
    return with_token(cluster, Client(tls, "alice"))


@pytest.fixture(scope="module")
def bob(tls, cluster) -> Client:
    return with_token(cluster, Client(tls, "bob"))


def with_token(cluster: Cluster, client: Client) -> Client:
    """Let the account make tokens for this client."""
    allow_tokens(cluster, client.principal)
    return client


@pytest.fixture(scope="module")
def proxy(cluster, tls, empty_folder) -> Iterator[Proxy]:
    with certificate_proxy(cluster, tls, empty_folder("certificates-proxy")) as running:
        yield running


def produce(proxy: Proxy, client: Client, topic: str, timeout_s: float = 20.0) -> list[object]:
    """Produce one record to each of two partitions; the errors of those that could not be."""
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": proxy.bootstrap, "message.timeout.ms": 15_000, **client.confluent()}
    )
    for partition in (0, 1):
        producer.produce(
            topic,
            b"x",
            partition=partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(timeout_s) == 0
    return failed


# -- who clients are -----------------------------------------------------------------------------------------


def test_clients_are_at_the_broker_who_their_certificates_say(kafka, cluster, proxy, consumers, alice, bob):
    topic, others = kafka.new_topic(partitions=2), kafka.new_topic(partitions=2)
    group = f"translate-{topic}"
    allow(kafka.admin, alice.principal, ResourceType.TOPIC, topic, AclOperation.WRITE, AclOperation.READ)
    allow(kafka.admin, alice.principal, ResourceType.GROUP, group, AclOperation.READ)
    assert produce(proxy, alice, topic) == []
    refused = produce(proxy, bob, topic)
    assert {error.code() for error in refused} == {TOPIC_AUTHORIZATION_FAILED}
    assert produce(proxy, alice, others) != []
    members = [
        consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range", own_settings=alice.confluent()),
        consumers.start(JAVA, proxy.bootstrap, group, topic, "range", own_settings=alice.java()),
    ]
    consumers.wait_until(
        lambda: sorted(len(one.owned()) for one in members) == [1, 1], "each has its share", timeout_s=60
    )
    assert {member.member_type for member in kafka.describe(group).members} == {"consumer"}
    assert produce(proxy, alice, topic) == []
    consumers.wait_until(
        lambda: len(set().union(*(one.consumed() for one in members))) >= 2, "what came is read"
    )
    log = "".join(broker.log.read_text(errors="replace") for broker in cluster.brokers)
    for client, name in ((bob, topic), (alice, others)):
        assert f"Principal = User:{client.principal} is Denied" in log, f"at {name}"
    assert f"Principal = User:{GATE} is Denied" not in log, "nothing is done as the account"
    assert sorted(token_owners(cluster)) == sorted([alice.principal, bob.principal]), "one each"


def refused(proxy: Proxy, client: Client) -> bool:
    """Whether a client gets nothing of the cluster."""
    try:
        AdminClient({"bootstrap.servers": proxy.bootstrap, "log_level": 0, **client.confluent()}).list_topics(
            timeout=4
        )
    except KafkaException:
        return True
    return False


def test_a_principal_that_the_account_may_not_speak_for_is_refused(tls, proxy, alice):
    mallory = Client(tls, "mallory")
    assert refused(proxy, mallory)
    assert not refused(proxy, alice)
    told = proxy.log.read_text()
    assert "the account may not make tokens for it" in told
    assert "CN=mallory" in told


def test_a_certificate_of_another_authority_is_refused(proxy, tls, empty_folder):
    stranger = Client(TlsFiles(empty_folder("certificates-others")), "alice")
    stranger.ca = tls.ca
    assert refused(proxy, stranger)
    assert "the peer's certificate is refused" in proxy.log.read_text()


def test_a_session_outlives_its_token(kafka, cluster, tls, empty_folder, consumers, alice):
    """The shortest life that the configuration allows: a minute."""
    topic = kafka.new_topic(partitions=2)
    group = f"translate-{topic}"
    allow(kafka.admin, alice.principal, ResourceType.TOPIC, topic, AclOperation.WRITE, AclOperation.READ)
    allow(kafka.admin, alice.principal, ResourceType.GROUP, group, AclOperation.READ)
    with certificate_proxy(
        cluster, tls, empty_folder("certificates-life"), identity={"max_lifetime_ms": 60_000}
    ) as proxy:
        member = consumers.start(
            CONFLUENT, proxy.bootstrap, group, topic, "range", own_settings=alice.confluent()
        )
        consumers.wait_until(lambda: len(member.owned()) == 2, "it has its share", timeout_s=60)
        mark = member.mark()
        eventually(
            lambda: identity_count(proxy, "authentications", "again"),
            lambda n: n >= 4,
            what="its connections have authenticated again, by two tokens",
            timeout_s=150,
            between_s=1.0,
        )
        assert produce(proxy, alice, topic) == []
        consumers.wait_until(lambda: len(member.consumed()) == 2, "it reads on")
        assert member.callbacks(since=mark) == [], "a rebalance"
        assert member.seen("error", "failed", "commit_failed", since=mark) == []
        disconnects = re.findall(
            r'client_to_proxy_disconnects_total{cause="server_\w+"} (\S+)', proxy.metrics()
        )
        assert sum(map(float, disconnects)) == 0


def test_nothing_is_left_at_the_brokers_after_the_end(kafka, cluster, tls, empty_folder, alice):
    topic = kafka.new_topic(partitions=2)
    allow(kafka.admin, alice.principal, ResourceType.TOPIC, topic, AclOperation.WRITE)
    before = len(token_owners(cluster))
    with certificate_proxy(cluster, tls, empty_folder("certificates-end")) as proxy:
        assert produce(proxy, alice, topic) == []
        assert len(token_owners(cluster)) == before + 1
        assert not [line for line in proxy.log.read_text().splitlines() if secret(GATE) in line]
    eventually(lambda: len(token_owners(cluster)), lambda n: n == before, what="the token is gone")
