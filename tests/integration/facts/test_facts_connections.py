"""What brokers really do with topics, connections and versions, asked of one by hand: see docs/evidence/facts.md."""

import datetime as dt
import struct
import time

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.api_versions.v0.request import ApiVersionsRequest as ApiVersionsV0
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest as DescribeGroupsV5
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from support import raw
from support.broker import Kafka
from support.raw_member import RawMember
from support.raw_new_member import RawNewMember, topic_id
from support.waiting import eventually

from protocol_codecs import ApiKey, decode, encode
from protocol_codecs.all_messages import ApiVersionsRequest, ApiVersionsResponse, RequestHeader

pytestmark = pytest.mark.kafka


# -- topics --------------------------------------------------------------------------------------------------


def test_a_recreated_topic_has_its_name_and_another_id(kafka):
    name = kafka.new_topic(partitions=1)
    before = topic_id(kafka, name)
    kafka.admin.delete_topics([name])[name].result(timeout=60)
    eventually(
        lambda: name in kafka.admin.list_topics(timeout=60).topics, lambda there: not there, what="it is gone"
    )
    kafka.new_topic(name=name, partitions=1)
    assert topic_id(kafka, name) != before


def test_a_heartbeat_needs_describe_on_every_topic_and_one_hidden_topic_empties_the_description(own_kafka):
    cluster = own_kafka(
        overrides={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
    )
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    shown, hidden = kafka.new_topic("shown", partitions=1), kafka.new_topic("hidden", partitions=1)
    with RawNewMember(kafka, "g", hidden) as member:
        member.join().until_owns(1)
        everybody = AclBinding(
            ResourceType.TOPIC,
            hidden,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.DENY,
        )
        kafka.admin.create_acls([everybody])[everybody].result(timeout=60)
        eventually(
            lambda: member.full(member.owned).error_code,
            lambda code: code == ErrorCode.topic_authorization_failed,
            what="the heartbeat is refused",
        )
        question = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
        described = member.call(question).groups[0]
        assert described.error_code == ErrorCode.topic_authorization_failed
        assert described.members == ()
    with RawMember(kafka.bootstrap, "classic", hidden) as classic:
        classic.join()  # never asked for DESCRIBE
    with RawNewMember(kafka, "h", shown) as member:
        member.join()


# -- connections and versions --------------------------------------------------------------------------------


def test_one_request_of_a_connection_is_processed_at_a_time(kafka, topic, group):
    """A Heartbeat behind a Fetch that waits for records is answered when the Fetch is."""
    wait_s = 1.5

    def fetch(seconds):
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
        return FetchRequest(
            max_wait=dt.timedelta(seconds=seconds),
            min_bytes=1,
            topics=(FetchTopic(topic=topic, partitions=(partition,)),),
            forgotten_topics_data=(),
        )

    question = DescribeGroupsV5(groups=(group,), include_authorized_operations=False)
    with raw.to_coordinator(kafka.bootstrap, group) as connection:
        connection.call(question)
        eventually(
            lambda: connection.call(fetch(0)).responses[0].partitions[0].error_code,
            lambda code: code == ErrorCode.none,
            what="the partition can be read",
        )
        began = time.monotonic()
        waits = fetch(wait_s)
        connection.send(waits)
        connection.send(question)
        connection.receive(waits)
        connection.receive(question)
        assert time.monotonic() - began >= wait_s - 0.1


def test_join_group_v0_and_v1_are_missing_in_4_0_0_only(kafka):
    (address, *_) = kafka.bootstrap.split(",")
    assert offered(address, ApiKey.JOIN_GROUP).min_version == (2 if kafka.version == "4.0.0" else 0)


def test_offset_commit_v0_and_v1_and_offset_fetch_v0_are_missing_since_4_0(kafka):
    with raw.RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0]) as connection:
        offered = {api.api_key: api for api in connection.call(ApiVersionsV0()).api_keys}
    assert (offered[8].min_version, offered[9].min_version) == ((2, 1) if kafka.version >= "4" else (0, 0))


def test_an_api_versions_request_of_the_future_is_answered_in_v0(kafka):
    with raw.RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0]) as connection:
        frame = struct.pack(">hhih", 18, 99, 7, -1) + bytes([0])
        connection.send_bytes(struct.pack(">i", len(frame)) + frame)
        answer = connection.receive_frame()
    correlation_id, error, count = struct.unpack(">ihi", answer[:10])
    assert (correlation_id, error) == (7, ErrorCode.unsupported_version)
    assert count * 6 == len(answer) - 10  # an array of v0: no compact lengths, no tags


def test_api_versions_v5_names_cluster_and_node_since_4_4(kafka):
    (address, *_) = kafka.bootstrap.split(",")
    cluster = kafka.admin.describe_cluster().result(timeout=60)
    (node_id,) = (node.id for node in cluster.nodes if f"{node.host}:{node.port}" == address)
    if kafka.version < "4.4":
        assert offered(address, ApiKey.API_VERSIONS).max_version == 4
        return
    assert offered(address, ApiKey.API_VERSIONS).max_version == 5
    for named, error in (
        ((None, -1), ErrorCode.none),
        ((cluster.cluster_id, node_id), ErrorCode.none),
        ((cluster.cluster_id, node_id + 1), ErrorCode.rebootstrap_required),
        (("another", node_id), ErrorCode.rebootstrap_required),
        ((cluster.cluster_id, -1), ErrorCode.invalid_request),
        ((None, node_id), ErrorCode.invalid_request),
    ):
        assert api_versions_v5(address, *named).error_code == error, named


def offered(address, api_key):
    with raw.RawConnection(address) as connection:
        return next(api for api in connection.call(ApiVersionsV0()).api_keys if api.api_key == api_key)


def api_versions_v5(address, cluster_id, node_id):
    """The answer to a version that kio does not have."""
    request = ApiVersionsRequest(
        client_software_name="raw", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    header = RequestHeader(
        request_api_key=ApiKey.API_VERSIONS, request_api_version=5, correlation_id=1, client_id="raw"
    )
    frame = encode(header, 2) + encode(request, 5)
    with raw.RawConnection(address) as connection:
        connection.send_bytes(struct.pack(">i", len(frame)) + frame)
        return decode(ApiVersionsResponse, 5, connection.receive_frame()[4:])
