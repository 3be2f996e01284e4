"""`epochgate exporter` counts all groups of a real cluster, of which no proxy has seen any."""

import contextlib
from collections.abc import Iterator

import pytest
import trio
from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, ResourceType
from support.broker import QUIET, Kafka
from support.exporters import running_ours
from support.raw import to_coordinator
from support.raw_member import Offer, RawMember
from support.raw_share_member import RawShareMember
from support.raw_streams_member import RawStreamsMember
from support.secured import Login, TlsFiles, allow, secured_cluster
from support.waiting import eventually

from proxy.exporter.broker_connection import BrokerAccount, UnsupportedAccount
from proxy.exporter.cluster_census import ClusterCount, Gap, count_cluster
from tests.skips import Need, without
from tools.kafka import jars, share_groups_tool
from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

SEES_ALL, SEES_ONE = "alice", "bob"
GROUPS = {
    ("classic", "consumer"): 1,
    ("classic", "connect"): 1,
    ("classic", "other"): 1,
    ("classic", "none"): 1,
    ("consumer", "consumer"): 2,
    ("share", "share"): 1,
    ("streams", "streams"): 1,
}
MEMBERS = {
    ("classic", "consumer", "classic"): 2,
    ("classic", "connect", "classic"): 1,
    ("classic", "other", "classic"): 1,
    ("consumer", "consumer", "classic"): 1,
    ("consumer", "consumer", "consumer"): 2,
    ("share", "share", "share"): 1,
    ("streams", "streams", "streams"): 1,
}

Truth = tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], int]]
"""Groups and members."""


@pytest.fixture(scope="module")
def tls(empty_folder) -> TlsFiles:
    return TlsFiles(empty_folder("cluster-groups-tls"))


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, tls) -> Cluster:
    return own_kafka_of_module(**secured_cluster(tls))


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    return Kafka(cluster.bootstrap, source="cluster-groups", version=cluster.version)


@pytest.fixture(scope="module")
def groups(kafka) -> Iterator[Truth]:
    """GROUPS and MEMBERS, before Kafka 4.2 without the types that were a preview.

    Members by hand send no more heartbeats: their sessions are longer than these tests.
    """
    topic = kafka.new_topic(partitions=4)
    with contextlib.ExitStack() as stack:

        def consumer(group: str, protocol: str) -> None:
            settings = {"bootstrap.servers": kafka.bootstrap, "group.id": group, "group.protocol": protocol}
            one = Consumer(settings | QUIET)
            stack.callback(one.close)
            one.subscribe([topic])
            consumers.append(one)

        def joined(group: str, members: int) -> None:
            def count() -> int:
                for one in consumers:
                    one.poll(0.05)
                described = kafka.admin.describe_consumer_groups([group])[group].result(timeout=60)
                return len(described.members)

            eventually(count, lambda found: found == members, what=f"{group} has {members} members")

        consumers: list[Consumer] = []
        for group, protocols in {
            "classic": ("classic", "classic"),
            "native": ("consumer",),
            "mixed": ("consumer", "classic"),
        }.items():
            for number, protocol in enumerate(protocols, start=1):
                consumer(group, protocol)
                joined(group, number)
        kafka.commit("commits-only", {(topic, 0): 0})
        for protocol_type in ("connect", "sr"):
            offer = Offer(protocol_type=protocol_type)
            member = RawMember(
                kafka.bootstrap, f"of-{protocol_type}", topic, session_timeout_ms=300_000, offer=offer
            )
            stack.callback(member.close)
            member.join()
            member.sync()
        older = kafka.version < "4.2"
        if not older:
            share = stack.enter_context(to_coordinator(kafka.bootstrap, "share"))
            assert RawShareMember(kafka, share, "share", topic).join().error_code == 0
            kafka.configure_group("streams", {"streams.session.timeout.ms": "60000"})
            streams = RawStreamsMember(kafka.bootstrap, "streams", topic)
            stack.callback(streams.close)
            streams.beat()
        allow(kafka.admin, SEES_ALL, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
        for resource in (ResourceType.GROUP, ResourceType.TOPIC):
            allow(kafka.admin, SEES_ALL, resource, "*", AclOperation.DESCRIBE)
        allow(kafka.admin, SEES_ONE, ResourceType.GROUP, "classic", AclOperation.DESCRIBE)
        yield tuple(
            {
                kind: number
                for kind, number in truth.items()
                if not older or kind[0] in ("classic", "consumer")
            }
            for truth in (GROUPS, MEMBERS)
        )


def counted(properties: dict[str, object]) -> ClusterCount:
    return trio.run(count_cluster, BrokerAccount(properties))  # type: ignore[arg-type]


def test_all_groups_and_members_are_counted_and_kafkas_own_tool_lists_the_same_groups(
    kafka, groups, empty_folder
):
    with running_ours(kafka.bootstrap, empty_folder("cluster-groups"), {"every_s": 5}) as exporter:
        eventually(
            lambda: exporter.series("epochgate_cluster_complete"),
            lambda found: set(found.values()) == {1.0},
            what="the count is complete",
        )
        series = exporter.series("epochgate_cluster_groups", "epochgate_cluster_members")
    values = {
        tuple(
            dict(labels)[name] for name in ("type", "protocol", "member_type") if name in dict(labels)
        ): value
        for (_, labels), value in series.items()
    }
    assert {kind: number for kind, number in values.items() if number} == groups[0] | groups[1]
    try:
        listed = share_groups_tool.run(
            kafka.version, kafka.bootstrap, "--list", main=share_groups_tool.GROUPS
        )
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, f"no kafka-groups.sh: {reason}")
    types = [
        line.split()[1].lower() for line in listed.splitlines() if line and not line.startswith("GROUP ")
    ]
    for group_type in ("classic", "consumer", "share", "streams"):
        assert types.count(group_type) == sum(
            number for kind, number in values.items() if len(kind) == 2 and kind[0] == group_type
        )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL", "SASL_TLS"])
