"""Partitions that brokers have left to nobody: when a group is mended, by whom, and when it is left as it is."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.translation.bench import GROUP, TOPIC, TOPIC_ID, Bench
from translation.actions import Call, Connection, Event, EventKind, RequestId
from translation.member_log.group_records import MOST_MENDS
from translation.mending.findings import PARTITIONS_LIMIT, TOPICS_LIMIT
from translation.mending.suspicion import CONFIRMED_AFTER_S, REMEMBERED_MS
from translation.mending.unowned import SIZES_S
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings

MEMBER = "epochgate-a"
SIZE = 12
LOOK_S = 30.0
"""Between two of the looks that are made anyway."""


def assigned(partitions: Iterable[int]) -> ConsumerGroupDescribeResponseAssignment:
    topic = ConsumerGroupDescribeResponseTopicPartitions(
        topic_id=TOPIC_ID, topic_name=TOPIC, partitions=tuple(partitions)
    )
    return ConsumerGroupDescribeResponseAssignment(topic_partitions=(topic,))


def member(partitions: Iterable[int] = (0, 1), **fields: Any) -> ConsumerGroupDescribeResponseMember:
    has = assigned(partitions)
    settled = {
        "member_id": MEMBER,
        "member_epoch": 1,
        "member_type": 1,
        "subscribed_topic_names": (TOPIC,),
        "assignment": has,
        "target_assignment": has,
    }
    return ConsumerGroupDescribeResponseMember(**settled | fields)


def group(
    *members: ConsumerGroupDescribeResponseMember, **fields: Any
) -> ConsumerGroupDescribeResponseDescribedGroup:
    """A settled group in epoch 1; of one member with the partitions 0 and 1 if nothing else is said."""
    settled = {
        "group_id": GROUP,
        "group_state": "Stable",
        "group_epoch": 1,
        "assignment_epoch": 1,
        "assignor_name": "uniform",
        "members": members or (member(),),
    }
    return ConsumerGroupDescribeResponseDescribedGroup(**settled | fields)


def sizes(partitions: int, error: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
    found = tuple(MetadataResponsePartition(partition_index=number) for number in range(partitions))
    return MetadataResponse(
        topics=(MetadataResponseTopic(error_code=error, name=TOPIC, topic_id=TOPIC_ID, partitions=found),)
    )


class Site:
    """One process with a translated member, and a broker whose topic has three partitions."""

    def __init__(self, policy: Policy | None = None, settings: TranslatorSettings | None = None) -> None:
        policy = policy or Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE),))
        self.bench = Bench(policy=policy, settings=settings)
        self.connection: Connection = self.bench.connect()
        self.bench.stable_member(self.connection, (0, 1))
        self.bench.events.clear()

    def look(self, described: Any = None, *, later_s: float = LOOK_S) -> None:
        """The broker describes the group, when somebody looks anyway."""
        self.keep_alive(later_s)
        bench = self.bench
        bench._do(
            bench.translator.handle_description(
                bench.now, self.connection.id, GROUP, group() if described is None else described
            )
        )

    def keep_alive(self, seconds: float) -> None:
        """Time passes, in which the member's client and its broker do what they do anyway."""
        while seconds > 0:
            step_s = min(seconds, 3.0)
            self.bench.advance(step_s)
            seconds -= step_s
            self.bench.heartbeat(self.connection, MEMBER, 1)
            for call in self.bench.calls[:]:
                if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and call.message.member_id == MEMBER:
                    self.bench.reply(self.bench.heartbeat_answer(1), call)

    def suspects(self) -> "Site":
        """Two looks have said that nobody has partition 2."""
        self.look()
        self.reply(sizes(3))
        self.look()
        assert self.asked == []
        self.look()
        return self

    def looks_again(self, described: Any = None, partitions: int = 3) -> "Site":
        """The broker is asked once more, before anything is done."""
        answered = group() if described is None else described
        self.reply(ConsumerGroupDescribeResponse(groups=(answered,)))
        self.reply(sizes(partitions))
        return self

    def mends(self) -> None:
        """The member without topics joins and leaves."""
        (join,) = self.waiting
        self.bench.reply(self.bench.heartbeat_answer(1), join)
        (leave,) = self.waiting
        self.bench.reply(self.bench.heartbeat_answer(-1), leave)
        self.keep_alive(3.0)

    @property
    def waiting(self) -> list[Call]:
        """What waits for the broker's answer, but for the member's own heartbeats."""
        return [call for call in self.bench.calls if getattr(call.message, "member_id", "") != MEMBER]

    @property
    def asked(self) -> list[int]:
        return [call.api_key for call in self.waiting]

    def reply(self, message: Any) -> None:
        """The broker's answer to the only call that waits."""
        (call,) = self.waiting
        self.bench.reply(message, call)

    @property
    def reported(self) -> list[tuple[EventKind, str]]:
        kinds = (EventKind.MENDING, EventKind.LEFT_UNOWNED)
        events: list[Event] = self.bench.events
        return [(event.kind, event.reason) for event in events if event.kind in kinds]


