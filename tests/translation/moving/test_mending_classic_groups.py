"""Classic groups that were moved back and leave partitions to nobody: who is told to join again, and who never is."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode
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
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.bench import GROUP, OTHER_TOPIC, TOPIC, TOPIC_ID, Bench
from tests.translation.live_groups import A, B
from translation.actions import Connection, EventKind, RequestId
from translation.members.member_parts import PendingSwitch
from translation.mending.findings import findings_of_classic_group
from translation.mending.suspicion import CLIENTS_MAY_S
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings

LOOK_S = 30.0
OBSERVE = Policy(rules=(Rule(group=GROUP, mode=Mode.OBSERVE),))
WHOEVER_MOVED_IT = Policy(rules=(Rule(group=GROUP, mode=Mode.OBSERVE, mend=True),))


def classic(
    has: Mapping[str, tuple[int, ...]], *, claims: tuple[int, ...] = (), state: str = "Stable"
) -> DescribedGroup:
    """A classic group with these members; each says that it owns ``claims``."""
    owned = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=claims),) if claims else ()
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=(TOPIC,), owned_partitions=owned), 1)
    return DescribedGroup(
        group_id=GROUP,
        group_state=state,
        protocol_type="consumer",
        protocol_data="range",
        members=tuple(
            DescribedGroupMember(
                member_id=member_id,
                member_metadata=metadata,
                member_assignment=encode_assignment(
                    ConsumerProtocolAssignment(
                        assigned_partitions=(
                            ConsumerProtocolTopicPartition(topic=TOPIC, partitions=partitions),
                        )
                    ),
                    0,
                ),
            )
            for member_id, partitions in has.items()
        ),
    )


WITH_A_GAP = classic({A: (0,), B: (2,)})
"""Nobody has partition 1 of 3."""


def sizes(partitions: int = 3) -> MetadataResponse:
    found = tuple(MetadataResponsePartition(partition_index=number) for number in range(partitions))
    return MetadataResponse(topics=(MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=found),))


class Site:
    """One process through which A and B come; Epochgate has told a member of their group to go back."""

    def __init__(
        self,
        policy: Policy = OBSERVE,
        *,
        moved: bool = True,
        settings: TranslatorSettings | None = None,
    ) -> None:
        self.bench = bench = Bench(settings=settings)
        self.connections: dict[str, Connection] = {}
        if moved:
            connection = bench.connect()
            bench.stable_member(connection, (0, 1))
            bench._do(bench.translator.set_policy(bench.now, OBSERVE))
            told = bench.heartbeat(connection, "epochgate-a", 1)
            assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
            bench.advance(10.1)  # its session timeout
            while bench.calls:
                bench.reply(bench.heartbeat_answer(-1))
            bench.upstream_lost(connection)
        bench._new_group = False
        bench._do(bench.translator.set_policy(bench.now, policy))
        bench.events.clear()
        for member_id in (A, B):
            self.connections[member_id] = bench.connect()
            self.heartbeat(member_id)
            bench.reply(HeartbeatResponse())

    def joins(self, member_id: str, leader: str) -> None:
        """Its JoinGroup is answered, and names the leader."""
        connection = self.connections[member_id]
        request = self.bench.join(connection, member_id)
        answer = JoinGroupResponse(member_id=member_id, leader=leader, generation_id=4)
        if request in self.bench.forwarded:
            self.bench.relayed_response(connection, request, answer)
        else:  # the first one completes the move of the member that was told to go back
            self.bench.reply(answer)

    def syncs(self, member_id: str, *partitions: int) -> None:
        """Its SyncGroup is answered with this assignment."""
        request = self.bench.sync(self.connections[member_id], member_id, 4)
        assignment = encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=(ConsumerProtocolTopicPartition(topic=TOPIC, partitions=partitions),)
            ),
            0,
        )
        self.bench.relayed_response(
            self.connections[member_id], request, SyncGroupResponse(assignment=assignment)
        )

    def heartbeat(self, member_id: str) -> RequestId:
        return self.bench.heartbeat(self.connections[member_id], member_id, 4)

    def look(self, described: DescribedGroup = WITH_A_GAP, *, later_s: float = LOOK_S) -> None:
        bench = self.bench
        bench.advance(later_s)
        connection = self.connections[A]
        bench._do(bench.translator.handle_description(bench.now, connection.id, GROUP, described))

    def suspects(self, described: DescribedGroup = WITH_A_GAP) -> "Site":
        """Two looks have said the same, and the one before anything is done too."""
        self.look(described)
        self.bench.reply(sizes())
        self.look(described)
        self.look(described)
        self.looks_again(described)
        return self

    def looks_again(self, described: DescribedGroup = WITH_A_GAP) -> None:
        self.bench.reply(DescribeGroupsResponse(groups=(described,)))
        self.bench.reply(sizes())

    def is_told(self, member_id: str, answer: ErrorCode = ErrorCode.NONE) -> bool:
        """Whether a member's Heartbeat, which the broker answers so, tells it to join again."""
        told = self.heartbeat(member_id)
        if told in self.bench.forwarded:
            return False
        self.bench.reply(HeartbeatResponse(error_code=answer))
        assert self.bench.error(told) in (answer, ErrorCode.REBALANCE_IN_PROGRESS)
        return self.bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS

    @property
    def reported(self) -> list[tuple[EventKind, str]]:
        kinds = (EventKind.MENDING, EventKind.LEFT_UNOWNED)
        return [(event.kind, event.reason) for event in self.bench.events if event.kind in kinds]