def test_accounts_that_the_exporter_can_be(cluster, tls, groups, mechanism, listener):
    login = Login(SEES_ALL, mechanism, tls.ca if listener == "SASL_TLS" else None)
    count = counted({"bootstrap.servers": cluster.bootstrap_of(listener), **login.confluent()})
    assert count.is_complete, count.reasons
    assert {kind: number for kind, number in count.groups.items() if number} == groups[0]
    assert {kind: number for kind, number in count.members.items() if number} == groups[1]


def test_an_account_with_a_certificate(cluster, tls, groups):
    certificate, key = tls.issue(SEES_ALL)
    files = {
        "ssl.ca.location": str(tls.ca),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }
    server = {"bootstrap.servers": cluster.bootstrap_of("MUTUAL_TLS"), "security.protocol": "SSL"}
    assert counted(server | files).is_complete


def test_an_account_that_may_not_list_all_groups_does_not_count_as_complete(cluster, groups):
    login = Login(SEES_ONE, "PLAIN").confluent()
    count = counted({"bootstrap.servers": cluster.bootstrap_of("SASL"), **login})
    assert count.gaps == {Gap.RIGHTS: 1}
    assert count.groups.total() == 1
    assert count.members[("classic", "consumer", "classic")] == 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sasl.password": "wrong"}, "SASL_AUTHENTICATION_FAILED"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.password": "wrong"}, "SASL_AUTHENTICATION_FAILED"),
        ({"bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_without_a_broker_that_lets_it_in_nothing_is_counted(cluster, groups, change, reason):
    login = Login(SEES_ALL, "PLAIN").confluent()
    count = counted({"bootstrap.servers": cluster.bootstrap_of("SASL"), **login, **change})
    assert count.gaps[Gap.BROKERS] == 1
    assert not count.groups.total()
    assert any(reason in one for one in count.reasons), count.reasons


def test_other_mechanisms_are_refused_by_name():
    with pytest.raises(UnsupportedAccount, match="OAUTHBEARER"):
        BrokerAccount({"bootstrap.servers": "b:1", **Login(SEES_ALL, "OAUTHBEARER").confluent()})  # type: ignore[dict-item]
