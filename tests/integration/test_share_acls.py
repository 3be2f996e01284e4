"""Who may do what to a share group: every call, by every kind of user, straight and through the proxy (KIP-932)."""

import dataclasses
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from kio.schema.alter_share_group_offsets.v0 import request as alter_offsets
from kio.schema.delete_share_group_offsets.v0 import request as delete_offsets
from kio.schema.describe_share_group_offsets.v1 import request as describe_offsets
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.share_acknowledge.v1 import request as share_acknowledge
from kio.schema.share_fetch.v1 import request as share_fetch
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.static.primitive import i32Timedelta
from kio.static.protocol import RequestPayload
from support.broker import Kafka
from support.entry import running_proxy
from support.raw import PlainLogin, RawConnection
from support.raw_new_member import LOADING
from support.secured import TlsFiles, allow, secret, secured_cluster
from support.share import skip_without_share_groups
from support.waiting import eventually

from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

MAY_ALL, MAY_ONLY_DESCRIBE, MAY_NOT_READ_THE_TOPIC = "alice", "bob", "Carol"


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, empty_folder) -> Cluster:
    return own_kafka_of_module(**secured_cluster(TlsFiles(empty_folder("share-acls-tls"))))


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    skip_without_share_groups(cluster.version, preview=False)
    return Kafka(cluster.bootstrap, source="secured", version=cluster.version)


@pytest.fixture
def topic(kafka) -> str:
    topic = kafka.new_topic(partitions=1)
    allow(kafka.admin, MAY_ALL, ResourceType.TOPIC, topic, AclOperation.READ)
    allow(kafka.admin, MAY_ONLY_DESCRIBE, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    return topic


@pytest.fixture
def share_group(kafka, topic, group) -> Iterator[str]:
    """A share group with a member and initialized partitions, and what the users may do to it."""
    allow(kafka.admin, MAY_ALL, ResourceType.GROUP, group, AclOperation.READ, AclOperation.DELETE)
    allow(kafka.admin, MAY_ONLY_DESCRIBE, ResourceType.GROUP, group, AclOperation.DESCRIBE)
    allow(kafka.admin, MAY_NOT_READ_THE_TOPIC, ResourceType.GROUP, group, AclOperation.READ)
    with RawConnection(kafka.bootstrap) as connection:
        join = ShareGroupHeartbeatRequest(
            group_id=group, member_id=str(uuid.uuid4()), member_epoch=0, subscribed_topic_names=(topic,)
        )
        eventually(
            lambda: connection.call(join),
            lambda said: said.error_code != LOADING and said.assignment and said.assignment.topic_partitions,
            what="the group's member has a partition",
        )
        yield group
        connection.call(dataclasses.replace(join, member_epoch=-1, subscribed_topic_names=None))


def calls(group: str, topic: str, topic_id: uuid.UUID) -> list[RequestPayload]:
    """Every call of a share consumer, and of a tool for share groups, in an order that makes sense."""
    member = str(uuid.uuid4())
    partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=())
    fetch = share_fetch.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=0,
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=0,
        max_records=1,
        batch_size=1,
        topics=(share_fetch.FetchTopic(topic_id=topic_id, partitions=(partition,)),),
        forgotten_topics_data=(),
    )
    batch = share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=(1,))
    acknowledged = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=(batch,))
    heartbeat = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=(topic,)
    )
    return [
        heartbeat,
        fetch,
        share_acknowledge.ShareAcknowledgeRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=1,
            topics=(share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=(acknowledged,)),),
        ),
        dataclasses.replace(fetch, share_session_epoch=-1, topics=()),
        ShareGroupDescribeRequest(group_ids=(group,), include_authorized_operations=True),
        describe_offsets.DescribeShareGroupOffsetsRequest(
            groups=(
                describe_offsets.DescribeShareGroupOffsetsRequestGroup(
                    group_id=group,
                    topics=(
                        describe_offsets.DescribeShareGroupOffsetsRequestTopic(
                            topic_name=topic, partitions=(0,)
                        ),
                    ),
                ),
            )
        ),
        alter_offsets.AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=(
                alter_offsets.AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=(
                        alter_offsets.AlterShareGroupOffsetsRequestPartition(
                            partition_index=0, start_offset=0
                        ),
                    ),
                ),
            ),
        ),
        delete_offsets.DeleteShareGroupOffsetsRequest(
            group_id=group, topics=(delete_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=topic),)
        ),
        dataclasses.replace(heartbeat, member_epoch=-1, subscribed_topic_names=None),
    ]


def errors(answer: Any) -> Iterator[str]:
    """The names of all error codes in an answer, in order."""
    if isinstance(answer, ErrorCode):
        yield answer.name
    elif isinstance(answer, tuple):
        for element in answer:
            yield from errors(element)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            yield from errors(getattr(answer, field.name))


def told(entry: str, user: str, requests: list[RequestPayload]) -> dict[str, frozenset[str]]:
    """Which errors this user is told at this entry, call by call.

    How often does not count: a ShareFetch that does not wait names a partition or not, as its state is being loaded.
    """
    with RawConnection(entry, login=PlainLogin(user, secret(user))) as connection:
        return {
            f"{number} {type(request).__name__}": frozenset(errors(connection.call(request)))
            for number, request in enumerate(requests)
        }


def test_every_user_may_do_through_the_proxy_what_it_may_do_straight(
    kafka, cluster, share_group, topic, folder
):
    described = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=topic),), include_topic_authorized_operations=False
    )
    with RawConnection(kafka.bootstrap) as connection:
        topic_id = connection.call(described).topics[0].topic_id
    straight = cluster.bootstrap_of("SASL")
    with running_proxy(straight, folder / "proxy") as proxy:
        answers = {
            user: [
                told(entry, user, calls(share_group, topic, topic_id))
                for entry in (straight, proxy.bootstrap)
            ]
            for user in (MAY_ALL, MAY_ONLY_DESCRIBE, MAY_NOT_READ_THE_TOPIC)
        }
    for user, (direct, through) in answers.items():
        assert through == direct, user
    seen = {
        user: {error for codes in direct.values() for error in codes} for user, (direct, _) in answers.items()
    }
    assert "group_authorization_failed" in seen[MAY_ONLY_DESCRIBE]
    assert "topic_authorization_failed" in seen[MAY_NOT_READ_THE_TOPIC]
    assert not {error for error in seen[MAY_ALL] if "authorization" in error}