def test_a_member_without_topics_joins_and_leaves() -> None:
    site = Site().suspects().looks_again()
    (join,) = site.waiting
    assert join.client_id == "epochgate-mending"
    assert (join.message.member_epoch, join.message.subscribed_topic_names) == (0, ())
    assert join.message.topic_partitions == ()
    site.bench.reply(site.bench.heartbeat_answer(1), join)
    leave = next(call for call in site.bench.calls if call.message.member_id == join.message.member_id)
    assert (leave.message.member_epoch, leave.message.subscribed_topic_names) == (-1, None)
    assert site.reported == [(EventKind.MENDING, "a member without topics joined and leaves, try 1")]
    (event,) = [event for event in site.bench.events if event.kind is EventKind.MENDING]
    assert [(one.topic, one.partitions) for one in event.partitions] == [(TOPIC, (2,))]


def test_the_member_without_topics_is_taken_for_no_translated_one() -> None:
    site = Site().suspects().looks_again()
    (join,) = site.waiting
    assert not site.bench.translator._context.registry.is_ours(GROUP, join.message.member_id)


def test_what_it_is_about_is_shown_until_it_has_an_owner_again() -> None:
    site = Site().suspects().looks_again()
    site.mends()
    shown = site.bench.translator.unowned.of_group(GROUP)
    assert shown is not None
    assert (shown.partitions, shown.tries, shown.why_not) == (1, 1, "")
    site.look(group(member((0, 1, 2), member_epoch=2), group_epoch=2, assignment_epoch=2))
    assert site.bench.translator.unowned.of_group(GROUP) is None
    assert site.reported[-1] == (EventKind.MENDING, "all partitions have an owner again")


def test_a_look_that_is_not_confirmed_for_long_is_not_shown() -> None:
    site = Site().suspects().looks_again(group(group_state="Assigning"))
    site.keep_alive(600.0)
    assert site.bench.translator.unowned.of_group(GROUP) is None


def test_a_healthy_group_costs_one_question_for_sizes_in_five_minutes() -> None:
    site = Site()
    healthy = group(member((0, 1, 2)))
    site.look(healthy)
    site.reply(sizes(3))
    for _ in range(10):
        site.look(healthy)
        assert site.asked == []
    site.look(healthy)
    assert site.asked == [ApiKey.METADATA]


@pytest.mark.parametrize(
    "unsettled",
    [
        group(group_state="Reconciling"),
        group(group_state="Assigning", assignment_epoch=0),
        group(assignment_epoch=0),
        group(member(member_epoch=0)),
        group(member(), member((), member_id="static, away", member_epoch=-2)),
        group(member(assignment=assigned((0,)))),
        group(member(member_type=-1)),
        group(assignor_name="our-own"),
    ],
    ids=[
        "reconciling",
        "assigning",
        "assignment epoch",
        "member epoch",
        "a static member is away",
        "has not what it is assigned",
        "unknown kind of member",
        "another assignor",
    ],
)
def test_nothing_is_done_about_a_group_that_is_not_settled(unsettled: Any) -> None:
    site = Site()
    site.look(unsettled)
    site.reply(sizes(3))
    for _ in range(5):
        site.look(unsettled)
        assert site.asked == []
    assert site.bench.translator.unowned.of_group(GROUP) is None


