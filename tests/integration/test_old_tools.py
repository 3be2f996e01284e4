"""Tools that know classic groups only list and describe a translated group as they always did.

The same is looked at through the proxy by Kafka's own old Java clients, by kafka-python's admin, and in every version
of DescribeGroups by hand.
"""

import importlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.serial import entity_reader
from support import raw
from support.clients import AIOKAFKA, CONFLUENT, COOPERATIVE
from support.consumers import ConsumerProcess, Consumers
from support.ownership import Partition

from tests.skips import Need, not_here, without
from tools.java_client import old_admin
from tools.kafka import jars

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that is old
    from kafka.admin import KafkaAdminClient

PARTITIONS = 4
HOST = "/127.0.0.1"

pytestmark = pytest.mark.kafka


@dataclass
class Watched:
    """A translated group of a dynamic eager member and a static cooperative one."""

    group: str
    topic: str
    bootstrap: str
    members: list[ConsumerProcess]

    @property
    def owned(self) -> dict[str, set[tuple[str, int]]]:
        """What each client says that it owns, by client id."""
        return {member.name: {tuple(at) for at in member.owned()} for member in self.members}


@pytest.fixture(scope="module")
def watched(kafka, entries, empty_folder) -> Iterator[Watched]:
    consumers = Consumers(empty_folder("old-tools"))
    entry = entries["translate"]
    group, topic = entry.new_group(), kafka.new_topic(partitions=PARTITIONS)
    members = [
        consumers.start(AIOKAFKA, entry.bootstrap, group, topic, "roundrobin", name="eager"),
        consumers.start(
            CONFLUENT, entry.bootstrap, group, topic, COOPERATIVE, name="cooperative", instance_id="one"
        ),
    ]
    consumers.wait_until(
        lambda: (
            [len(member.owned()) for member in members] == [2, 2]
            and set().union(*(member.owned() for member in members))
            == {Partition(topic, number) for number in range(PARTITIONS)}
        ),
        "the two share the topic",
    )
    yield Watched(group, topic, entry.bootstrap, members)
    consumers.end()


@pytest.mark.parametrize("version", ["2.0.1", "2.3.1", "2.8.2"])
def test_an_old_java_client_lists_and_describes_it(watched, version):
    try:
        seen = old_admin.look(version, watched.bootstrap, watched.group)
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, reason)
    assert watched.group in seen.listed
    assert seen.state == "Stable"
    assert seen.assignor == "uniform"
    assert {member.client_id: member.partitions for member in seen.members.values()} == watched.owned
    assert {member.host for member in seen.members.values()} == {HOST}


def test_kafka_pythons_admin_lists_and_describes_it(watched):
    admin = KafkaAdminClient(bootstrap_servers=watched.bootstrap)
    try:
        listed = admin.list_groups()
        found = admin.describe_groups([watched.group])[watched.group]
    finally:
        admin.close()
    assert watched.group in {group["group_id"] for group in listed}
    assert found["group_state"] == "Stable"
    assert found["protocol_type"] == "consumer"
    seen = {}
    for member in found["members"]:
        assert member["client_host"] == HOST
        assert member["member_metadata"]["topics"] == [watched.topic]
        seen[member["client_id"]] = {
            (at["topic"], partition)
            for at in member["member_assignment"]["assigned_partitions"]
            for partition in at["partitions"]
        }
    assert seen == watched.owned


@pytest.mark.parametrize("version", range(7))
def test_every_version_of_describe_groups_shows_members_with_subscription_and_assignment(watched, version):
    try:
        schema = importlib.import_module(f"kio.schema.describe_groups.v{version}.request")
    except ImportError:
        not_here(f"kio has no DescribeGroups v{version}")
    options = {"include_authorized_operations": True} if version >= 3 else {}
    with raw.to_coordinator(watched.bootstrap, watched.group) as connection:
        answer = connection.call(schema.DescribeGroupsRequest(groups=(watched.group, "nobody"), **options))
    by_id = {group.group_id: group for group in answer.groups}
    found, nobody = by_id[watched.group], by_id["nobody"]
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "consumer")
    assert nobody.group_state == "Dead"
    seen = {}
    for member in found.members:
        assert member.client_host == HOST
        if version >= 4:
            assert member.group_instance_id == {"eager": None, "cooperative": "one"}[member.client_id]
        subscription, _ = entity_reader(ConsumerProtocolSubscription)(member.member_metadata, 2)
        assert subscription.topics == (watched.topic,)
        assignment, _ = entity_reader(ConsumerProtocolAssignment)(member.member_assignment, 2)
        seen[member.client_id] = {
            (at.topic, partition) for at in assignment.assigned_partitions for partition in at.partitions
        }
    assert seen == watched.owned
