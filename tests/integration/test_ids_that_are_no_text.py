"""Ids with invalid UTF-8: the broker takes each bad sequence for U+FFFD, and through the proxy it is the same."""

import datetime as dt
import struct
from collections.abc import Iterator

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.heartbeat.v3.request import HeartbeatRequest
from kio.schema.join_group.v5.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v3.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_commit.v7.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v5.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.sync_group.v3.request import SyncGroupRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload
from support.entry import Entry
from support.raw import RawConnection, to_coordinator

pytestmark = pytest.mark.kafka

WRITTEN, SENT, READ = "~BAD~~", b"~\xff\xed\xa0\x80~", "~\ufffd\ufffd~"
"""What is written in a request here, what is sent for it, and what the broker reads: a surrogate is one character."""
MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID = 79, 25


@pytest.fixture(params=["direct", "observe", "translate"])
def entry(request: pytest.FixtureRequest, entries) -> Entry:
    return entries[request.param]


class BadConnection(RawConnection):
    """Sends bytes that are no UTF-8 where a request says :data:`WRITTEN`."""

    def frame(self, request: RequestPayload) -> bytes:
        return super().frame(request).replace(WRITTEN.encode(), SENT)


@pytest.fixture
def group(entry) -> str:
    return f"{entry.new_group()}-{WRITTEN}"


def subscription_to(topic: str) -> bytes:
    """Version 0 of the consumer protocol's."""
    return b"\0\0" + b"\0\0\0\x01" + struct.pack(">h", len(topic)) + topic.encode() + b"\xff\xff\xff\xff"


def heartbeat(group: str, generation_id: int, member_id: str, instance_id: str | None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=GroupId(group),
        generation_id=i32(generation_id),
        member_id=member_id,
        group_instance_id=instance_id,
    )


@pytest.fixture
def connection(entry, group) -> Iterator[BadConnection]:
    client_id = f"client-{WRITTEN}"
    with BadConnection(entry.bootstrap, client_id=client_id) as first:
        (found,) = first.call(FindCoordinatorRequest(coordinator_keys=(group,))).coordinators
    assert (found.error_code, found.key) == (0, group.replace(WRITTEN, READ))
    with BadConnection(f"{found.host}:{found.port}", client_id=client_id) as bad:
        yield bad


def test_a_client_with_such_ids_is_a_member_as_any(kafka, entry, connection, group):
    topic = kafka.new_topic(partitions=1)
    assert (
        connection.call(
            ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        ).error_code
        == 0
    )

    def join(member_id: str):
        return connection.call(
            JoinGroupRequest(
                group_id=GroupId(group),
                session_timeout=i32Timedelta.parse(dt.timedelta(seconds=10)),
                rebalance_timeout=i32Timedelta.parse(dt.timedelta(seconds=10)),
                member_id=member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription_to(topic)),),
            )
        )

    required = join("")
    assert required.error_code == MEMBER_ID_REQUIRED
    if not entry.translates:  # a translated member's id is the proxy's
        assert required.member_id.startswith(f"client-{READ}-")
    joined = join(required.member_id)
    assert joined.error_code == 0
    synced = connection.call(
        SyncGroupRequest(
            group_id=GroupId(group),
            generation_id=i32(joined.generation_id),
            member_id=joined.member_id,
            group_instance_id=None,
            assignments=(),
        )
    )
    assert synced.error_code == 0
    beat = heartbeat(group, joined.generation_id, joined.member_id, None)
    assert connection.call(beat).error_code == 0
    describe = kafka.describe if entry.translates else kafka.describe_classic
    (seen,) = describe(group.replace(WRITTEN, READ)).members
    assert seen.client_id == f"client-{READ}"
    left = connection.call(
        LeaveGroupRequest(
            group_id=GroupId(group),
            members=(MemberIdentity(member_id=joined.member_id, group_instance_id=None),),
        )
    )
    assert left.error_code == 0
    assert left.members[0].error_code == 0


def test_a_member_id_that_nobody_has_is_unknown(connection, group):
    beat = heartbeat(group, 1, f"member-{WRITTEN}", f"instance-{WRITTEN}")
    assert connection.call(beat).error_code == UNKNOWN_MEMBER_ID


def test_what_is_committed_for_such_a_group_is_read_under_the_id_that_the_broker_knows(
    kafka, entry, connection, group
):
    topic = kafka.new_topic(partitions=1)
    partition = OffsetCommitRequestPartition(
        partition_index=i32(0),
        committed_offset=i64(7),
        committed_leader_epoch=i32(-1),
        committed_metadata=f"metadata-{WRITTEN}",
    )
    committed = connection.call(
        OffsetCommitRequest(
            group_id=GroupId(group),
            generation_id_or_member_epoch=i32(-1),
            member_id="",
            group_instance_id=None,
            topics=(OffsetCommitRequestTopic(name=TopicName(topic), partitions=(partition,)),),
        )
    )
    assert committed.topics[0].partitions[0].error_code == 0
    fetch = OffsetFetchRequest(
        group_id=GroupId(group.replace(WRITTEN, READ)),
        topics=(OffsetFetchRequestTopic(name=TopicName(topic), partition_indexes=(i32(0),)),),
    )
    with to_coordinator(entry.bootstrap, group.replace(WRITTEN, READ)) as plain:
        (read,) = plain.call(fetch).topics[0].partitions
    assert (read.committed_offset, read.metadata) == (7, f"metadata-{READ}")
