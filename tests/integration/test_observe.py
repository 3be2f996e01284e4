"""A group in `observe` gets through the proxy what it gets without it, to the byte.

That its consumers also live as they do without it is in test_members_come_and_go.py.
"""

import datetime as dt

import pytest
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.describe_groups.v0.request import DescribeGroupsRequest as DescribeGroupsV0
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest as DescribeGroupsV5
from kio.schema.heartbeat.v0.request import HeartbeatRequest as HeartbeatV0
from kio.schema.heartbeat.v4.request import HeartbeatRequest as HeartbeatV4
from kio.schema.join_group.v2.request import JoinGroupRequest as JoinGroupV2
from kio.schema.join_group.v2.request import JoinGroupRequestProtocol as ProtocolV2
from kio.schema.join_group.v9.request import JoinGroupRequest as JoinGroupV9
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol as ProtocolV9
from kio.schema.leave_group.v1.request import LeaveGroupRequest as LeaveGroupV1
from kio.schema.leave_group.v5.request import LeaveGroupRequest as LeaveGroupV5
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_fetch.v1.request import OffsetFetchRequest as OffsetFetchV1
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest as OffsetFetchV8
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup
from kio.schema.sync_group.v1.request import SyncGroupRequest as SyncGroupV1
from kio.schema.sync_group.v5.request import SyncGroupRequest as SyncGroupV5
from support import raw
from support.clients import CONFLUENT
from support.raw_member import NONE, RawMember
from support.story import Case

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.parametrize("case", [Case("observe", CONFLUENT, "range")], ids=str, scope="module"),
]

NOBODY = "nobody-3f0c4b5e-8d8b-4f39-9a4e-8f5d3f0f8b1a"
TIMEOUT = dt.timedelta(seconds=10)


def questions(group):
    """Requests of old and new versions that change nothing; the group has one member, who is not NOBODY."""
    member = {"group_id": group, "generation_id": 1, "member_id": NOBODY}
    join = {
        "group_id": group,
        "session_timeout": TIMEOUT,
        "rebalance_timeout": TIMEOUT,
        "member_id": NOBODY,
        "protocol_type": "consumer",
    }
    return [
        JoinGroupV2(**join, protocols=(ProtocolV2(name="range", metadata=b""),)),
        JoinGroupV9(**join, protocols=(ProtocolV9(name="range", metadata=b""),), reason="a test"),
        SyncGroupV1(**member, assignments=()),
        SyncGroupV5(**member, protocol_type="consumer", protocol_name="range", assignments=()),
        HeartbeatV0(**member),
        HeartbeatV4(**member),
        LeaveGroupV1(group_id=group, member_id=NOBODY),
        LeaveGroupV5(group_id=group, members=(MemberIdentity(member_id=NOBODY),)),
        OffsetFetchV1(group_id=group, topics=()),
        OffsetFetchV8(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),), require_stable=False),
        DescribeGroupsV0(groups=(group,)),
        DescribeGroupsV5(groups=(group, "no-such-group"), include_authorized_operations=True),
        ListGroupsRequest(states_filter=(), types_filter=()),
        ConsumerGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False),
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=NOBODY,
            member_epoch=3,
            topic_partitions=None,
        ),
    ]


def test_answers_are_the_same_to_the_byte(case, entry, kafka):
    group, topic = entry.new_group(), kafka.new_topic(partitions=2)
    with (
        RawMember(entry.bootstrap, group, topic, session_timeout_ms=30_000) as member,
        raw.to_coordinator(entry.bootstrap, group) as through_the_proxy,
        raw.to_coordinator(kafka.bootstrap, group) as straight,
    ):
        member.join()
        assert member.sync(2) == {topic: {0, 1}}
        for question in questions(group):
            answers = []
            for connection in (straight, through_the_proxy):
                connection.send(question)
                answers.append(connection.receive_frame())
            assert answers[0] == answers[1], question
        assert member.heartbeat() == NONE
        member.leave()
