"""A group that the broker converts only when it is empty: its members are told all at once, and it is tried again."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TRANSLATE_ALL, Bench
from tests.translation.classic_group import GENERATION, live_member, observed, to_translate
from tests.translation.live_groups import A, B, classic_group, leaves, told_to_move
from translation.actions import Connection, RequestId
from translation.settings import TranslatorSettings

CUT_SHORT = classic_group(cut_short=True, assignor="cooperative-sticky")
REBALANCING = classic_group(state="PreparingRebalance")


class Moving(Bench):
    """The classic member A was told, and why; its client joins anew and waits. B has not been heard of."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._new_group = False
        self.first, self.second = self.connect("10.0.0.1"), self.connect("10.0.0.2")
        told = told_to_move(self, self.first, CUT_SHORT)
        assert self.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
        self.waits = self.joins_anew(self.first, A)

    def joins_anew(self, connection: Connection, old_classic_membership: str) -> RequestId:
        """A client that was told joins, and leaves the classic group; its JoinGroup."""
        asked = self.join(connection, "")
        join = self.join(connection, self.answers[asked].member_id)
        self.reply(NO_CONSUMER_GROUP)
        self.reply(CUT_SHORT)
        leaves(self, old_classic_membership)
        self.reply(LeaveGroupResponse())
        return join

    def a_moment_later(self) -> None:
        """The group has members still. That the broker converts it is not tried meanwhile: it would fail the JoinGroups
        that wait there."""
        for call in list(self.calls):
            assert call.api_key in (ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS)
            is_consumer = call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE
            self.reply(NO_CONSUMER_GROUP if is_consumer else CUT_SHORT, call)
        self.advance(0.25)

    def nobody_else_leaves(self) -> None:
        """The JoinGroup waits in vain."""
        while self.waits not in {*self.answers, *self.forwarded}:
            self.a_moment_later()

    def is_told(self, connection: Connection, member_id: str) -> bool:
        """Whether a Heartbeat of this classic member has it join anew."""
        heartbeat = self.heartbeat(connection, member_id, 4)
        if heartbeat in self.forwarded:
            return False
        self.reply(NO_CONSUMER_GROUP, self.calls[-1])
        if self.calls[-1].api_key == ApiKey.DESCRIBE_GROUPS:
            self.reply(CUT_SHORT, self.calls[-1])
        self.reply(HeartbeatResponse(), self.calls[-1])
        return self.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_was_told_joins_when_all_have_left() -> None:
    bench = Moving()
    bench.advance(0.25)
    bench.reply(CUT_SHORT)
    bench.advance(0.25)
    bench.answer_lookups()
    bench.beat(1, orders=(0, 1))
    bench.settle(1)
    assert bench.answers[bench.waits].generation_id == 1


def test_clients_that_were_told_are_answered_together() -> None:
    """The first one has got everything by then; were it answered at once, it would have to rebalance for the second."""
    bench = Moving()
    assert bench.is_told(bench.second, B)
    other = bench.joins_anew(bench.second, B)
    bench.advance(0.25)
    first, second = (call for call in bench.calls if call.api_key == ApiKey.DESCRIBE_GROUPS)
    empty = DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Empty"),))
    bench.reply(empty, first)
    bench.beat(1, orders=(0, 1))
    assert bench.waits not in bench.answers
    bench.reply(empty, second)
    bench.beat(2)
    assert {bench.waits, other}.isdisjoint(bench.answers)
    bench.settle(2)
    assert {bench.waits, other} <= bench.answers.keys()


def test_a_member_is_told_in_the_rebalance_that_the_others_make_by_leaving() -> None:
    bench = Moving()
    told = bench.heartbeat(bench.second, B, 4)
    bench.reply(NO_CONSUMER_GROUP, bench.calls[-1])
    bench.reply(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), bench.calls[-1])
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_not_all_have_left_in_time_is_left_alone_and_tried_again_less_and_less_often() -> None:
    bench = Moving()
    for pause in (60.0, 120.0, 240.0):
        bench.nobody_else_leaves()
        assert bench.waits in bench.forwarded
        bench.advance(pause - 1)
        assert not bench.is_told(bench.second, B), f"it is left alone for {pause} s"
        bench.advance(2)
        assert bench.is_told(bench.second, B)
        bench.waits = bench.joins_anew(bench.second, B)


def test_another_client_that_finds_out_too_does_not_have_it_left_alone_for_longer() -> None:
    bench = Moving()
    assert bench.is_told(bench.second, B)
    first, bench.waits = bench.waits, bench.joins_anew(bench.second, B)
    bench.nobody_else_leaves()
    assert {first, bench.waits} <= set(bench.forwarded)
    bench.advance(61)
    assert bench.is_told(bench.connect("10.0.0.3"), "epochgate-c")


def test_a_client_that_finds_out_after_the_group_is_left_alone_does_not_have_it_left_alone_twice() -> None:
    bench = Moving()
    late = bench.connect("10.0.0.3")
    asked = bench.join(late, "")
    bench.advance(28.0)  # another JoinGroup of this client is under way when the first one is given up
    bench.join(late, bench.answers[asked].member_id)
    while bench.waits not in bench.forwarded:
        for call in list(bench.calls):
            here = CUT_SHORT if call.connection_id == bench.first.id else REBALANCING
            bench.reply(NO_CONSUMER_GROUP if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE else here, call)
        bench.advance(0.25)
    for _ in range(20):
        bench.a_moment_later()
    bench.advance(61)
    assert bench.is_told(bench.second, B)


def test_a_client_that_was_told_before_the_group_is_left_alone_leaves_no_membership_behind() -> None:
    """The classic group's rebalance would wait for it."""
    bench = Moving()
    assert bench.is_told(bench.second, B)
    bench.nobody_else_leaves()

    bench.join(bench.second, "")

    leaves(bench, B)
    bench.reply(LeaveGroupResponse())
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP]


