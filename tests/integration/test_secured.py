"""SASL, TLS and ACLs on a real broker: clients authenticate through the proxy, and stay who they are."""

import contextlib
import re
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.metadata.v7.request import MetadataRequest, MetadataRequestTopic
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from support.authenticating_again import count
from support.broker import Kafka
from support.clients import CONFLUENT, JAVA, KAFKA_PYTHON
from support.consumers import Consumers
from support.entry import Proxy, running_proxy
from support.ownership import Partition
from support.raw import PlainLogin, RawConnection
from support.raw_member import NONE, RawMember
from support.secured import USERS, Login, TlsFiles, allow, secret, secured_cluster
from support.waiting import eventually

from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

PARTITIONS = 6
CLIENTS = (CONFLUENT, KAFKA_PYTHON, JAVA)
TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED = 29, 30

ALICE = PlainLogin("alice", secret("alice"))
BOB = PlainLogin("bob", secret("bob"))


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("secured-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, tls) -> Cluster:
    return own_kafka_of_module(**secured_cluster(tls))


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    """As a super user sees it."""
    return Kafka(cluster.bootstrap, source="secured", version=cluster.version)


@pytest.fixture(scope="module")
def sasl(cluster, empty_folder) -> Iterator[Proxy]:
    """In front of the listener SASL, plain on both sides."""
    with running_proxy(cluster.bootstrap_of("SASL"), empty_folder("secured-sasl")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def shared_topic(kafka) -> str:
    """A topic that every user may read."""
    topic = kafka.new_topic(partitions=PARTITIONS)
    for user in USERS:
        allow(kafka.admin, user, ResourceType.TOPIC, topic, AclOperation.READ)
    return topic


def new_group(kafka: Kafka, topic: str, *users: str) -> str:
    """A group that is translated, and that these users may be members of."""
    group = f"translate-{topic}-{len(users)}-{'-'.join(users).lower()}"
    for user in users:
        allow(kafka.admin, user, ResourceType.GROUP, group, AclOperation.READ)
    return group


def metadata(*topics: str) -> MetadataRequest:
    """A question about topics, and brokers."""
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=topic) for topic in topics), allow_auto_topic_creation=False
    )


def work_together(
    kafka: Kafka, consumers: Consumers, bootstrap: str, topic: str, logins: dict[str, Login]
) -> str:
    """Three clients of different makes and users share a topic and read what is produced; the group."""
    users = sorted({login.user for login in logins.values()})
    group = new_group(kafka, topic, *users)
    members = [
        consumers.start(
            kind, bootstrap, group, topic, "range", own_settings=logins[kind.name].settings(kind.name)
        )
        for kind in CLIENTS
    ]
    consumers.wait_until(
        lambda: sorted(len(one.owned()) for one in members) == [2, 2, 2], "each has its share", timeout_s=60
    )
    assert {member.member_type for member in kafka.describe(group).members} == {"consumer"}
    new = {(Partition(topic, record.partition), record.offset) for record in kafka.produce(topic, 60)}
    consumers.wait_until(
        lambda: new <= set().union(*(one.consumed() for one in members)), "everything is read"
    )
    return group


# -- who clients are -----------------------------------------------------------------------------------------


def test_clients_authenticate_to_the_broker_through_the_proxy(kafka, sasl, consumers, shared_topic):
    logins = {
        "confluent-kafka": Login("alice", "PLAIN"),
        "kafka-python": Login("bob", "SCRAM-SHA-256"),
        "java": Login("Carol", "OAUTHBEARER"),
    }
    work_together(kafka, consumers, sasl.bootstrap, shared_topic, logins)


def test_clients_authenticate_at_the_oldest_broker(own_kafka, tls, consumers, folder):
    """Java names ApiVersions v5 before and after it authenticates, which no broker before 4.4 has."""
    cluster = own_kafka(version="4.0.1", **secured_cluster(tls))
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=PARTITIONS)
    logins = dict.fromkeys((kind.name for kind in CLIENTS), Login("alice", "SCRAM-SHA-256"))
    allow(kafka.admin, "alice", ResourceType.TOPIC, topic, AclOperation.READ)
    with running_proxy(cluster.bootstrap_of("SASL"), folder / "proxy") as proxy:
        work_together(kafka, consumers, proxy.bootstrap, topic, logins)


