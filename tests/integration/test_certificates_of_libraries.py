"""Client libraries with certificates in one group behind two replicas: brokers see each one's own principal.

The principals are those of the broker's authorizer log, which names who was allowed to do what.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from support.broker import Kafka
from support.certificates import (
    Client,
    allow_tokens,
    authorized,
    certificate_proxy,
    cluster_with_tokens,
    identity_count,
    log_what_is_allowed,
    token_owners,
)
from support.clients import CONFLUENT, JAVA, KAFKA_PYTHON, ClientKind
from support.entry import Proxy
from support.library_uses import Uses, read_of_clients
from support.live_group import LiveGroup
from support.load import Load
from support.other_clients import FRANZ_GO
from support.secured import TlsFiles, allow

from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

PARTITIONS = 8
KINDS = (CONFLUENT, JAVA, KAFKA_PYTHON, FRANZ_GO)
DESCRIBING = {"ConsumerGroupDescribe", "DescribeGroups"}


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("libraries-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module) -> Cluster:
    cluster = own_kafka_of_module(**cluster_with_tokens())
    log_what_is_allowed(cluster)
    return cluster


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="libraries", version=cluster.version)


@pytest.fixture
def clients(tls, cluster) -> dict[ClientKind, Client]:
    """A certificate for each library."""
    found = {kind: Client(tls, str(kind)) for kind in KINDS}
    for client in found.values():
        allow_tokens(cluster, client.principal)
    return found


@pytest.fixture
def proxies(kafka, cluster, tls, folder, group) -> Iterator[list[Proxy]]:
    """Two replicas with a member log."""
    fleet = {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": 4,
        "replication": 1,
        "expires": True,
    }
    options = {"sole_process": False, "fleet": fleet}
    with (
        certificate_proxy(cluster, tls, folder / "replica-1", **options) as one,
        certificate_proxy(cluster, tls, folder / "replica-2", **options) as other,
    ):
        yield [one, other]


def test_each_library_works_in_a_group_that_moves(kafka, cluster, consumers, clients, proxies, folder, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    for client in clients.values():
        allow(kafka.admin, client.principal, ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
        allow(kafka.admin, client.principal, ResourceType.GROUP, group, AclOperation.READ)
    live = LiveGroup(kafka, consumers, proxies, group, {topic: PARTITIONS})
    live.policy("observe")
    with Load(kafka, topic) as load:
        live.loads = [load]
        for number, (kind, client) in enumerate(clients.items()):
            entry, own_settings = proxies[number % 2].bootstrap, client.settings(kind.name)
            member = consumers.start(kind, entry, group, topic, "range", own_settings=own_settings)
            live.members.append(member)
        live.until_shared()
        live.until_quiet()
        marks = live.move("translate")
        for member, client in zip(live.members, clients.values(), strict=True):
            uses = Uses(member, client, topic, group, kafka.version, folder)
            uses.produce(proxies[0].bootstrap)
            assert uses.describe(proxies[1].bootstrap) == len(KINDS), client.name
        for member in live.members:
            assert member.commit().kind == "committed"
        live.read_up_to_now()
        live.move("observe")
        assert live.callbacks(marks, "lost") == []
    consumers.wait_until(
        lambda: len(read_of_clients(live)) == len(KINDS), "what the clients produced is read"
    )
    live.read_up_to_now()
    live.account()
    of_topic = authorized(cluster, f"Topic:LITERAL:{topic}")
    of_group = authorized(cluster, f"Group:LITERAL:{group}")
    principals = {client.principal for client in clients.values()}
    assert of_topic.keys() == of_group.keys() == principals, "nobody else, and not the account"
    for principal in principals:
        assert of_topic[principal] >= {"Produce", "Fetch", "OffsetCommit"}
        assert of_group[principal] >= {"JoinGroup", "ConsumerGroupHeartbeat", "OffsetCommit"}
        assert of_group[principal] & DESCRIBING
    assert all(identity_count(proxy, "authentications", "failed") == 0 for proxy in proxies)
    owners = token_owners(cluster)
    assert (set(owners), max(Counter(owners).values())) == (principals, 2), "one for each replica at most"
    assert sum(identity_count(proxy, "tokens", "created") for proxy in proxies) == len(owners)
