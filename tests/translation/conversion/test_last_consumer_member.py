"""The last member of the new protocol leaves when the others have nothing to give up any more."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.bench import KAFKA_4_3, NO_CONSUMER_GROUP, TRANSLATE_ALL, Bench
from tests.translation.live_groups import A, B, described
from translation.actions import Connection, RequestId
from translation.members.conversion import is_helper
from translation.policy.policy import Mode, Policy, Rule

OBSERVE_AT_ONCE = Policy(rules=(Rule(pattern=".*", mode=Mode.OBSERVE),))
CLASSIC, NEW = 0, 1
BEHIND = described({"epochgate-a": (NEW, 5), A: (CLASSIC, 4)})
"""A has not come to the target assignment of epoch 5 yet."""
AFTER_A_LEAVE = described({"epochgate-a": (NEW, 5), A: (CLASSIC, 5)}, group_epoch=6)
"""A member has left; the assignment of epoch 6 is still to be made."""
SETTLED = described({"epochgate-a": (NEW, 5), A: (CLASSIC, 5)})


class Returning(Bench):
    """The group goes back to the classic protocol, and its client rejoins. The group has no place for a helper, so the
    membership of epochgate-a has to end."""

    def __init__(self, *others: str, **options: Any) -> None:
        super().__init__(**options)
        self.line = self.connect()
        for member_id in ("epochgate-a", *others):
            self.stable_member(self.line, (0,), member_id=member_id, epoch=5)
        self.settle(5)
        self._new_group = False
        self._do(self.translator.set_policy(self.now, OBSERVE_AT_ONCE))
        assert self.error(self.heartbeat(self.line, "epochgate-a", 5)) == ErrorCode.REBALANCE_IN_PROGRESS
        self.rejoined = self.rejoin(self.line, "epochgate-a")

    def rejoin(self, line: Connection, member_id: str) -> RequestId:
        """A JoinGroup under the member's id; the broker does not take it back in place."""
        before = list(self.calls)
        request = self.join(line, member_id)
        (call,) = (call for call in self.calls if call not in before)
        if call.api_key == ApiKey.JOIN_GROUP:  # another member stays
            self.reply(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL), call)
        else:
            assert is_helper(call.message.member_id)
            self.reply(self.heartbeat_answer(0, ErrorCode.GROUP_MAX_SIZE_REACHED), call)
        return request

    def asked(self) -> list[ApiKey]:
        return [ApiKey(call.api_key) for call in self.calls]

    def leaves_now(self) -> bool:
        return [call.message.member_epoch for call in self.calls if _beats(call)] == [-1]

    def poll(self, group: ConsumerGroupDescribeResponse) -> None:
        """The next look at the group, with the heartbeat before it."""
        self.advance(0.3)
        self.beat(5)
        self.reply(group)


def _beats(call: Any) -> bool:
    return bool(call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT)


def test_it_waits_until_the_others_have_come_to_the_target_and_stays_alive_meanwhile() -> None:
    bench = Returning()
    bench.reply(BEHIND)
    bench.poll(BEHIND)
    bench.poll(BEHIND)
    assert bench.calls == []
    bench.poll(SETTLED)
    assert bench.leaves_now()
    bench.beat(-1)
    assert bench.asked() == [ApiKey.JOIN_GROUP]


def test_it_does_not_wait_if_nobody_has_anything_to_give_up() -> None:
    bench = Returning()
    bench.reply(SETTLED)
    assert bench.leaves_now()


def test_it_waits_until_the_others_have_reached_the_group_epoch() -> None:
    """That is the generation of the classic group, which answers an older one ILLEGAL_GENERATION."""
    bench = Returning()
    bench.reply(AFTER_A_LEAVE)
    assert bench.calls == []
    bench.poll(described({"epochgate-a": (NEW, 5), A: (CLASSIC, 6)}, target_epoch=6))
    assert bench.leaves_now()


def test_it_does_not_wait_for_a_static_member_that_is_away() -> None:
    bench = Returning()
    bench.reply(described({"epochgate-a": (NEW, 5), A: (CLASSIC, -2)}))
    assert bench.leaves_now()


def test_it_does_not_wait_if_another_member_of_the_new_protocol_stays() -> None:
    bench = Returning()
    bench.reply(described({"epochgate-a": (NEW, 5), A: (CLASSIC, 4), B: (NEW, 5)}))
    assert bench.leaves_now()