def test_clients_authenticate_with_tls_on_both_sides(
    kafka, cluster, tls, empty_folder, consumers, shared_topic
):
    certificate, key = tls.issue("proxy")
    proxy = running_proxy(
        cluster.bootstrap_of("SASL_TLS"),
        empty_folder("secured-both-tls"),
        listener_tls={"certificate": str(certificate), "key": str(key)},
        upstream_tls={"ca": str(tls.ca)},
    )
    logins = {
        "confluent-kafka": Login("Carol", "OAUTHBEARER", tls.ca),
        "kafka-python": Login("alice", "SCRAM-SHA-512", tls.ca),
        "java": Login("bob", "SCRAM-SHA-256", tls.ca),
    }
    with proxy as entry:
        work_together(kafka, consumers, entry.bootstrap, shared_topic, logins)


@pytest.mark.parametrize("bare", [False, True], ids=["sasl-handshake-v1", "sasl-handshake-v0"])
def test_a_member_works_however_its_tokens_travel(kafka, sasl, shared_topic, bare):
    """A user whose name begins with a capital letter: the token reads like a header, were it looked at."""
    group = new_group(kafka, shared_topic + str(bare), "Carol")
    login = PlainLogin("Carol", secret("Carol"), bare=bare)
    with RawMember(sasl.bootstrap, group, shared_topic, login=login) as member:
        member.join()
        member.sync()
        assert member.heartbeat() == NONE
        assert member.commit(0, 1) == NONE
        (seen,) = kafka.describe(group).members
        assert seen.member_type == "consumer"
        member.leave()


@pytest.mark.parametrize("bare", [False, True], ids=["sasl-handshake-v1", "sasl-handshake-v0"])
def test_a_wrong_password_is_refused_by_the_broker(sasl, bare):
    wrong = PlainLogin("alice", "guessed", bare=bare)
    with pytest.raises((PermissionError, ConnectionError)):
        RawConnection(sasl.bootstrap, login=wrong)
    with RawConnection(sasl.bootstrap, login=ALICE) as good:
        assert good.call(metadata()).brokers


def test_a_request_without_authentication_gets_nothing(sasl):
    with RawConnection(sasl.bootstrap) as stranger, pytest.raises((ConnectionError, TimeoutError)):
        stranger.call(metadata())


# -- what a broker does --------------------------------------------------------------------------------------


def test_a_broker_closes_the_connection_for_a_foreign_request_during_authentication(cluster):
    with RawConnection(cluster.bootstrap_of("SASL")) as direct:
        assert direct.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code == NONE
        direct.send(metadata())
        direct.wait_closed()


@pytest.mark.parametrize("through_the_proxy", [False, True], ids=["direct", "translate"])
def test_a_member_that_does_not_authenticate_again_is_disconnected(
    kafka, cluster, empty_folder, shared_topic, *, through_the_proxy
):
    """At the first request after the session's lifetime, with and without the proxy."""
    group = new_group(kafka, f"{shared_topic}-{through_the_proxy}", "alice")
    with contextlib.ExitStack() as stack:
        entry = cluster.bootstrap_of("REAUTH")
        if through_the_proxy:
            proxy = stack.enter_context(running_proxy(entry, empty_folder("secured-lifetime")))
            entry = proxy.bootstrap
        member = stack.enter_context(RawMember(entry, group, shared_topic, login=ALICE))
        member.join()
        member.sync(PARTITIONS)

        def disconnected() -> bool:
            try:
                assert member.heartbeat() == NONE
            except ConnectionError:
                return True
            return False

        eventually(disconnected, what="the session is over", between_s=0.2)
        if through_the_proxy:
            ended = count(proxy.metrics(), "client_to_proxy_disconnects_total", cause="session_expired")
            assert ended == 1, "before a broker had to do it"


# -- what they may do ----------------------------------------------------------------------------------------


def test_without_read_on_the_group_the_answer_is_that_of_the_broker(kafka, cluster, sasl, shared_topic):
    group = new_group(kafka, shared_topic + "-acl", "alice")
    allow(kafka.admin, "bob", ResourceType.GROUP, group, AclOperation.DESCRIBE)  # may find the coordinator
    for entry in (cluster.bootstrap_of("SASL"), sasl.bootstrap):
        with RawMember(entry, group, shared_topic, login=BOB) as member:
            assert member.refused() == GROUP_AUTHORIZATION_FAILED
    with RawMember(sasl.bootstrap, group, shared_topic, login=ALICE) as member:
        member.join()
        member.sync()
        with RawMember(sasl.bootstrap, group, shared_topic, login=BOB) as stranger:
            stranger.member_id, stranger.generation = member.member_id, member.generation
            assert stranger.heartbeat() == GROUP_AUTHORIZATION_FAILED, "not even under the id of a member"
            with pytest.raises(AssertionError, match="group_authorization_failed"):
                stranger.sync()
        assert member.heartbeat() == NONE
        member.leave()


