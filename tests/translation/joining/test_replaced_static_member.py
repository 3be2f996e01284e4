"""A classic client takes the place of a translated member with its instance id that this process does not know."""

from typing import Any

import msgspec
import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.bench import KAFKA_4_3, NO_CONSUMER_GROUP, Bench
from tests.translation.live_groups import OBSERVE_ALL, A, B, described
from translation.actions import RequestId

ONE, TWO = "epochgate-one", "epochgate-two"
CLASSIC, NEW = 0, 1


def group(members: dict[str, tuple[int, int]], **instances: str) -> ConsumerGroupDescribeResponse:
    """A consumer group with these members (:func:`described`), some of which have an instance id."""
    (one,) = described(members).groups
    named = {member_id: instance_id for instance_id, member_id in instances.items()}
    static = tuple(
        msgspec.structs.replace(member, instance_id=named.get(member.member_id)) for member in one.members
    )
    return ConsumerGroupDescribeResponse(groups=(msgspec.structs.replace(one, members=static),))


BEHIND = group({ONE: (NEW, 5), A: (CLASSIC, 4)}, web=ONE)
"""The last member of the new protocol has the instance id; A has not come to the target assignment of epoch 5."""
SETTLED = group({ONE: (NEW, 5), A: (CLASSIC, 5)}, web=ONE)


class Restarted(Bench):
    """A process that knows nothing of a group that the policy no longer has translated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(OBSERVE_ALL, new_group=False, **options)
        self.line = self.connect()

    def asked(self) -> list[ApiKey]:
        return [ApiKey(call.api_key) for call in self.calls]

    def comes(self, instance_id: str = "web", member_id: str = "") -> RequestId:
        return self.join(self.connect(), member_id, instance_id=instance_id)


def test_it_waits_until_nobody_has_anything_to_give_up() -> None:
    bench = Restarted()
    join = bench.comes()
    bench.reply(BEHIND)
    assert (bench.calls, bench.forwarded) == ([], [])
    bench.advance(0.3)
    bench.reply(SETTLED)
    assert bench.asked() == [ApiKey.JOIN_GROUP]
    bench.reply(JoinGroupResponse(member_id="web-1", generation_id=5))
    assert bench.answers[join].member_id == "web-1"
    bench.advance(1.0)
    bench.reply(NO_CONSUMER_GROUP)  # the broker has made it a classic one
    assert bench.translator._context.registry.groups == {}


def test_so_does_the_translated_member_itself_under_its_own_id() -> None:
    bench = Restarted()
    bench.comes(member_id=ONE)
    bench.reply(BEHIND)
    assert bench.calls == []


@pytest.mark.parametrize(
    "answer",
    [
        NO_CONSUMER_GROUP,
        ConsumerGroupDescribeResponse(),
        group({ONE: (NEW, 5), A: (CLASSIC, 4)}, other=ONE),
        group({ONE: (NEW, 5), A: (CLASSIC, 4)}, web=A),
        group({"cGxhaW4tbmF0aXZlLWlkLQ": (NEW, 5), A: (CLASSIC, 4)}, web="cGxhaW4tbmF0aXZlLWlkLQ"),
        group({ONE: (NEW, 5), TWO: (NEW, 5), A: (CLASSIC, 4)}, web=ONE),
    ],
    ids=[
        "no consumer group",
        "no answer",
        "a new instance id",
        "that of a classic member",
        "that of a native member",
        "another member of the new protocol stays",
    ],
)
def test_it_does_not_wait(answer: ConsumerGroupDescribeResponse) -> None:
    bench = Restarted()
    bench.comes()
    bench.reply(answer)
    assert bench.asked() == [ApiKey.JOIN_GROUP]


def test_of_two_that_come_at_once_the_second_takes_the_place_of_the_last_one() -> None:
    bench = Restarted()
    both = group({ONE: (NEW, 5), TWO: (NEW, 5), A: (CLASSIC, 4)}, web=ONE, db=TWO)
    bench.comes("web")
    bench.comes("db")
    first, second = bench.calls
    bench.reply(both, first)
    bench.reply(both, second)
    assert bench.asked() == [ApiKey.JOIN_GROUP]


def test_what_the_broker_said_before_the_first_was_let_in_is_asked_anew() -> None:
    bench = Restarted()
    both = group({ONE: (NEW, 5), TWO: (NEW, 5), A: (CLASSIC, 4)}, web=ONE, db=TWO)
    bench.comes("web")
    bench.comes("db")
    first, second = bench.calls
    bench.reply(both, first)
    bench.reply(JoinGroupResponse(member_id="web-1", generation_id=5), bench.calls[-1])
    bench.reply(both, second)
    assert bench.asked() == []
    bench.advance(0.3)
    bench.reply(group({"web-1": (CLASSIC, 5), TWO: (NEW, 5), A: (CLASSIC, 4)}, web="web-1", db=TWO))
    assert bench.asked() == []


def test_a_client_that_has_waited_for_long_is_to_try_again() -> None:
    bench = Restarted()
    join = bench.comes()
    while join not in bench.answers:
        bench.reply(BEHIND)
        bench.advance(0.3)
    assert bench.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []
    assert bench.translator._context.registry.groups == {}


@pytest.mark.parametrize("member_id", [A, B])
def test_nobody_is_asked_about_a_client_that_has_the_id_of_a_classic_member(member_id: str) -> None:
    bench = Restarted()
    join = bench.comes(member_id=member_id)
    assert (bench.calls, bench.forwarded) == ([], [join])


def test_nobody_is_asked_about_a_client_without_an_instance_id_or_at_a_broker_without_types() -> None:
    bench = Restarted()
    join = bench.join(bench.line, "")
    assert (bench.calls, bench.forwarded) == ([], [join])
    bench = Restarted(versions={**KAFKA_4_3, ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0)})
    join = bench.comes()
    assert (bench.calls, bench.forwarded) == ([], [join])
