"""What the broker is asked before a JoinGroup begins a membership."""

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, Bench, owned
from tests.translation.live_groups import A, classic_group, described
from translation.actions import Call


def test_an_id_that_nobody_knows_joins_under_that_id() -> None:
    """The client is not told that its membership is lost: some keep their partitions when JoinGroup fails."""
    bench = Bench(new_group=False)
    join = bench.join(bench.connect(), "epochgate-a", claims=(0,), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    while any(call.api_key == ApiKey.DESCRIBE_GROUPS for call in bench.calls):
        bench.reply(
            DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Dead"),)),
        )
        if any(call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE for call in bench.calls):
            bench.reply(NO_CONSUMER_GROUP)  # nor has it become one meanwhile
    bench.reply_names()  # of what it claims
    request = bench.heartbeat_call().message
    assert (request.member_id, request.member_epoch, owned(request)) == ("epochgate-a", 0, {})
    assert join not in bench.answers


class Leaving(Bench):
    """The last member of the new protocol is leaving when another client joins."""

    def __init__(self) -> None:
        super().__init__()
        line = self.connect()
        self.stable_member(line, (0,))
        self._new_group = False
        self.leave(line, "epochgate-a")
        self.reply(described({"epochgate-a": (1, 1)}, 1))  # nobody else has anything to give up
        (self.leaves,) = self.calls
        assert self.leaves.api_key == ApiKey.LEAVE_GROUP
        self.translator._context.ids.issued("epochgate-b")
        self.join(self.connect(), "epochgate-b")

    def look(self) -> Call:
        (call,) = [call for call in self.calls if call is not self.leaves]
        return call

    def has_left(self) -> None:
        self.reply(LeaveGroupResponse(members=(MemberResponse(member_id="epochgate-a"),)), self.leaves)

    def begins(self) -> bool:
        return any(call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT for call in self.calls)


CONSUMER_GROUP = described({"epochgate-a": (1, 1), A: (0, 1)}, 1)
DEAD = DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Dead"),))
"""As Kafka describes a consumer group."""


def test_a_consumer_group_is_joined_when_its_last_member_has_left_and_the_broker_says_what_it_is_now() -> (
    None
):
    bench = Leaving()
    bench.reply(CONSUMER_GROUP, bench.look())
    assert bench.calls == [bench.leaves]
    bench.has_left()
    bench.advance(0.3)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.3)
    bench.reply(classic_group())
    assert bench.begins()


@pytest.mark.parametrize("left", [False, True], ids=["it is leaving", "it has left since"])
def test_what_the_broker_said_of_a_group_before_its_last_member_left_does_not_count(left: bool) -> None:
    bench = Leaving()
    bench.reply(NO_CONSUMER_GROUP, bench.look())
    look = bench.look()
    if left:
        bench.has_left()
    bench.reply(DEAD, look)
    assert not bench.begins()
    if not left:
        bench.has_left()
    bench.advance(0.3)
    bench.reply(classic_group())
    assert bench.begins()


def test_the_broker_has_heard_of_a_member_when_its_heartbeat_was_sent_and_not_when_that_was_answered() -> (
    None
):
    """Its session may have ended since; so another client that joins has the broker asked about the group."""
    bench = Bench()
    line = bench.connect()
    bench.stable_member(line, (0,))
    told = bench.heartbeat(line, "epochgate-a", 1)
    heartbeat = bench.heartbeat_call()
    bench.advance(6.0)
    bench.reply(bench.heartbeat_answer(1), heartbeat)
    assert bench.answers[told]
    bench._new_group = False
    bench.translator._context.ids.issued("epochgate-b")
    bench.join(bench.connect(), "epochgate-b")
    assert [call.api_key for call in bench.calls] == [ApiKey.CONSUMER_GROUP_DESCRIBE]
