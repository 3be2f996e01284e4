"""The first heartbeat of a group that is started while a step lets only some of its clients be translated."""

import msgspec
import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.all_messages import DescribeGroupsResponse
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol_codecs.messages.describe_groups import DescribedGroup
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TRANSLATE_ALL, Bench
from tests.translation.live_groups import OBSERVE_ALL, A, classic_group, described
from tests.translation.moving.test_moving_by_steps import by_steps
from translation.actions import Connection, RequestId
from translation.member_log.group_records import Phase
from translation.policy.policy import Policy
from translation.settings import TranslatorSettings

WAIT_S = TranslatorSettings().first_member_wait_s
DEAD, EMPTY = (
    DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state=state),))
    for state in ("Dead", "Empty")
)
CLASSIC_ONES_JOIN = classic_group(state="PreparingRebalance")


class Site(Bench):
    """A broker that says ``classic`` and ``consumer`` of the group whenever it is asked."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy=policy, new_group=False)
        self.classic: DescribeGroupsResponse = DEAD
        self.consumer: ConsumerGroupDescribeResponse = NO_CONSUMER_GROUP

    def tell(self) -> None:
        answers = {ApiKey.DESCRIBE_GROUPS: "classic", ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer"}
        while asked := [call for call in self.calls if call.api_key in answers]:
            for call in asked:
                self.reply(getattr(self, answers[ApiKey(call.api_key)]), call)

    def go_on(self, seconds: float) -> None:
        """Let time pass, in which the broker is asked again and again."""
        until = self.now + seconds
        while (due := self.translator.next_deadline()) <= until:
            self.advance(max(0.0, due - self.now))
            self.tell()
        self.advance(until - self.now)

    def starts(self, line: Connection | None = None) -> tuple[RequestId, str]:
        """A client joins, is given an id, and joins with it: that JoinGroup, and the id."""
        line = line or self.connect()
        asked = self.join(line, "")
        self.tell()
        assert self.error(asked) == ErrorCode.MEMBER_ID_REQUIRED
        member_id = self.answers[asked].member_id
        join = self.join(line, member_id)
        self.tell()
        return join, member_id

    @property
    def begun(self) -> list[str]:
        """Whose first heartbeats wait for their answer."""
        beats = [call.message for call in self.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]
        return [beat.member_id for beat in beats if beat.member_epoch == 0]


@pytest.mark.parametrize(
    ("classic", "consumer"),
    [(DEAD, NO_CONSUMER_GROUP), (EMPTY, NO_CONSUMER_GROUP), (DEAD, described({}))],
    ids=["there was none", "an empty classic one", "an empty consumer group"],
)
def test_it_waits_as_long_as_the_first_members_of_a_classic_group(
    classic: DescribeGroupsResponse, consumer: ConsumerGroupDescribeResponse
) -> None:
    """Also in an empty consumer group: the next classic JoinGroup makes that a classic one."""
    site = Site(by_steps(1))
    site.classic, site.consumer = classic, consumer
    _, member_id = site.starts()
    site.go_on(WAIT_S - 0.1)
    assert site.begun == []
    site.go_on(0.2)
    assert site.begun == [member_id], "nobody else has come"


def test_it_is_sent_when_the_first_rebalance_of_the_classic_members_has_ended() -> None:
    site = Site(by_steps(1))
    _, member_id = site.starts()
    for state in ("PreparingRebalance", "CompletingRebalance"):
        site.classic = classic_group(state=state)
        site.go_on(WAIT_S)
        assert site.begun == [], state
    site.classic = classic_group()
    site.go_on(0.5)
    assert site.begun == [member_id]


def test_the_client_joins_again_if_the_first_rebalance_takes_longer_than_its_join_group_may_wait() -> None:
    site = Site(by_steps(1))
    join, _ = site.starts()
    site.classic = CLASSIC_ONES_JOIN
    site.go_on(TranslatorSettings().join_wait_s + 0.1)
    assert site.begun == []
    assert site.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("policy", [TRANSLATE_ALL, by_steps("100%")], ids=["no steps", "all"])
def test_it_does_not_wait_if_no_client_is_to_stay_classic(policy: Policy) -> None:
    site = Site(policy)
    _, member_id = site.starts()
    assert site.begun == [member_id]


def test_it_does_not_wait_in_a_group_with_members() -> None:
    site = Site(by_steps(1))
    site.classic = classic_group()
    _, member_id = site.starts()
    assert site.begun == [member_id]


def test_others_with_a_slot_begin_when_one_has_begun() -> None:
    site = Site(by_steps(10))
    _, first = site.starts()
    site.go_on(WAIT_S - 0.1)
    _, second = site.starts()
    site.go_on(0.2)
    assert site.begun == [first]
    site.consumer = described({first: (1, 1)})
    site.beat(1, orders=(0,))
    site.go_on(0.5)
    assert site.begun == [second]


def test_a_group_that_starts_again_as_a_whole_goes_on_with_its_step() -> None:
    """Its classic clients are back first. That is no downgrade by the leave of its last translated member."""
    site = Site(by_steps(1, "50%", hold_s=60))
    line = site.connect()
    _, member_id = site.starts(line)
    site.go_on(WAIT_S)
    site.consumer = described({member_id: (1, 1)})
    site.beat(1, orders=(0,))
    site.settle(1)
    site.client_disconnected(line)
    site.advance(60)
    site.consumer, site.classic = NO_CONSUMER_GROUP, EMPTY

    _, newer = site.starts()
    site.classic = CLASSIC_ONES_JOIN
    site.go_on(1.0)
    assert phase(site) == Phase.MOVING
    site.classic = classic_group()
    site.go_on(0.5)
    assert site.begun == [newer]


def test_classic_members_without_a_translated_one_are_still_a_downgrade() -> None:
    site = Site(by_steps(1))
    line = site.connect()
    _, member_id = site.starts(line)
    site.go_on(WAIT_S)
    site.consumer = described({member_id: (1, 1), A: (0, 1)})
    site.beat(1, orders=(0,))
    site.settle(1)
    site.client_disconnected(line)
    site.advance(60)
    site.consumer, site.classic = NO_CONSUMER_GROUP, classic_group()
    assert site.join(site.connect(), "") is not None
    site.tell()
    assert phase(site) == Phase.HELD


@pytest.mark.parametrize(
    "policy",
    [
        OBSERVE_ALL,
        msgspec.structs.replace(
            by_steps(1), rules=(msgspec.structs.replace(by_steps(1).rules[0], pause=True),)
        ),
    ],
    ids=["observe", "pause"],
)
def test_who_waits_stays_classic_if_the_policy_changes(policy: Policy) -> None:
    site = Site(by_steps(1))
    site.starts()
    site.go_on(1.0)
    site._do(site.translator.set_policy(site.now, policy))
    site.go_on(0.5)
    assert site.begun == []
    (call,) = [call for call in site.calls if call.api_key == ApiKey.JOIN_GROUP]
    assert call.message.member_id != ""
    site.reply(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), call)
    (call,) = [call for call in site.calls if call.api_key == ApiKey.JOIN_GROUP]
    assert call.message.member_id == "", "the broker has no member with its id"


def phase(site: Site) -> str:
    move = site.translator.rollout.move_of(GROUP)
    assert move is not None
    return move.phase