@pytest.mark.parametrize(
    "answer",
    [
        sizes(3, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        sizes(3, ErrorCode.LEADER_NOT_AVAILABLE),
        MetadataResponse(),
    ],
    ids=["hidden", "not known now", "not answered"],
)
def test_a_topic_that_can_not_be_seen_is_not_known(answer: MetadataResponse) -> None:
    site = Site()
    for _ in range(5):
        site.look()
        assert site.asked == [ApiKey.METADATA]
        site.reply(answer)
    assert site.reported == []


def test_a_group_with_too_many_partitions_or_topics_is_not_looked_at() -> None:
    site = Site()
    site.look()
    site.reply(sizes(PARTITIONS_LIMIT + 1))
    many = group(member(subscribed_topic_names=tuple(f"topic-{number}" for number in range(TOPICS_LIMIT))))
    for described in (None, None, many, many):
        site.look(described)
        assert site.asked == []
    assert site.bench.translator.unowned.of_group(GROUP) is None


def test_a_topic_that_does_not_exist_has_no_partitions() -> None:
    site = Site()
    away = group(member(()))
    site.look(away)
    site.reply(sizes(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    for _ in range(5):
        site.look(away)
        assert site.asked == []
    assert site.bench.translator.unowned.of_group(GROUP) is None


def test_a_member_that_subscribes_to_a_pattern_counts_with_what_it_is_assigned() -> None:
    site = Site()
    by_pattern = group(member(subscribed_topic_names=(), subscribed_topic_regex="ord.*"))
    site.look(by_pattern)
    site.reply(sizes(3))
    site.look(by_pattern)
    site.look(by_pattern)
    assert site.asked == [ApiKey.CONSUMER_GROUP_DESCRIBE]


def test_two_looks_have_to_lie_apart() -> None:
    site = Site()
    site.look()
    site.reply(sizes(3))
    site.look()
    site.look(later_s=CONFIRMED_AFTER_S - 1)
    assert site.asked == []
    site.look(later_s=1.5)
    assert site.asked == [ApiKey.CONSUMER_GROUP_DESCRIBE]


def test_an_epoch_that_has_moved_between_two_looks_begins_anew() -> None:
    site = Site()
    site.look()
    site.reply(sizes(3))
    for epoch in range(2, 8):
        site.look(group(member(member_epoch=epoch), group_epoch=epoch, assignment_epoch=epoch))
        assert site.asked == []


@pytest.mark.parametrize(
    ("described", "partitions"),
    [
        (group(group_state="Assigning"), 3),
        (group(member(member_epoch=2), group_epoch=2, assignment_epoch=2), 3),
        (group(member((0, 1, 2))), 3),
        (group(), 2),
        (group(), 4),
        (group(error_code=ErrorCode.GROUP_ID_NOT_FOUND), 3),
        (group(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 3),
        (group(member(), member((), member_id="classic", member_type=0)), 3),
    ],
    ids=[
        "it rebalances",
        "it has rebalanced",
        "somebody has it now",
        "the topic was smaller",
        "the topic has grown",
        "it is classic now",
        "topics are hidden",
        "a classic member has come",
    ],
)
def test_nothing_is_done_if_the_last_look_says_something_else(described: Any, partitions: int) -> None:
    site = Site().suspects()
    site.reply(ConsumerGroupDescribeResponse(groups=(described,)))
    if ApiKey.METADATA in site.asked:
        site.reply(sizes(partitions))
    assert site.asked == []
    assert site.reported == []


def test_nothing_is_done_if_the_topic_is_hidden_at_the_last_look() -> None:
    site = Site().suspects()
    site.reply(ConsumerGroupDescribeResponse(groups=(group(),)))
    site.reply(sizes(3, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert site.asked == []
    assert site.reported == []


def test_the_next_try_is_later_each_time_and_after_the_last_one_is_an_hour() -> None:
    site, tries_at = Site().suspects(), []
    epoch = 1
    for _ in range(80):
        if site.asked == [ApiKey.CONSUMER_GROUP_DESCRIBE]:
            tries_at.append(site.bench.now)
            settled = group(member(member_epoch=epoch), group_epoch=epoch, assignment_epoch=epoch)
            site.looks_again(settled).mends()
            epoch += 1
        site.look(group(member(member_epoch=epoch), group_epoch=epoch, assignment_epoch=epoch))
        if site.asked == [ApiKey.METADATA]:
            site.reply(sizes(3))
    assert len(tries_at) == MOST_MENDS
    pauses = [after - before for before, after in pairwise(tries_at)]
    for least_s, pause in zip((60, 120, 240, 480), pauses, strict=True):
        assert least_s <= pause <= least_s + 2 * LOOK_S
    assert site.reported[-1] == (EventKind.LEFT_UNOWNED, f"{MOST_MENDS} tries have not helped")
    assert [kind for kind, _ in site.reported].count(EventKind.LEFT_UNOWNED) == 1
    while site.asked != [ApiKey.CONSUMER_GROUP_DESCRIBE]:
        site.look(group(member(member_epoch=epoch), group_epoch=epoch, assignment_epoch=epoch))
        if site.asked == [ApiKey.METADATA]:
            site.reply(sizes(3))
    assert REMEMBERED_MS / 1000 <= site.bench.now - tries_at[-1] <= REMEMBERED_MS / 1000 + 2 * LOOK_S


def left_alone(site: Site, described: Any = None) -> str:
    """Why a group is left as it is, said once; nothing is asked for it beyond the size of its topic."""
    site.look(described)
    site.reply(sizes(3))
    for _ in range(5):
        site.look(described)
        assert site.asked == []
    shown = site.bench.translator.unowned.of_group(GROUP)
    assert shown is not None
    ((kind, reason),) = site.reported
    assert kind is EventKind.LEFT_UNOWNED
    assert shown.why_not == reason
    return reason


def test_mend_false_only_reports() -> None:
    site = Site(Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, mend=False),)))
    assert left_alone(site) == "the policy says `mend: false`"


def test_classic_members_in_a_consumer_group_are_not_made_to_join_again() -> None:
    mixed = group(member(), member((), member_id="classic", member_type=0))
    assert left_alone(Site(), mixed) == "classic members in it would all have to join again"


def test_several_processes_without_a_member_log_leave_it() -> None:
    site = Site(settings=TranslatorSettings(sole_process=False))
    assert left_alone(site) == "several processes serve it without a member log (`fleet`)"


def test_a_group_whose_move_by_steps_is_not_over_is_left() -> None:
    site = Site(Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE),)))
    by_steps = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, steps=("50%", "100%")),))
    site.bench._do(site.bench.translator.set_policy(site.bench.now, by_steps))
    assert left_alone(site) == "its move by steps is not over"


