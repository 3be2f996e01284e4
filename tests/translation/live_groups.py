"""Live groups as a broker describes them, and what their members go through when the policy changes."""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TOPIC, Bench
from translation.actions import Call, Connection, RequestId
from translation.policy.policy import Mode, Policy

A, B = "app-7b4e1f0c-0000-4000-8000-000000000001", "app-7b4e1f0c-0000-4000-8000-000000000002"
OBSERVE_ALL = Policy(default=Mode.OBSERVE)


def mixed_group(*classic: str) -> ConsumerGroupDescribeResponse:
    return described(dict.fromkeys(classic, (0, 5)))


def described(
    members: dict[str, tuple[int, int]], target_epoch: int = 5, group_epoch: int | None = None
) -> ConsumerGroupDescribeResponse:
    """A consumer group with these members: their type (0 classic, 1 new) and epoch by member id.

    The group epoch is the target's, unless the next assignment is still to be made.
    """
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP,
        group_epoch=target_epoch if group_epoch is None else group_epoch,
        assignment_epoch=target_epoch,
        members=tuple(
            ConsumerGroupDescribeResponseMember(member_id=member_id, member_epoch=epoch, member_type=kind)
            for member_id, (kind, epoch) in members.items()
        ),
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def loading() -> ConsumerGroupDescribeResponse:
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def classic_group(
    *,
    state: str = "Stable",
    protocol_type: str = "consumer",
    assignor: str = "range",
    user_data: bytes = b"",
    claims: tuple[int, ...] = (),
    cut_short: bool = False,
    subscription_user_data: bytes | None = None,
) -> DescribeGroupsResponse:
    """A group of the member A, who owns partitions 0 and 1; ``cut_short``: its subscription lacks what it claims."""
    topics = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=(0, 1)),)
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data or None)
    owned = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=claims),)
    subscription = ConsumerProtocolSubscription(
        topics=(TOPIC,), user_data=subscription_user_data, owned_partitions=owned
    )
    member = DescribedGroupMember(
        member_id=A,
        member_metadata=b"\0\1" + encode_subscription(subscription, 0)[2:]
        if cut_short
        else encode_subscription(subscription, 1),
        member_assignment=encode_assignment(assignment, 0),
    )
    group = DescribedGroup(
        group_id=GROUP,
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=assignor,
        members=(member,),
    )
    return DescribeGroupsResponse(groups=(group,))


def told_to_move(
    bench: Bench, connection: Connection, group: DescribeGroupsResponse | None = None, **heartbeat: Any
) -> RequestId:
    """The classic member A is told to join anew at its Heartbeat, which is given."""
    told = bench.heartbeat(connection, A, 4, **heartbeat)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(group or classic_group())
    bench.reply(HeartbeatResponse())
    return told


def leaves(bench: Bench, member_id: str) -> Call:
    """The one call that is under way ends this classic membership, and no other."""
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [member_id]
    return leave