def test_nobody_is_asked_if_another_client_of_this_process_stays() -> None:
    bench = Returning("epochgate-b")
    assert bench.leaves_now()


def test_of_two_that_leave_at_once_the_second_is_the_last() -> None:
    bench = Returning("epochgate-b")
    (first,) = bench.calls
    line = bench.connect()
    assert bench.error(bench.heartbeat(line, "epochgate-b", 5)) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.rejoin(line, "epochgate-b")
    assert bench.asked() == [ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE]
    both = described({"epochgate-a": (NEW, 5), "epochgate-b": (NEW, 5), A: (CLASSIC, 4)})
    bench.reply(both, bench.calls[1])
    assert bench.calls == [first]


@pytest.mark.parametrize("answer", [NO_CONSUMER_GROUP, ConsumerGroupDescribeResponse()])
def test_it_does_not_wait_if_the_broker_does_not_say_who_is_there(
    answer: ConsumerGroupDescribeResponse,
) -> None:
    bench = Returning()
    bench.reply(answer)
    assert bench.leaves_now()


def test_a_broker_that_does_not_tell_the_protocols_apart_is_not_asked() -> None:
    bench = Returning(versions={**KAFKA_4_3, ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0)})
    assert bench.leaves_now()


def test_a_client_that_has_waited_for_long_is_to_try_again_and_stays_a_member() -> None:
    bench = Returning()
    bench.reply(BEHIND)
    while bench.rejoined not in bench.answers:
        bench.poll(BEHIND)
    assert bench.error(bench.rejoined) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.rejoin(bench.line, "epochgate-a")
    bench.reply(SETTLED)
    assert bench.leaves_now()


def test_a_client_that_hangs_up_while_it_waits_stays_a_member_until_its_session_ends() -> None:
    bench = Returning()
    bench.reply(BEHIND)
    bench.client_disconnected(bench.line)
    assert bench.calls == []
    bench.advance(9)
    while any(_beats(call) for call in bench.calls) and not bench.leaves_now():
        bench.beat(5)
    bench.advance(2)
    assert bench.leaves_now()


def test_a_newer_join_group_of_the_client_waits_in_the_place_of_the_older_one() -> None:
    bench = Returning()
    bench.reply(BEHIND)
    newer = bench.rejoin(bench.connect(), "epochgate-a")
    bench.reply(SETTLED)
    assert bench.leaves_now()
    bench.beat(-1)
    bench.reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=A))
    assert bench.error(newer) == ErrorCode.MEMBER_ID_REQUIRED
    assert bench.error(bench.rejoined) == ErrorCode.COORDINATOR_NOT_AVAILABLE


class Replaced(Bench):
    """The group goes back to the classic protocol, and a newer process with member-a's instance id joins it."""

    def __init__(self) -> None:
        super().__init__()
        self.older, self.newer = self.connect(), self.connect()
        self.stable_member(self.older, (0,), member_id="epochgate-a", epoch=5, instance_id="one")
        self.settle(5)
        self._new_group = False
        self._do(self.translator.set_policy(self.now, OBSERVE_AT_ONCE))
        self.goes_back = self.join(self.newer, "", instance_id="one")


def test_a_join_group_of_the_older_process_does_not_answer_for_the_newer_one_that_goes_back() -> None:
    """The policy says translate again; both have the same instance id."""
    bench = Replaced()
    bench.reply(BEHIND)
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))
    stays = bench.join(bench.older, "epochgate-a", instance_id="one")
    bench.beat(5, orders=(0,))
    assert bench.answers[stays].generation_id == 5
    assert bench.error(bench.goes_back) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_classic_member_that_has_the_instance_id_then_is_not_fenced() -> None:
    """The policy says translate again while calls of the older process still wait for the older member's turn."""
    bench = Replaced()
    bench.reply(SETTLED)
    bench.beat(-1)
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))
    bench.heartbeat(bench.newer, A, 6, instance_id="one")
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_DESCRIBE]


