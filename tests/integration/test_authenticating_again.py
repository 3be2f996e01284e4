"""Sessions of ten seconds (`connections.max.reauth.ms`): clients renew them under load, unnoticed by their group.

`test_kerberos.py` has the same for GSSAPI.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from support.authenticating_again import Application, AuthenticatingAgain
from support.broker import Kafka
from support.clients import CONFLUENT, CONFLUENT_PRODUCER, JAVA, JAVA_PRODUCER, KAFKA_PYTHON
from support.entry import Proxy, running_proxy
from support.secured import Login, TlsFiles, allow, secured_cluster

from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

PARTITIONS = 6
USER = "alice"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CLIENTS = ((CONFLUENT, CONFLUENT_PRODUCER), (JAVA, JAVA_PRODUCER), (KAFKA_PYTHON, CONFLUENT_PRODUCER))
CASES = [
    pytest.param(mechanism, *clients, id=f"{mechanism}-{clients[0]}")
    for mechanism in MECHANISMS
    for clients in CLIENTS
    if clients[0] is not KAFKA_PYTHON or mechanism != "OAUTHBEARER"
]
"""kafka-python has no unsecured OAUTHBEARER."""


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, empty_folder) -> Cluster:
    return own_kafka_of_module(**secured_cluster(TlsFiles(empty_folder("again-tls"))))


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="again", version=cluster.version)


@pytest.fixture
def proxy(cluster, folder) -> Iterator[Proxy]:
    with running_proxy(cluster.bootstrap_of("REAUTH"), folder / "proxy") as proxy:
        yield proxy


@pytest.mark.parametrize(("mechanism", "kind", "producer"), CASES)
def test_a_translated_group_whose_clients_authenticate_again_and_again_notices_nothing(
    kafka, proxy, consumers, mechanism, kind, producer
):
    topic = kafka.new_topic(partitions=PARTITIONS)
    group = f"translate-{topic}"
    allow(kafka.admin, USER, ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
    allow(kafka.admin, USER, ResourceType.GROUP, group, AclOperation.READ)
    login = Login(USER, mechanism)
    own = login.java() if producer is JAVA_PRODUCER else login.confluent()
    application = Application(kind, login.settings(kind.name), producer, own)
    AuthenticatingAgain(kafka, consumers, proxy, topic, group).run(application, PARTITIONS)