def test_clients_are_told_that_the_group_is_not_theirs(kafka, cluster, sasl, consumers, shared_topic):
    group = new_group(kafka, shared_topic + "-theirs", "alice")
    for entry in (cluster.bootstrap_of("SASL"), sasl.bootstrap):
        consumer = consumers.start(
            CONFLUENT, entry, group, shared_topic, "range", own_settings=Login("bob", "PLAIN").confluent()
        )
        consumer.wait_until(
            lambda one=consumer: [e for e in one.seen("error") if "GROUP_AUTH" in e.fields["error"]],
            "it is told",
        )
        assert consumer.owned() == frozenset()


def test_topics_that_may_not_be_described_are_left_out(kafka, sasl, shared_topic):
    """Classic JoinGroup never asked for them; the heartbeat of the new protocol refuses all if one is denied."""
    secret_topic = kafka.new_topic(partitions=2)
    group = new_group(kafka, secret_topic, "alice")
    with RawMember(sasl.bootstrap, group, shared_topic, secret_topic, login=ALICE) as member:
        member.join()
        assert member.sync() == {shared_topic: frozenset(range(PARTITIONS))}
        (seen,) = kafka.describe(group).members
        assert seen.subscribed_topics == {shared_topic}
        member.leave()


# -- what can't be the same ----------------------------------------------------------------------------------


def topic_error(connection: RawConnection, topic: str) -> int:
    """What the client is told of a topic."""
    return int(connection.call(metadata(topic)).topics[0].error_code)


def test_acls_by_host_see_the_host_of_the_proxy(kafka, cluster, sasl):
    topic, client_host = kafka.new_topic(partitions=1), "127.0.0.5"
    by_host = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        client_host,
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    for done in kafka.admin.create_acls([by_host]).values():
        done.result(timeout=60)
    with RawConnection(cluster.bootstrap_of("SASL"), login=ALICE, source_host=client_host) as direct:
        eventually(lambda: topic_error(direct, topic), lambda code: code == 0, what="the ACL holds")
    with RawConnection(sasl.bootstrap, login=ALICE, source_host=client_host) as through:
        assert topic_error(through, topic) == TOPIC_AUTHORIZATION_FAILED


def test_with_a_client_certificate_of_the_proxy_all_clients_are_one_principal(
    kafka, cluster, tls, empty_folder
):
    topic = kafka.new_topic(partitions=1)
    certificate, key = tls.issue("epochgate")
    shown = {
        "ca": str(tls.ca),
        "certificate": str(certificate),
        "key": str(key),
        "clients_share_identity": True,
    }
    with running_proxy(
        cluster.bootstrap_of("MUTUAL_TLS"), empty_folder("secured-mutual"), upstream_tls=shown
    ) as proxy:
        with RawConnection(proxy.bootstrap) as anybody:
            assert topic_error(anybody, topic) == TOPIC_AUTHORIZATION_FAILED
        allow(kafka.admin, "epochgate", ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
        for _ in range(2):
            with RawConnection(proxy.bootstrap) as anybody:
                eventually(
                    lambda one=anybody: topic_error(one, topic),
                    lambda code: code == 0,
                    what="it may, as the proxy",
                )


# -- the wrong listener --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listener", "tls_on", "said"),
    [
        ("TLS", False, "TLS"),
        ("SASL", True, "it may be a plaintext port"),
        ("MUTUAL_TLS", True, "the peer refuses our certificate, or that we show none"),
    ],
)
def test_a_proxy_set_up_for_the_wrong_listener_says_so(
    cluster, tls, empty_folder, monkeypatch, listener, tls_on, said
):
    monkeypatch.setenv("EPOCHGATE_UPSTREAM__STARTUP_TIMEOUT_S", "1")
    proxy = Proxy(
        cluster.bootstrap_of(listener),
        empty_folder(f"secured-wrong-{listener}"),
        upstream_tls={"ca": str(tls.ca)} if tls_on else None,
    )
    with pytest.raises(AssertionError, match=re.escape(said)):
        proxy.start()
    assert not proxy.alive
