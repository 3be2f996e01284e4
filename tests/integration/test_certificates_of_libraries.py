"""Client libraries with certificates in one group behind two replicas: brokers see each one's own principal.

The principals are those of the broker's authorizer log, which names who was allowed to do what.
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
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
from support.consumers import ConsumerProcess
from support.entry import Proxy
from support.live_group import LiveGroup
from support.load import Load
from support.other_clients import FRANZ_GO
from support.ownership import Event, Partition, deliveries
from support.secured import TlsFiles, allow

from tools.kafka import share_groups_tool
from tools.kafka.cluster import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that is old
    from kafka import KafkaAdminClient, KafkaProducer

pytestmark = pytest.mark.kafka

PARTITIONS = 8
KINDS = (CONFLUENT, JAVA, KAFKA_PYTHON, FRANZ_GO)
PRODUCED = "made by a client with a certificate"
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


@dataclass(frozen=True)
class Uses:
    """What a client's owner does beside consuming, each with the client's own library."""

    member: ConsumerProcess
    client: Client
    topic: str
    group: str
    version: str
    folder: Path

    def produce(self, bootstrap: str) -> None:
        """A record, acknowledged."""
        match self.member.kind:
            case kind if kind is CONFLUENT:
                failed: list[object] = []
                producer = Producer({"bootstrap.servers": bootstrap, **self.client.confluent()})
                producer.produce(
                    self.topic, PRODUCED, on_delivery=lambda error, _: failed.append(error) if error else None
                )
                assert (producer.flush(30), failed) == (0, [])
            case kind if kind is KAFKA_PYTHON:
                producer = KafkaProducer(bootstrap_servers=bootstrap, **self.client.kafka_python())
                producer.send(self.topic, PRODUCED.encode()).get(timeout=30)
                producer.close()
            case kind if kind is JAVA:
                self._tool(
                    share_groups_tool.CONSOLE_PRODUCER, bootstrap, "--topic", self.topic,
                    "--producer.config", str(self._properties), written=f"{PRODUCED}\n",
                )  # fmt: skip
            case _:
                self._franz_go("produce", topic=self.topic, value=PRODUCED)

    def describe(self, bootstrap: str) -> int:
        """How many members the group has."""
        match self.member.kind:
            case kind if kind is CONFLUENT:
                admin = AdminClient({"bootstrap.servers": bootstrap, **self.client.confluent()})
                return len(
                    admin.describe_consumer_groups([self.group])[self.group].result(timeout=30).members
                )
            case kind if kind is KAFKA_PYTHON:
                asked = KafkaAdminClient(bootstrap_servers=bootstrap, **self.client.kafka_python())
                described = asked.describe_groups([self.group])
                asked.close()
                return len(described[self.group]["members"])
            case kind if kind is JAVA:
                printed = self._tool(
                    share_groups_tool.CONSUMER_GROUPS, bootstrap, "--describe", "--members", "--group", self.group,
                    "--command-config", str(self._properties),
                )  # fmt: skip
                return sum(line.startswith(self.group) for line in printed.splitlines())
            case _:
                return int(self._franz_go("describe").fields["members"])

    def _tool(self, main: str, bootstrap: str, *arguments: str, written: str = "") -> str:
        return share_groups_tool.run(self.version, bootstrap, *arguments, main=main, written=written)

    @property
    def _properties(self) -> Path:
        file = self.folder / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.client.java().items()))
        return file

    def _franz_go(self, command: str, **fields: object) -> Event:
        since = self.member.mark()
        self.member.send(command, **fields)
        answer = self.member.wait_for("produced", "described", "error", since=since)
        assert answer.kind != "error", answer
        return answer


def read_of_clients(live: LiveGroup) -> set[tuple[Partition, int]]:
    """Where the members have read what the clients produced."""
    read = deliveries([event for member in live.members for event in member.events])
    return {(one.partition, one.offset) for one in read if one.value == PRODUCED}
