"""The first heartbeat of a group that is started while a step lets only some of its clients be translated."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages import DescribeGroupsResponse
from tests.translation.bench import NO_CONSUMER_GROUP, TRANSLATE_ALL, Bench
from tests.translation.live_groups import classic_group
from tests.translation.migration.test_moving_by_steps import M, by_steps, told
from translation.policy.policy import Policy
from translation.settings import TranslatorSettings

WAIT_S = TranslatorSettings().first_member_wait_s


class Starting(Bench):
    """The first client of a group that the broker does not know has a slot, and joins with its id."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy=policy, new_group=False)
        self.state = "Dead"
        self.line = self.connect()
        asked = self.join(self.line, "")
        self.tell()
        assert self.error(asked) == ErrorCode.MEMBER_ID_REQUIRED
        self.join(self.line, M)
        self.tell()

    def tell(self) -> None:
        """Answer all questions about the group."""
        while asked := [call for call in self.calls if call.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT]:
            for call in asked:
                self.reply(
                    self.described() if call.api_key == ApiKey.DESCRIBE_GROUPS else NO_CONSUMER_GROUP, call
                )

    def described(self) -> DescribeGroupsResponse:
        return classic_group(state=self.state)

    def go_on(self, seconds: float) -> None:
        """Let time pass, in which the broker is asked again and again."""
        until = self.now + seconds
        while self.now < until:
            self.advance(0.25)
            self.tell()

    @property
    def has_begun(self) -> bool:
        return any(call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT for call in self.calls)


@pytest.mark.parametrize("state", ["Dead", "Empty"])
def test_it_waits_as_long_as_the_first_members_of_a_classic_group(state: str) -> None:
    bench = Starting(by_steps(1))
    bench.state = state
    bench.go_on(WAIT_S - 0.5)
    assert not bench.has_begun
    bench.go_on(0.5)
    assert bench.has_begun, "nobody else has come"


def test_it_is_sent_when_the_first_rebalance_of_the_classic_members_has_ended() -> None:
    bench = Starting(by_steps(1))
    for state in ("PreparingRebalance", "CompletingRebalance"):
        bench.state = state
        bench.go_on(WAIT_S)
        assert not bench.has_begun, state
    bench.state = "Stable"
    bench.go_on(0.5)
    assert bench.has_begun


def test_the_client_joins_again_if_the_first_rebalance_takes_longer_than_its_join_group_may_wait() -> None:
    bench = Starting(by_steps(1))
    bench.state = "PreparingRebalance"
    bench.go_on(TranslatorSettings().join_wait_s + 0.5)
    assert not bench.has_begun
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE in [answer.error_code for answer in bench.answers.values()]


def test_it_does_not_wait_if_no_client_is_to_stay_classic() -> None:
    for policy in (TRANSLATE_ALL, by_steps("100%")):
        bench = Bench(policy=policy, new_group=False)
        line = bench.connect()
        bench.join(line, "")
        bench.join(line, M)
        bench.answer_lookups()
        bench.answer_lookups()
        assert bench.heartbeat_call().message.member_epoch == 0


def test_the_last_member_of_a_classic_group_does_not_wait_when_it_moves() -> None:
    """Nobody starts there: its clients have had a generation."""
    bench = Bench(policy=by_steps(1))
    bench.join(told(bench), "")
    bench.join(bench.connect(), M)
    bench.answer_lookups()
    assert bench.heartbeat_call().message.member_epoch == 0