def test_the_leader_is_told_once_and_nobody_else() -> None:
    site = Site()
    site.joins(A, leader=A)
    site.joins(B, leader=A)
    site.suspects()
    assert not site.is_told(B)
    assert site.is_told(A)
    assert not site.is_told(A)
    assert site.reported == [(EventKind.MENDING, "told to join again, try 1")]


def test_a_leader_that_is_not_known_is_found_by_telling_another() -> None:
    site = Site().suspects()
    assert site.is_told(B)
    assert not site.is_told(A)
    site.joins(B, leader=A)
    assert not site.is_told(B)
    assert site.is_told(A)
    assert not site.is_told(A)


def test_one_that_turns_out_to_be_the_leader_is_not_told_again() -> None:
    site = Site().suspects()
    assert site.is_told(A)
    site.joins(A, leader=A)
    assert not site.is_told(A)
    assert not site.is_told(B)


def test_a_leader_that_does_not_come_through_here_is_reported() -> None:
    site = Site()
    site.joins(A, leader="elsewhere")
    for _ in range(5):
        site.look()
        for call in site.bench.calls[:]:
            site.bench.reply(sizes(), call)
    reason = "its leader does not come through this process"
    assert site.reported == [(EventKind.LEFT_UNOWNED, reason)]


def test_a_member_that_the_broker_does_not_take_for_one_at_rest_gets_the_brokers_answer() -> None:
    site = Site().suspects()
    assert not site.is_told(A, ErrorCode.UNKNOWN_MEMBER_ID)
    assert not site.is_told(A, ErrorCode.ILLEGAL_GENERATION)
    assert site.reported == []
    assert site.is_told(A)


def test_what_is_missing_between_others_is_not_taken_for_what_a_topic_has_grown_by() -> None:
    """Not even if another topic may have grown."""
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=(TOPIC, OTHER_TOPIC)), 1)
    has = ConsumerProtocolAssignment(
        assigned_partitions=(
            ConsumerProtocolTopicPartition(topic=TOPIC, partitions=(0, 2)),
            ConsumerProtocolTopicPartition(topic=OTHER_TOPIC, partitions=(0, 1)),
        )
    )
    one = DescribedGroupMember(
        member_id=A, member_metadata=metadata, member_assignment=encode_assignment(has, 0)
    )
    described = replace(WITH_A_GAP, members=(one,))
    look = findings_of_classic_group(described, {TOPIC: 3, OTHER_TOPIC: 3}, {})
    assert look is not None
    assert look.unowned == {(TOPIC, 1), (OTHER_TOPIC, 2)}
    assert not look.clients_may
    grown = findings_of_classic_group(described, {TOPIC: 3, OTHER_TOPIC: 2}, {})
    assert grown is not None
    assert not grown.clients_may


def test_a_member_that_is_assigned_more_than_it_was_told_is_told_itself() -> None:
    """As after the last member of the new protocol has come back as a classic one, in its own place."""
    site, shared = Site(), classic({A: (0,), B: (1, 2)})
    site.joins(A, leader="elsewhere")
    site.syncs(A, 0)
    site.syncs(B, 1)
    site.suspects(shared)
    assert not site.is_told(A)
    assert site.is_told(B)
    assert not site.is_told(B)
    site.syncs(B, 1, 2)
    site.look(shared)
    assert site.reported[-1] == (EventKind.MENDING, "all partitions have an owner again")
    assert site.bench.translator.unowned.of_group(GROUP) is None