def test_a_broker_that_refuses_the_member_without_topics_is_not_asked_again() -> None:
    site = Site().suspects().looks_again()
    (join,) = site.waiting
    site.bench.reply(site.bench.heartbeat_answer(0, ErrorCode.GROUP_MAX_SIZE_REACHED), join)
    reason = "the broker answered GROUP_MAX_SIZE_REACHED to a member without topics"
    for _ in range(5):
        site.look()
        assert site.asked == []
    assert site.reported == [(EventKind.LEFT_UNOWNED, reason)]


def test_a_group_with_no_translated_member_here_is_not_looked_at() -> None:
    site = Site()
    site.bench.leave(site.connection, MEMBER)
    site.bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=MEMBER),)))
    observer = site.bench.connect()
    site.bench.heartbeat(observer, "stranger", 1)
    site.bench.calls.clear()
    for _ in range(5):
        site.bench.advance(LOOK_S)
        site.bench._do(site.bench.translator.handle_description(site.bench.now, observer.id, GROUP, group()))
    assert site.bench.calls == []


def test_a_group_that_is_being_moved_back_is_not_looked_at() -> None:
    site = Site()
    observe = Policy(rules=(Rule(group=GROUP, mode=Mode.OBSERVE),))
    site.bench._do(site.bench.translator.set_policy(site.bench.now, observe))
    for _ in range(5):
        site.bench.now += LOOK_S
        site.look(later_s=0)
        assert site.asked == []
    assert site.bench.translator.unowned.of_group(GROUP) is None


