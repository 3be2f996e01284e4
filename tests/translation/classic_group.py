"""Classic members whose JoinGroup and SyncGroup passed through the proxy, and the questions that convert one in place.

A test answers the questions up to the one that it is about, by the name of that question (:data:`QUESTIONS`).
"""

from collections.abc import Mapping
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
    encode_assignment,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TOPIC, TOPIC_IDS, TRANSLATE_ALL, Bench
from tests.translation.live_groups import OBSERVE_ALL, A, B, classic_group
from translation.actions import Call, Connection, RequestId
from translation.members.conversion import is_helper
from translation.settings import TranslatorSettings

GENERATION = 4
CLASSIC, NEW = 0, 1

A_OWNS, B_OWNS = (0, 1), (2, 3)
OTHERS = {B: (CLASSIC, GENERATION, B_OWNS)}

Described = Mapping[str, tuple[int, int, tuple[int, ...]]]
"""Members of a consumer group by id: their type, epoch and partitions of the topic."""

QUESTIONS = {
    "is it a consumer group": ApiKey.CONSUMER_GROUP_DESCRIBE,
    "can it be converted": ApiKey.DESCRIBE_GROUPS,
    "its Heartbeat": ApiKey.HEARTBEAT,
    "its topics": ApiKey.METADATA,
    "the helper": ApiKey.CONSUMER_GROUP_HEARTBEAT,
    "the converted group": ApiKey.CONSUMER_GROUP_DESCRIBE,
    "the sizes of its topics": ApiKey.METADATA,
    "its conversion": ApiKey.CONSUMER_GROUP_HEARTBEAT,
}
"""The questions by which the first member of a classic group is converted, in their order."""

OF_A_MIXED_GROUP = (
    "is it a consumer group",
    "its Heartbeat",
    "its topics",
    "the converted group",
    "its conversion",
)


def assigned(**topics: tuple[int, ...]) -> bytes:
    """An assignment as SyncGroup answers it."""
    named = tuple(ConsumerProtocolTopicPartition(topic=name, partitions=of) for name, of in topics.items())
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named), 0)


def joined(member_id: str = A, generation: int = GENERATION, protocol: str = "range") -> JoinGroupResponse:
    """The broker's answer to the JoinGroup of a classic member that does not lead."""
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader="the-leader",
        member_id=member_id,
    )


def consumer_group(
    members: Described, epoch: int = GENERATION, targets: Mapping[str, tuple[int, ...]] | None = None
) -> ConsumerGroupDescribeResponse:
    """A consumer group, described with the types of its members; ``targets`` where they are not what members own."""
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP,
        group_epoch=epoch,
        assignment_epoch=epoch,
        members=tuple(
            ConsumerGroupDescribeResponseMember(
                member_id=member_id,
                member_epoch=member_epoch,
                member_type=kind,
                subscribed_topic_names=() if is_helper(member_id) else (TOPIC,),
                assignment=_assignment(owned),
                target_assignment=_assignment((targets or {}).get(member_id, owned)),
            )
            for member_id, (kind, member_epoch, owned) in members.items()
        ),
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def _assignment(partitions: tuple[int, ...]) -> ConsumerGroupDescribeResponseAssignment:
    if not partitions:
        return ConsumerGroupDescribeResponseAssignment()
    topic = ConsumerGroupDescribeResponseTopicPartitions(
        topic_id=TOPIC_IDS[TOPIC], topic_name=TOPIC, partitions=partitions
    )
    return ConsumerGroupDescribeResponseAssignment(topic_partitions=(topic,))


def topics(*names: str, size: int = 4, error: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
    """The broker's answer about topics: their ids, and that each has ``size`` partitions."""
    partitions = tuple(MetadataResponsePartition(partition_index=index) for index in range(size))
    return MetadataResponse(
        topics=tuple(
            MetadataResponseTopic(
                name=name, topic_id=TOPIC_IDS[name], error_code=error, partitions=partitions
            )
            for name in names
        )
    )


def live_member(
    bench: Bench,
    connection: Connection,
    member_id: str = A,
    *,
    owns: tuple[int, ...] = A_OWNS,
    generation: int = GENERATION,
    assignment: bytes | None = None,
    protocol: str = "range",
    version: int = 9,
    **join: Any,
) -> RequestId:
    """A classic member has joined and synced through the proxy; its JoinGroup is given."""
    request = bench.join(connection, member_id, protocol=protocol, version=version, **join)
    bench.relayed_response(connection, request, joined(member_id, generation, protocol))
    sync = bench.sync(connection, member_id, generation)
    given = assigned(**{TOPIC: owns}) if assignment is None else assignment
    bench.relayed_response(connection, sync, SyncGroupResponse(assignment=given))
    return request


def observed(settings: TranslatorSettings | None = None) -> Bench:
    """A proxy that only observes."""
    return Bench(policy=OBSERVE_ALL, settings=settings, new_group=False)


def to_translate(bench: Bench) -> None:
    """The policy says ``translate`` for all groups now."""
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))


def to_observe(bench: Bench) -> None:
    """The policy says ``observe`` for all groups now."""
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))


def live_group(settings: TranslatorSettings | None = None, **member: Any) -> tuple[Bench, Connection]:
    """The classic member A of a group of two, whose calls passed through; the policy has just become ``translate``."""
    bench = observed(settings)
    connection = bench.connect()
    live_member(bench, connection, **member)
    to_translate(bench)
    return bench, connection


def usual_answers(others: Described = OTHERS) -> dict[str, Any]:
    """What a broker answers to each question if the conversion of A goes well."""
    members = {A: (CLASSIC, GENERATION, A_OWNS), **others}
    return {
        "is it a consumer group": NO_CONSUMER_GROUP,
        "can it be converted": classic_group(),
        "its Heartbeat": HeartbeatResponse(),
        "its topics": topics(TOPIC),
        "the helper": Bench.heartbeat_answer(GENERATION),
        "the converted group": consumer_group(members),
        "the sizes of its topics": topics(TOPIC),
        "its conversion": Bench.heartbeat_answer(GENERATION, orders=A_OWNS),
    }


def waits_for(bench: Bench, question: str) -> Call:
    """The one call that waits for an answer; it is this question."""
    (call,) = bench.calls
    assert call.api_key == QUESTIONS[question], (question, call)
    return call


def answer_up_to(
    bench: Bench, question: str, order: tuple[str, ...] = tuple(QUESTIONS), **answers: Any
) -> Call:
    """Answer the questions before this one, by default as if all goes well; the call that asks it."""
    usual = usual_answers()
    for name in order[: order.index(question)]:
        waits_for(bench, name)
        bench.reply(answers.get(name.replace(" ", "_"), usual[name]))
    return waits_for(bench, question)


def converted(bench: Bench, connection: Connection, generation: int = GENERATION) -> RequestId:
    """The member A is converted at its Heartbeat, which is given."""
    request = bench.heartbeat(connection, A, generation)
    answer_up_to(bench, "its conversion")
    bench.reply(usual_answers()["its conversion"])
    return request


def is_converted(bench: Bench, member_id: str = A) -> bool:
    """Whether a client's member is one of the new protocol here."""
    member = bench.translator._context.registry.find(GROUP, member_id)
    return member is not None and member.joined


def helpers_call(bench: Bench) -> Call:
    """The heartbeat of a helper that waits for its answer."""
    (call,) = [
        call
        for call in bench.calls
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and is_helper(call.message.member_id)
    ]
    return call


def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """The broker refuses a ConsumerGroupHeartbeat."""
    return ConsumerGroupHeartbeatResponse(error_code=code)