def test_a_group_of_which_a_member_was_told_to_move_a_moment_ago_is_left_for_now() -> None:
    site = Site()
    told = PendingSwitch("gone", None, site.connections[A].id, "app", "/10.0.0.1", site.bench.now)
    site.bench.translator._context.registry.group(GROUP).pending_switches["gone"] = told
    site.look(later_s=1.0)
    site.bench.reply(sizes())
    for _ in range(2):
        site.look(later_s=20.0)
        assert site.bench.calls == []
    site.look(later_s=20.0)
    assert site.reported == []
    assert [call.api_key for call in site.bench.calls] == [ApiKey.DESCRIBE_GROUPS]


def test_nobody_is_told_after_a_minute() -> None:
    site = Site().suspects()
    site.bench.advance(60.0)
    assert not site.is_told(A)


def test_a_heartbeat_is_not_relayed_past_the_translation_while_a_leader_is_to_be_told() -> None:
    site = Site()
    translator, now = site.bench.translator, site.bench.now
    assert translator.passes_through(now, GROUP, A)
    site.suspects()
    assert not translator.passes_through(site.bench.now, GROUP, A)


def test_a_group_that_was_never_moved_is_not_looked_at() -> None:
    site = Site(moved=False)
    for _ in range(5):
        site.look()
        assert site.bench.calls == []
    assert site.bench.translator.unowned.of_group(GROUP) is None


def test_the_policy_may_say_that_any_classic_group_is_mended() -> None:
    site = Site(WHOEVER_MOVED_IT, moved=False).suspects()
    assert site.is_told(A)


@pytest.mark.parametrize(
    "described",
    [
        classic({A: (0,), B: (2,)}, state="PreparingRebalance"),
        classic({A: (0,), B: (2,)}, state="CompletingRebalance"),
        classic({A: (0, 1), B: (2,)}),
        classic({A: (0,)}),
        classic({A: (2,), B: (0,)}),
    ],
    ids=["rebalances", "is assigned", "has an owner", "a member has left", "was shared out anew"],
)
def test_nobody_is_told_if_the_last_look_says_something_else(described: DescribedGroup) -> None:
    site = Site()
    site.look()
    site.bench.reply(sizes())
    site.look()
    site.look()
    site.bench.reply(DescribeGroupsResponse(groups=(described,)))
    for call in site.bench.calls[:]:
        site.bench.reply(sizes(), call)
    assert not site.is_told(A)
    assert not site.is_told(B)


@pytest.mark.parametrize(
    "described",
    [classic({A: (0,), B: (1,)}), classic({A: (0,), B: (2,)}, claims=(0, 1))],
    ids=["the topic may have grown", "a cooperative member may have to give up"],
)
def test_what_the_clients_may_change_themselves_is_left_to_them_for_longer(described: DescribedGroup) -> None:
    site = Site()
    site.look(described)
    site.bench.reply(sizes())
    site.look(described)
    began, asked = site.bench.now, []
    while not asked:
        site.look(described)
        for call in site.bench.calls[:]:
            if call.api_key == ApiKey.METADATA:
                site.bench.reply(sizes(), call)
        asked = site.bench.calls
    assert CLIENTS_MAY_S <= site.bench.now - began < CLIENTS_MAY_S + 3 * LOOK_S


def test_several_processes_without_a_member_log_do_not_know_what_was_moved() -> None:
    site = Site(WHOEVER_MOVED_IT, moved=False, settings=TranslatorSettings(sole_process=False))
    for _ in range(5):
        site.look()
        for call in site.bench.calls[:]:
            site.bench.reply(sizes(), call)
    assert site.reported == [
        (EventKind.LEFT_UNOWNED, "several processes serve it without a member log (`fleet`)")
    ]


def test_a_leader_is_known_by_a_join_group_that_was_only_relayed() -> None:
    site = Site(WHOEVER_MOVED_IT, moved=False)
    site.joins(A, leader=A)
    site.suspects()
    assert not site.is_told(B)
    assert site.is_told(A)
