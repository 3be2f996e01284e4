"""Clients with certificates on a real broker: through a proxy that ends TLS it sees each one's own principal."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from cryptography import x509
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.static.primitive import i8
from support.broker import Kafka
from support.clients import CONFLUENT, JAVA
from support.entry import Proxy, running_proxy
from support.raw import PlainLogin, RawConnection
from support.secured import TlsFiles, allow, sasl_settings, secret
from support.waiting import eventually

from proxy.identity.distinguished_name import rfc2253
from tools.kafka.cluster import Cluster, ExtraListener

pytestmark = pytest.mark.kafka

GATE = "gate"
ADMIN = PlainLogin("Carol", secret("Carol"))
USER, LITERAL, ALLOW, CREATE_TOKENS = 7, 3, 3, 13
TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("certificates-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module) -> Cluster:
    return own_kafka_of_module(
        listeners=(ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings()),),
        format_options=["--add-scram", f"SCRAM-SHA-512=[name={GATE},password={secret(GATE)}]"],
        overrides={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:Carol",
            "delegation.token.secret.key": "a key of these tests",
        },
    )


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="certificates", version=cluster.version)


class Client:
    """A client with a certificate; ``principal`` is the name of its subject, as Kafka has it."""

    def __init__(self, tls: TlsFiles, name: str) -> None:
        self.name = name
        self.certificate, self.key = tls.issue(name)
        self.ca = tls.ca
        subject = x509.load_pem_x509_certificates(self.certificate.read_bytes())[0].subject
        self.principal = rfc2253(subject.public_bytes())
        store = self.certificate.with_name(f"{name}-store.pem")
        store.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
        self._store = store

    def confluent(self) -> dict[str, object]:
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
        }

    def java(self) -> dict[str, object]:
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
        }


@pytest.fixture(scope="module")
def alice(tls, cluster) -> Client:
    return with_token(cluster, Client(tls, "alice"))


@pytest.fixture(scope="module")
def bob(tls, cluster) -> Client:
    return with_token(cluster, Client(tls, "bob"))


def with_token(cluster: Cluster, client: Client) -> Client:
    """Let the account make tokens for this client. librdkafka knows no such resource."""
    acl = AclCreation(
        resource_type=i8(USER),
        resource_name=f"User:{client.principal}",
        resource_pattern_type=i8(LITERAL),
        principal=f"User:{GATE}",
        host="*",
        operation=i8(CREATE_TOKENS),
        permission_type=i8(ALLOW),
    )
    with RawConnection(cluster.bootstrap_of("SASL"), login=ADMIN) as admin:
        (result,) = admin.call(CreateAclsRequest(creations=(acl,))).results
        assert result.error_code == 0, result.error_message
    return client


def a_proxy(cluster: Cluster, tls: TlsFiles, folder: Path, **identity: object):
    certificate, key = tls.issue(f"proxy-{folder.name}")
    password = folder / "password"
    password.write_text(secret(GATE))
    account = {"username": GATE, "password_file": str(password)}
    return running_proxy(
        cluster.bootstrap_of("SASL"),
        folder,
        listener_tls={
            "certificate": str(certificate),
            "key": str(key),
            "client_ca": str(tls.ca),
            "client_auth": "required",
        },
        listener={"identity": "delegation_token"},
        more={"identity": {"allow": [".*"], "account": account, "plaintext_upstream": True, **identity}},
    )


@pytest.fixture(scope="module")
def proxy(cluster, tls, empty_folder) -> Iterator[Proxy]:
    with a_proxy(cluster, tls, empty_folder("certificates-proxy")) as running:
        yield running


def tokens(cluster: Cluster) -> list[str]:
    """The owners of all tokens that the brokers have."""
    with RawConnection(cluster.bootstrap_of("SASL"), login=ADMIN) as admin:
        answer = admin.call(DescribeDelegationTokenRequest(owners=None))
        assert answer.error_code == 0
        return [one.principal_name for one in answer.tokens]


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


def count(metrics: str, name: str, result: str) -> float:
    found = re.search(rf'^epochgate_{name}{{result="{result}"}} (\S+)$', metrics, re.MULTILINE)
    return float(found[1]) if found else 0.0


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
    assert sorted(tokens(cluster)) == sorted([alice.principal, bob.principal]), "one each"


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
    with a_proxy(cluster, tls, empty_folder("certificates-life"), max_lifetime_ms=60_000) as proxy:
        member = consumers.start(
            CONFLUENT, proxy.bootstrap, group, topic, "range", own_settings=alice.confluent()
        )
        consumers.wait_until(lambda: len(member.owned()) == 2, "it has its share", timeout_s=60)
        mark = member.mark()
        eventually(
            lambda: count(proxy.metrics(), "identity_authentications_total", "again"),
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
    before = len(tokens(cluster))
    with a_proxy(cluster, tls, empty_folder("certificates-end")) as proxy:
        assert produce(proxy, alice, topic) == []
        assert len(tokens(cluster)) == before + 1
        assert not [line for line in proxy.log.read_text().splitlines() if secret(GATE) in line]
    eventually(lambda: len(tokens(cluster)), lambda n: n == before, what="the token is gone")
