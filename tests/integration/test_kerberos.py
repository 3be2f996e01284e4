"""Kerberos (GSSAPI) on a real broker, with a real KDC: which host name a client's ticket has to be for."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from support.authenticating_again import Application, AuthenticatingAgain
from support.broker import Kafka
from support.clients import JAVA, JAVA_PRODUCER
from support.entry import running_proxy
from support.kerberos import Realm, service_of
from support.ownership import Partition
from support.secured import REAUTHENTICATION_MS, allow
from support.waiting import eventually

from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.ports import LOOPBACK

pytestmark = pytest.mark.kafka

PARTITIONS = 6
USER = "alice"
BROKER, PROXY, ALIAS, UNKNOWN = (f"{name}.epochgate.test" for name in ("broker", "proxy", "alias", "unknown"))


@pytest.fixture(scope="module")
def realm(empty_folder) -> Iterator[Realm]:
    with Realm(
        empty_folder("kerberos"), dict.fromkeys((BROKER, "localhost", PROXY, ALIAS, UNKNOWN), LOOPBACK)
    ) as realm:
        yield realm


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, realm) -> Cluster:
    """Listeners that differ in whom the broker is: as itself, or as the proxy's advertised host.

    `BROKERS` has a keytab with both, and its JAAS section names the first; `SHARED` is one account with two names.
    `LOCALHOST` is for clients that resolve names as this machine does.
    """
    both = realm.keytab("both", service_of(BROKER), service_of(PROXY))
    of_proxy = realm.keytab("of-proxy", service_of(PROXY))
    return own_kafka_of_module(
        listeners=(
            ExtraListener("BROKERS", "SASL_PLAINTEXT", realm.listener(both, service_of(BROKER))),
            ExtraListener("PROXY", "SASL_PLAINTEXT", realm.listener(of_proxy, service_of(PROXY))),
            ExtraListener(
                "LOCALHOST",
                "SASL_PLAINTEXT",
                realm.listener(realm.keytab("localhost", service_of("localhost")), service_of("localhost")),
            ),
            ExtraListener(
                "REAUTH",
                "SASL_PLAINTEXT",
                realm.listener(of_proxy, service_of(PROXY), reauthentication_ms=REAUTHENTICATION_MS),
            ),
            ExtraListener(
                "SHARED",
                "SASL_PLAINTEXT",
                realm.listener(
                    realm.keytab_of_one_account("shared", service_of(f"other.{ALIAS}"), service_of(ALIAS)),
                    service_of(f"other.{ALIAS}"),
                ),
            ),
        ),
        overrides={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
        java_options=realm.java_options,
    )


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="kerberos", version=cluster.version)


@pytest.fixture(scope="module")
def topic(kafka) -> str:
    topic = kafka.new_topic(partitions=PARTITIONS)
    allow(kafka.admin, USER, ResourceType.TOPIC, topic, AclOperation.READ)
    return topic


def new_group(kafka: Kafka, name: str) -> str:
    group = f"translate-{name}"
    allow(kafka.admin, USER, ResourceType.GROUP, group, AclOperation.READ)
    return group


@pytest.mark.parametrize(
    ("listener", "advertised_host"),
    [("PROXY", PROXY), ("SHARED", ALIAS)],
    ids=["listener-for-the-proxy", "one-account-with-both-names"],
)
def test_a_client_with_a_ticket_for_the_proxys_host_works_in_a_translated_group(
    kafka, cluster, realm, folder, consumers, topic, listener, advertised_host
):
    group = new_group(kafka, listener.lower())
    with running_proxy(
        cluster.bootstrap_of(listener), folder / "proxy", advertised_host=advertised_host
    ) as proxy:
        member = consumers.start(
            realm.of_realm(JAVA), proxy.bootstrap, group, topic, "range", own_settings=realm.client(USER)
        )
        member.wait_until(lambda: len(member.owned()) == PARTITIONS, "it owns all")
        new = {(Partition(topic, one.partition), one.offset) for one in kafka.produce(topic, 12)}
        member.wait_until(lambda: new <= member.consumed(), "it reads")
        (seen,) = kafka.describe(group).members
        assert seen.member_type == "consumer"
        member.close()


def test_librdkafka_with_cyrus_sasl_works_in_a_translated_group(kafka, cluster, realm, folder, topic):
    group = new_group(kafka, "kcat")
    records = {f"{one.topic} {one.partition} {one.offset}" for one in kafka.produce(topic, 12)}
    with (
        running_proxy(
            cluster.bootstrap_of("LOCALHOST"), folder / "proxy", advertised_host="localhost"
        ) as proxy,
        realm.kcat(USER, folder, proxy.bootstrap, group, topic) as read,
    ):
        eventually(
            lambda: records - set(read.read_text().splitlines()), lambda left: not left, what="it reads all"
        )
        (seen,) = kafka.describe(group).members
        assert seen.member_type == "consumer"


def test_a_ticket_for_a_host_that_is_in_the_keytab_only_is_refused(
    kafka, cluster, realm, folder, consumers, topic
):
    """Straight at the same listener the client works: its ticket is for the host that the JAAS section names."""
    group = new_group(kafka, "refused")
    with running_proxy(cluster.bootstrap_of("BROKERS"), folder / "proxy", advertised_host=PROXY) as proxy:
        member = consumers.start(
            realm.of_realm(JAVA), proxy.bootstrap, group, topic, "range", own_settings=realm.client(USER)
        )
        said = member.wait_for("failed").fields["error"]
        assert "invalid credentials with SASL mechanism GSSAPI" in said
    direct = consumers.start(
        realm.of_realm(JAVA),
        cluster.bootstrap_of("BROKERS"),
        group,
        topic,
        "range",
        own_settings=realm.client(USER),
    )
    direct.wait_until(lambda: len(direct.owned()) == PARTITIONS, "it owns all")


def test_there_is_no_ticket_for_an_advertised_host_without_a_principal(
    kafka, cluster, realm, folder, consumers, topic
):
    """The client only says that its connection ended; the KDC's log names what it wanted."""
    group = new_group(kafka, "unknown")
    with running_proxy(cluster.bootstrap_of("PROXY"), folder / "proxy", advertised_host=UNKNOWN) as proxy:
        member = consumers.start(
            realm.of_realm(JAVA), proxy.bootstrap, group, topic, "range", own_settings=realm.client(USER)
        )
        eventually(
            realm.refused_tickets, lambda seen: service_of(UNKNOWN) in seen, what="no ticket", between_s=0.2
        )
        assert member.owned() == frozenset()


def test_a_translated_group_whose_tickets_are_shown_again_and_again_notices_nothing(
    kafka, cluster, realm, folder, consumers
):
    topic = kafka.new_topic(partitions=PARTITIONS)
    allow(kafka.admin, USER, ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
    group = new_group(kafka, topic)
    own = realm.client(USER)
    application = Application(realm.of_realm(JAVA), own, realm.of_realm(JAVA_PRODUCER), own)
    with running_proxy(cluster.bootstrap_of("REAUTH"), folder / "proxy", advertised_host=PROXY) as proxy:
        AuthenticatingAgain(kafka, consumers, proxy, topic, group).run(application, PARTITIONS)
