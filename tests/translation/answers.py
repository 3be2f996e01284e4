"""What a broker answers to commits and descriptions, and members with whom several files of tests begin."""

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol_codecs.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.translation.bench import GROUP, TOPIC, TOPIC_ID, Bench
from translation.actions import Connection

A = "epochgate-a"


def described(
    *members: ConsumerGroupDescribeResponseMember, error: ErrorCode = ErrorCode.NONE, state: str = ""
) -> ConsumerGroupDescribeResponse:
    """What a broker says of the group."""
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, error_code=error, group_state=state, members=members
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def member(
    member_id: str,
    *,
    epoch: int = 5,
    classic: bool = False,
    instance_id: str | None = None,
    target: tuple[int, ...] = (),
) -> ConsumerGroupDescribeResponseMember:
    """One of its members, which is to have the partitions ``target``."""
    topic = ConsumerGroupDescribeResponseTopicPartitions(
        topic_id=TOPIC_ID, topic_name=TOPIC, partitions=target
    )
    return ConsumerGroupDescribeResponseMember(
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        subscribed_topic_names=(TOPIC,),
        target_assignment=ConsumerGroupDescribeResponseAssignment(topic_partitions=(topic,)),
        member_type=0 if classic else 1,
    )


def commit_answer(error: ErrorCode = ErrorCode.NONE) -> OffsetCommitResponse:
    """What a broker answers to the bench's commits."""
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=error)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name=TOPIC, partitions=(partition,)),))


def commit_error(bench: Bench, request: int) -> ErrorCode:
    """The error of the one partition in a client's answer."""
    return ErrorCode(bench.answers[request].topics[0].partitions[0].error_code)


def cooperative_member(bench: Bench) -> Connection:
    """A member of a group that the broker knows, with partitions 0 and 1; its connection."""
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    bench._new_group = False
    return connection


def joined_anew(bench: Bench, *, epoch: int) -> tuple[Connection, Connection]:
    """A cooperative member whose connection has stalled has joined again on another one; both connections."""
    stalled = cooperative_member(bench)
    connection = bench.connect()
    bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(described(member(A, epoch=1)))
    bench.beat(epoch, orders=(0, 1))
    bench.sync(connection, A, epoch)
    return stalled, connection
