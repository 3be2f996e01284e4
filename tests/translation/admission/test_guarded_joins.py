"""Who may join a group that the policy rejects, or that it says to be of another type."""

from collections.abc import Callable
from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.share_group_describe import (
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol_codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.translation.bench import GROUP, KAFKA_4_3, Bench
from translation.actions import Connection, EventKind, RequestId
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode, Policy, Rule

HEARTBEATS: dict[ApiKey, Callable[..., Any]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest,
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest,
    ApiKey.STREAMS_GROUP_HEARTBEAT: StreamsGroupHeartbeatRequest,
}
OF_ANOTHER_TYPE = [
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, GroupType.SHARE),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, GroupType.STREAMS),
    (ApiKey.SHARE_GROUP_HEARTBEAT, GroupType.CONSUMER),
    (ApiKey.SHARE_GROUP_HEARTBEAT, GroupType.STREAMS),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, GroupType.CONSUMER),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, GroupType.SHARE),
]


def a_bench(rule: Rule, **more: Any) -> Bench:
    return Bench(policy=Policy(default=Mode.TRANSLATE, rules=(rule,)), **more)


def of_type(group_type: GroupType | None, mode: Mode = Mode.OBSERVE) -> Rule:
    return Rule(group=GROUP, mode=mode, type=group_type)


def beat(bench: Bench, connection: Connection, api_key: ApiKey, epoch: int = 0) -> RequestId:
    message = HEARTBEATS[api_key](group_id=GROUP, member_id="a-member", member_epoch=epoch)
    return bench.send(connection, api_key, 1, message)


@pytest.mark.parametrize(("api_key", "group_type"), OF_ANOTHER_TYPE)
def test_a_member_of_another_type_is_told_what_a_broker_says(api_key: ApiKey, group_type: GroupType) -> None:
    bench = a_bench(of_type(group_type))
    answer = bench.answers[beat(bench, bench.connect(), api_key)]
    own = {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer",
        ApiKey.SHARE_GROUP_HEARTBEAT: "share",
        ApiKey.STREAMS_GROUP_HEARTBEAT: "streams",
    }[api_key]
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Group {GROUP} is not a {own} group."
    assert not bench.forwarded
    (event,) = bench.events
    assert event.kind is EventKind.CALL_REFUSED
    assert event.member_id == "a-member"
    assert event.reason == f"the policy says that this is a {group_type} group"


@pytest.mark.parametrize("group_type", [GroupType.SHARE, GroupType.STREAMS])
def test_a_classic_join_of_another_type_is_told_what_a_broker_says(group_type: GroupType) -> None:
    """Also because a broker of Kafka 4.2 or newer would delete a streams group that has no members."""
    bench = a_bench(of_type(group_type))
    join = bench.join(bench.connect(), "")
    assert bench.error(join) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not bench.forwarded
    assert bench.events[-1].reason == f"the policy says that this is a {group_type} group"


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_join_that_is_refused_has_no_protocol_as_a_brokers_answer(version: int, name: str | None) -> None:
    """Kafka says so with null as soon as the version has it."""
    bench = a_bench(of_type(GroupType.SHARE))
    join = bench.join(bench.connect(), "", version=version)
    assert bench.answers[join].protocol_name == name


@pytest.mark.parametrize("api_key", HEARTBEATS)
def test_nobody_joins_a_rejected_group(api_key: ApiKey) -> None:
    bench = a_bench(of_type(None, Mode.REJECT))
    answer = bench.answers[beat(bench, bench.connect(), api_key)]
    assert (answer.error_code, answer.error_message) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    assert bench.events[-1].reason == "the policy rejects this group"


@pytest.mark.parametrize(
    ("api_key", "group_type"),
    [
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, GroupType.CONSUMER),
        (ApiKey.SHARE_GROUP_HEARTBEAT, GroupType.SHARE),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, GroupType.STREAMS),
        *((api_key, None) for api_key in HEARTBEATS),
    ],
)
def test_who_may_join_does_so_at_the_broker(api_key: ApiKey, group_type: GroupType | None) -> None:
    bench = a_bench(of_type(group_type))
    assert bench.forwarded == [beat(bench, bench.connect(), api_key)]


@pytest.mark.parametrize("epoch", [-2, -1, 1, 7])
def test_who_is_a_member_goes_on_and_may_leave(epoch: int) -> None:
    """As with JoinGroup: the policy decides who joins."""
    bench = a_bench(of_type(GroupType.STREAMS))
    assert bench.forwarded == [beat(bench, bench.connect(), ApiKey.SHARE_GROUP_HEARTBEAT, epoch)]


@pytest.mark.parametrize("api_key", HEARTBEATS)
def test_a_stranger_is_told_nothing_of_the_policy(api_key: ApiKey) -> None:
    """The broker's own refusal reaches whoever may not act in the group."""
    bench = a_bench(of_type(None, Mode.REJECT), lets_in=False)
    request = beat(bench, bench.connect(), api_key)
    assert not bench.answers
    (question,) = bench.questions()
    bench.reply(HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED), question)
    assert bench.forwarded == [request]
    assert not bench.answers
    assert not bench.events


def test_classic_and_consumer_members_are_of_one_type() -> None:
    bench = a_bench(of_type(GroupType.CONSUMER, Mode.TRANSLATE))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    assert bench.forwarded == []


# -- what the broker says of an id without a rule ---------------------------------------------------------------


WITH_SHARE_GROUPS = {**KAFKA_4_3, ApiKey.SHARE_GROUP_DESCRIBE: (1, 1)}
WITH_BOTH = {**WITH_SHARE_GROUPS, ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0)}
UNKNOWN, REFUSED = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("versions", "share", "classic", "reason"),
    [
        (WITH_BOTH, ErrorCode.NONE, None, "its id belongs to a share group"),
        (WITH_BOTH, UNKNOWN, "Dead", "its id belongs to a streams group"),
        (WITH_BOTH, UNKNOWN, "Stable", None),
        (WITH_BOTH, REFUSED, None, None),
        (WITH_SHARE_GROUPS, UNKNOWN, None, None),
        (KAFKA_4_3, None, None, None),
    ],
)
def test_the_reason_names_the_type_as_far_as_the_broker_says_it(
    versions: dict[int, tuple[int, int]], share: ErrorCode | None, classic: str | None, reason: str | None
) -> None:
    bench = Bench(versions=versions)
    join = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    bench.answer_lookups()
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    if share is not None:
        group = ShareGroupDescribeResponseDescribedGroup(group_id=GROUP, error_code=share)
        bench.reply(ShareGroupDescribeResponse(groups=(group,)))
    if classic is not None:
        described = DescribedGroup(group_id=GROUP, group_state=classic, protocol_type="consumer")
        bench.reply(DescribeGroupsResponse(groups=(described,)))
    assert bench.forwarded == [join]
    said = bench.events[-1]
    assert said.kind is EventKind.PASSED_THROUGH
    assert said.reason == (reason or "the broker answered GROUP_ID_NOT_FOUND: no message")
