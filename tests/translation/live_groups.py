"""Live groups as a broker describes them, and what their members go through when the policy changes."""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
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
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TOPIC, TOPIC_ID, TRANSLATE_ALL, Bench
from translation.actions import Call, Connection, RequestId
from translation.members.conversion import is_helper
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


def given_another_id(bench: Bench, connection: Connection) -> None:
    """The client of the classic member A, an older JoinGroup of which may still arrive, is given epochgate-uuid-1.

    Its classic membership is still to be ended. The bench does not answer lookups by itself from now on.
    """
    bench._new_group = False
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    assert bench.join(bench.connect(), A) in bench.forwarded
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))
    answer = bench.answers[bench.join(connection, A)]
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "epochgate-uuid-1")


def joins_cut_short(bench: Bench, connection: Connection, member_id: str, **join: Any) -> RequestId:
    """A JoinGroup as kafka-go sends it: brokers can't read its subscription, which lacks what it claims."""
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=(TOPIC,)), 0)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\1" + subscription[2:]),),
        group_instance_id=join.get("instance_id"),
    )
    return bench.send(connection, ApiKey.JOIN_GROUP, join.get("version", 2), request)


def known_classic_member(bench: Bench, connection: Connection) -> None:
    """The JoinGroup and SyncGroup of A have passed through: it has partitions 0 and 1 in generation 4."""
    policy, is_new = bench.translator._context.rules.policy, bench._new_group
    bench._new_group = False
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    join = bench.join(connection, A)
    response = JoinGroupResponse(
        generation_id=4, protocol_type="consumer", protocol_name="range", leader=A, member_id=A
    )
    bench.relayed_response(connection, join, response)
    topics = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=(0, 1)),)
    assigned = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), 0)
    bench.relayed_response(connection, bench.sync(connection, A, 4), SyncGroupResponse(assignment=assigned))
    bench._do(bench.translator.set_policy(bench.now, policy))
    bench._new_group = is_new


def just_converted() -> ConsumerGroupDescribeResponse:
    """A consumer group that a helper has just converted: A is a classic member of it, with all that it had."""
    partitions = ConsumerGroupDescribeResponseTopicPartitions(
        topic_id=TOPIC_ID, topic_name=TOPIC, partitions=(0, 1)
    )
    assigned = ConsumerGroupDescribeResponseAssignment(topic_partitions=(partitions,))
    member = ConsumerGroupDescribeResponseMember(
        member_id=A,
        member_epoch=4,
        member_type=0,
        subscribed_topic_names=(TOPIC,),
        assignment=assigned,
        target_assignment=assigned,
    )
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, group_epoch=4, assignment_epoch=4, members=(member,)
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def helper_converts(bench: Bench, *, sizes: int = 2) -> Call:
    """The broker has accepted A's Heartbeat: a helper converts the group. The heartbeat that converts A.

    The broker's topic has ``sizes`` partitions.
    """
    bench.reply_names()
    helper = bench.heartbeat_call().message
    assert is_helper(helper.member_id)
    assert (helper.member_epoch, helper.subscribed_topic_names) == (0, ())
    bench.reply(bench.heartbeat_answer(4))
    bench.reply(just_converted())
    partitions = tuple(MetadataResponsePartition(partition_index=index) for index in range(sizes))
    topic = MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)
    bench.reply(MetadataResponse(topics=(topic,)))
    return bench.heartbeat_call()