def test_where_other_processes_have_clients_too_a_client_waits_for_them_outside_the_classic_group() -> None:
    """Each process sees by itself, when the group is at rest, that its clients have to leave it."""
    bench = Moving(settings=TranslatorSettings(sole_process=False))
    began_at = bench.now
    while True:
        bench.nobody_else_leaves()
        if bench.waits in bench.forwarded:
            break
        assert bench.error(bench.waits) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        member_id = bench.answers[bench.waits].member_id
        bench.waits = bench.join(bench.first, member_id)
    assert 30 <= bench.now - began_at < 45, "not for ever, although it is forgotten between two JoinGroups"


def test_another_policy_has_it_tried_at_once() -> None:
    bench = Moving()
    bench.nobody_else_leaves()
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    assert bench.is_told(bench.second, B)


@pytest.mark.parametrize("group", [classic_group(protocol_type="connect"), classic_group(assignor="stream")])
def test_a_group_that_could_not_be_converted_is_looked_at_again_after_a_while(
    group: DescribeGroupsResponse,
) -> None:
    """Its members have changed, maybe. A stable group sends no JoinGroup by which that would be seen."""
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(group)
    bench.advance(59)
    assert bench.heartbeat(connection, A, 4) in bench.forwarded
    bench.advance(2)
    assert bench.error(told_to_move(bench, connection, CUT_SHORT)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_came_meanwhile_and_can_not_be_carried_over_has_the_group_moved_all_at_once() -> None:
    """The group could have been converted when it was looked at, and could not any more a moment later."""
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, "")
    bench.join(connection, "epochgate-uuid-1")
    bench.answer_lookups()
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    bench.reply(CUT_SHORT)
    assert bench.calls == []
    assert bench.forwarded == []
    other = bench.heartbeat(bench.connect("10.0.0.2"), B, 4)
    bench.reply(NO_CONSUMER_GROUP, bench.calls[-1])
    bench.reply(HeartbeatResponse(), bench.calls[-1])
    assert bench.error(other) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_of_the_new_protocol_is_one_although_the_group_is_left_alone() -> None:
    """One of those that waited has joined when all had left; another looked at the group a moment too early."""
    bench = Moving()
    assert bench.is_told(bench.second, B)
    bench.joins_anew(bench.second, B)
    bench.advance(0.25)
    first, second = (call for call in bench.calls if call.api_key == ApiKey.DESCRIBE_GROUPS)
    bench.reply(DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Empty"),)), first)
    bench.beat(1, orders=(0, 1))
    bench.settle(1)
    member_id = bench.answers[bench.waits].member_id
    bench.sync(bench.first, member_id, 1)
    bench.now += 60  # the answer stood still
    bench.reply(CUT_SHORT, second)

    again = bench.join(bench.first, member_id)

    assert again not in bench.forwarded
    assert bench.heartbeat_call().message.member_id == member_id


def test_a_newer_join_group_of_a_static_client_that_goes_through_ends_the_older_one_that_waits() -> None:
    """The older one would put a member of the new protocol in the place of the classic one."""
    bench = Moving()
    for _ in range(12):
        bench.a_moment_later()
    assert bench.is_told(bench.second, B)
    older = bench.join(bench.second, "", instance_id="i-1")
    bench.reply(NO_CONSUMER_GROUP, bench.calls[-1])
    bench.reply(CUT_SHORT, bench.calls[-1])
    assert bench.calls[-1].api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse(), bench.calls[-1])
    bench.nobody_else_leaves()
    assert older not in {*bench.answers, *bench.forwarded}

    bench.join(bench.connect("10.0.0.2"), "", instance_id="i-1")
    bench.a_moment_later()

    assert bench.error(older) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ApiKey.JOIN_GROUP in [call.api_key for call in bench.calls]
    bench.advance(5)
    assert all(call.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT for call in bench.calls)


# -- by an ordinary rebalance ------------------------------------------------------------------------------------------


def known_and_told(protocol: str = "sticky") -> tuple[Bench, Connection, RequestId]:
    """A classic member whose JoinGroup passed through here is told; its Heartbeat is given."""
    bench = observed()
    connection = bench.connect()
    live_member(bench, connection, protocol=protocol)
    to_translate(bench)
    return bench, connection, told_to_move(bench, connection, CUT_SHORT)


def test_an_eager_client_gives_up_its_partitions_by_its_own_rules_and_keeps_its_id() -> None:
    bench, connection, told = known_and_told()
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.heartbeat(connection, A, GENERATION)
    assert bench.error(again) == ErrorCode.REBALANCE_IN_PROGRESS
    commit = bench.commit(connection, A, GENERATION, version=7)  # in the callback
    bench.reply(NO_CONSUMER_GROUP)
    assert commit in bench.forwarded
    join = bench.join(connection, A, protocol="sticky")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(CUT_SHORT)
    leaves(bench, A)
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.reply(classic_group(state="Empty"))
    bench.answer_lookups()
    bench.beat(1, orders=(0, 1))
    bench.settle(1)
    assert (bench.answers[join].member_id, bench.answers[join].generation_id) == (A, 1)


def test_an_eager_client_that_does_not_follow_is_no_member_after_a_while() -> None:
    bench, connection, _ = known_and_told()
    bench.advance(31.0)
    assert bench.error(bench.heartbeat(connection, A, GENERATION)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_cooperative_client_gives_up_its_partitions_when_it_is_no_member() -> None:
    bench, connection, told = known_and_told("cooperative-sticky")
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.error(bench.heartbeat(connection, A, GENERATION)) == ErrorCode.UNKNOWN_MEMBER_ID