def test_a_connection_that_ends_between_join_and_leave_leaves_the_rest_to_the_broker() -> None:
    """It ends the member after its session timeout, which moves the group epoch as a leave does."""
    site = Site().suspects().looks_again()
    (join,) = site.waiting
    site.bench.upstream_lost(site.connection)
    assert site.bench.calls == []
    again = site.bench.connect()
    site.bench.heartbeat(again, MEMBER, 1)
    assert join.message.member_id not in {getattr(call.message, "member_id", "") for call in site.bench.calls}
    assert site.bench.translator._context.unowned.under_way == set()


def test_a_policy_that_changes_while_the_broker_is_asked_counts() -> None:
    site = Site().suspects()
    off = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, mend=False),))
    site.bench._do(site.bench.translator.set_policy(site.bench.now, off))
    site.looks_again()
    assert site.asked == []


class ManyGroups(Bench):
    """A process with a translated member in each of many groups."""

    group_id = GROUP

    def send(self, connection: Connection, api_key: ApiKey, version: int, message: Any) -> RequestId:
        return super().send(connection, api_key, version, replace(message, group_id=self.group_id))

    def settle(self, epoch: int) -> None:
        """Nobody waits for the heartbeats that follow a change: each time they would be those of all groups."""


def healthy(random: Random, epoch: int) -> ConsumerGroupDescribeResponseDescribedGroup:
    """A group at any moment of its life: at rest, or while partitions are on their way and some have no owner."""
    everything = list(range(SIZE))
    random.shuffle(everything)
    count = random.randint(1, 4)
    shares = [everything[turn::count] for turn in range(count)]
    members = [
        member(share, member_id=f"epochgate-{turn}", member_epoch=epoch) for turn, share in enumerate(shares)
    ]
    moment = random.choice(
        ["at rest", "at rest", "at rest", "assigning", "reconciling", "static", "unassigned"]
    )
    if moment == "assigning":
        members[0] = replace(members[0], assignment=assigned(()), target_assignment=assigned(()))
        return group(*members, group_state="Assigning", group_epoch=epoch + 1, assignment_epoch=epoch)
    if moment == "reconciling":
        members[0] = replace(members[0], assignment=assigned(()), member_epoch=epoch - 1)
        return group(*members, group_state="Reconciling", group_epoch=epoch, assignment_epoch=epoch)
    if moment == "static":
        members[0] = replace(members[0], member_epoch=-2, assignment=assigned(()))
    if moment == "unassigned":  # a member has joined, and the broker has not run its assignor yet
        new = member((), member_id="epochgate-new", member_epoch=0)
        return group(*members, new, group_state="Assigning", group_epoch=epoch + 1, assignment_epoch=epoch)
    return group(*members, group_epoch=epoch, assignment_epoch=epoch)


def test_nothing_is_stirred_in_a_thousand_healthy_groups() -> None:
    random, bench = Random(21), ManyGroups()  # noqa: S311 - a seed, and no secret
    connections: dict[str, Connection] = {}
    for number in range(1000):
        bench.group_id = f"group-{number}"
        connections[bench.group_id] = bench.connect()
        bench.stable_member(
            connections[bench.group_id], (0, 1), session_timeout_ms=1_800_000, member_id=f"epochgate-{number}"
        )
    bench.calls.clear()
    bench.events.clear()
    asked, began, epochs = Counter[int](), bench.now, dict.fromkeys(connections, 1)
    for _ in range(20):
        bench.now += LOOK_S
        for group_id, connection in connections.items():
            if random.random() < 0.3:
                epochs[group_id] += 1
            described = replace(healthy(random, epochs[group_id]), group_id=group_id)
            bench._do(bench.translator.handle_description(bench.now, connection.id, group_id, described))
            for call in bench.calls[:]:
                asked[call.api_key] += 1
                bench.reply(sizes(SIZE), call)
    assert bench.events == []
    assert not any(bench.translator.unowned.of_group(group_id) for group_id in connections)
    assert set(asked) == {ApiKey.METADATA}
    assert asked[ApiKey.METADATA] <= (bench.now - began) / SIZES_S + 1  # one topic, whoever asks for it