def test_every_membership_with_the_instance_id_of_the_client_ends() -> None:
    """The client lost patience, so that it has two; the broker would put its classic self in the older one's place."""
    bench = Bench()
    line = bench.connect()
    bench.stable_member(line, (0,), member_id="epochgate-a", epoch=5, instance_id="one")
    bench.settle(5)
    bench.join(line, "", instance_id="one")
    first_heartbeat = bench.heartbeat_call()
    bench._new_group = False
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_AT_ONCE))
    bench.client_disconnected(line)
    bench.join(bench.connect(), "", instance_id="one")
    bench.reply(bench.heartbeat_answer(0, ErrorCode.COORDINATOR_NOT_AVAILABLE), first_heartbeat)
    bench.reply(SETTLED)
    leave = bench.heartbeat_call().message
    assert (leave.member_id, leave.member_epoch) == ("epochgate-a", -1)


def test_a_membership_that_the_broker_has_ended_meanwhile_is_not_waited_with_any_more() -> None:
    bench = Returning()
    bench.reply(BEHIND)
    bench.advance(0.3)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.asked() == [ApiKey.JOIN_GROUP]


def test_a_lost_connection_to_the_broker_leaves_the_member_as_it_was() -> None:
    bench = Returning()
    bench.reply(BEHIND)
    bench.upstream_lost(bench.line)
    bench.rejoin(bench.connect(), "epochgate-a")
    assert bench.asked() == [ApiKey.CONSUMER_GROUP_DESCRIBE]
    bench.reply(SETTLED)
    assert bench.leaves_now()


def leaving(**options: Any) -> Bench:
    """A client leaves by itself; all others of its group are classic members."""
    bench = Bench(**options)
    line = bench.connect()
    bench.stable_member(line, (0,), member_id="epochgate-a", epoch=5)
    bench.settle(5)
    bench._new_group = False
    bench.leave(line, "epochgate-a")
    return bench


def test_a_client_that_leaves_by_itself_waits_for_nobody_and_a_helper_takes_its_place() -> None:
    bench = leaving()
    assert [call.api_key for call in bench.calls] == [ApiKey.CONSUMER_GROUP_DESCRIBE]
    bench.reply(BEHIND)
    (call,) = bench.calls
    assert is_helper(call.message.member_id)
    assert (call.message.member_epoch, call.message.subscribed_topic_names) == (0, ())
    bench.reply(bench.heartbeat_answer(5))
    assert [call.api_key for call in bench.calls] == [ApiKey.LEAVE_GROUP]


def test_no_helper_comes_if_the_others_have_caught_up() -> None:
    bench = leaving()
    bench.reply(SETTLED)
    assert [call.api_key for call in bench.calls] == [ApiKey.LEAVE_GROUP]


def test_a_late_join_group_of_a_client_that_has_joined_again_since_ends_nothing() -> None:
    """It claims nothing, as its client did when it sent it; it works on partitions since, and was told to go back."""
    bench = Bench()
    stalled, line = bench.connect(), bench.connect()
    bench.stable_member(line, (0, 1))
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_AT_ONCE))
    told = bench.heartbeat(line, "epochgate-a", 1)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS

    late = bench.join(stalled, "epochgate-a")

    assert bench.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []
    bench.join(line, "epochgate-a")
    bench.reply(bench.heartbeat_answer(1), bench.heartbeat_call())  # the helper's
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "epochgate-a")


def test_a_client_that_is_to_stay_after_all_ends_its_membership_when_all_have_the_group_epoch() -> None:
    """Its client was answered UNKNOWN_MEMBER_ID, gave up its partitions, and joins under another id."""
    bench = Bench()
    line = bench.connect()
    bench.stable_member(line, (0,), member_id="epochgate-a", epoch=5)
    bench.settle(5)
    bench._new_group = False
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_AT_ONCE))
    assert bench.error(bench.heartbeat(line, "epochgate-a", 5)) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(line, "epochgate-a", claims=(0,))
    bench.reply(bench.heartbeat_answer(0, ErrorCode.GROUP_MAX_SIZE_REACHED))  # the helper
    assert bench.error(bench.heartbeat(line, "epochgate-a", 5)) == ErrorCode.UNKNOWN_MEMBER_ID
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))
    required = bench.join(line, "")
    bench.join(line, bench.answers[required].member_id)
    bench.reply(BEHIND)
    assert bench.calls == []
    bench.advance(0.3)
    bench.reply(SETTLED)
    (leave,) = bench.calls
    assert (leave.message.member_id, leave.message.member_epoch) == ("epochgate-a", -1)
