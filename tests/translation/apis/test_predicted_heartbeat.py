"""A predicted Heartbeat takes a shorter way to the same result.

Each history runs twice, with predictions and without, and both have to be the same to the last call, answer, event and
deadline. ``tests/simulation/test_predicted_heartbeat.py`` does that with random histories.
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.metadata import MetadataResponse
from tests.translation.bench import GROUP, TRANSLATE_ALL, Bench
from translation.actions import Action, Call, Request, RequestId
from translation.policy.policy import Mode, Policy, Rule
from translation.routing import call_routing
from translation.settings import TranslatorSettings

A, B = "epochgate-a", "epochgate-b"
LOADING = ConsumerGroupDescribeResponse(
    groups=(
        ConsumerGroupDescribeResponseDescribedGroup(
            group_id=GROUP, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ),
    )
)
OBSERVE_ALL = Policy(rules=(Rule(pattern=".*", mode=Mode.OBSERVE),))

Script = Callable[[Bench], None]


class _Recording(Bench):
    """A bench that remembers all that was to be done."""

    def __init__(self, settings: TranslatorSettings | None = None) -> None:
        self.done: list[Action | float] = []
        super().__init__(settings=settings)

    def _do(self, actions: list[Action]) -> None:
        self.done += [*actions, self.translator.next_deadline()]
        super()._do(actions)


def told(script: Script, settings: TranslatorSettings, *, short: bool) -> tuple[list[Any], int]:
    """All that was to be done in a history, and how many Heartbeats took the short way."""
    taken = 0
    is_predictable = call_routing.is_predictable

    def begins(*about: Any) -> bool:
        nonlocal taken
        at_rest = short and is_predictable(*about)
        taken += at_rest
        return at_rest

    with patch.object(call_routing, "is_predictable", begins):
        bench = _Recording(settings)
        script(bench)
    return bench.done, taken


def nothing_new(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    for _ in range(3):
        request = bench.heartbeat(connection, A, 1)
        bench.beat(1)
        assert bench.error(request) == ErrorCode.NONE
        bench.advance(3.0)
    bench.advance(60.0)  # and then it is silent


def the_assignment_once_more(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))


def another_assignment(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0,))
    assert bench.error(request) == ErrorCode.REBALANCE_IN_PROGRESS


def another_epoch(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(2)
    bench.heartbeat(connection, A, 1)
    assert bench.heartbeat_call().message.member_epoch == 2


def an_error(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)


def added_and_taken_away_before_the_client_heard_of_it(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1, 2))  # gathered
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    for _ in range(2):
        bench.heartbeat(connection, A, 1)
        bench.beat(1, orders=(0, 1))
    bench.advance(2.0)


def a_topic_whose_name_nobody_says(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    for answer in ({"orders": (0, 1), "refunds": (0,)}, {}):
        bench.heartbeat(connection, A, 1)
        bench.reply(bench.heartbeat_answer(1, **answer), bench.heartbeat_call())
        (asked,) = (call for call in bench.calls if call.api_key == ApiKey.METADATA)
        bench.reply(MetadataResponse(), asked)


def an_answer_is_lost(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0, 1))
    bench.heartbeat(first, A, 1)
    bench.upstream_lost(first)
    for _ in range(2):
        bench.heartbeat(second, A, 1)
        bench.beat(1, orders=(0, 1))


def its_membership_ends_while_it_waits_for_its_turn(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.advance(5.5)  # the heartbeat that keeps the broker's session
    waits = bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.error(waits) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not bench.calls


def another_generation(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), epoch=4)
    for generation in (3, 5):
        bench.heartbeat(connection, A, generation)


def on_another_connection(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0, 1))
    bench.client_disconnected(first)
    for _ in range(2):
        bench.heartbeat(second, A, 1)
        bench.beat(1, orders=(0, 1))
    bench.advance(60.0)


def there_and_back_again(bench: Bench) -> None:
    """It has to go back, and the policy changes once more before it does."""
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(connection, A, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    for _ in range(2):
        bench.heartbeat(connection, A, 1)
        bench.beat(1)
    assert not bench.translator._context.registry.group(GROUP).asked_to_rejoin


def another_has_its_instance_id(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0, 1), instance_id="i")
    bench.join(second, B, instance_id="i")
    bench.heartbeat(first, A, 1, instance_id="i")
    bench.beat(1, orders=(0, 1))
    bench.heartbeat(first, A, 1, instance_id="i")


def while_it_waits_in_join_group(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0, 1))
    bench.join(first, A, topics=("refunds",))
    bench.beat(1, orders=(0, 1))
    bench.heartbeat(second, A, 1)
    bench.beat(1)


def without_a_generation_while_its_first_join_group_waits(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.join(first, A)
    bench.beat(1)  # assigned nothing yet
    for _ in range(2):
        assert bench.error(bench.heartbeat(second, A, -1)) == ErrorCode.UNKNOWN_MEMBER_ID


def with_the_instance_id_of_another(bench: Bench) -> None:
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0,), instance_id="i")
    bench.stable_member(second, (1,), member_id=B, instance_id="j", epoch=2)
    bench.heartbeat(second, B, 2, instance_id="i")


def it_may_have_been_elsewhere_and_nobody_can_say(bench: Bench) -> None:
    first, second, third = (bench.connect() for _ in range(3))
    bench.stable_member(first, (0, 1))
    bench.heartbeat(second, A, 1)
    bench.beat(1, orders=(0, 1))
    bench.client_disconnected(second)
    for _ in range(2):
        bench.heartbeat(third, A, 1)
        bench.reply(LOADING, bench.calls[0])


def a_client_that_has_hung_up(bench: Bench) -> None:
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.hung_up.add(connection.id)
    bench.heartbeat(connection, A, 1)


SCRIPTS: list[Script] = [
    nothing_new,
    the_assignment_once_more,
    another_assignment,
    another_epoch,
    an_error,
    added_and_taken_away_before_the_client_heard_of_it,
    a_topic_whose_name_nobody_says,
    an_answer_is_lost,
    its_membership_ends_while_it_waits_for_its_turn,
    another_generation,
    on_another_connection,
    there_and_back_again,
    another_has_its_instance_id,
    while_it_waits_in_join_group,
    without_a_generation_while_its_first_join_group_waits,
    with_the_instance_id_of_another,
    it_may_have_been_elsewhere_and_nobody_can_say,
    a_client_that_has_hung_up,
]


ALONE = {an_answer_is_lost, its_membership_ends_while_it_waits_for_its_turn, on_another_connection}
"""One of several asks the broker who such a member is, before it says anything."""

ONE_OF_SEVERAL = {it_may_have_been_elsewhere_and_nobody_can_say}


@pytest.mark.parametrize(
    ("script", "sole_process"),
    [
        pytest.param(script, sole, id=f"{script.__name__}-{'alone' if sole else 'several'}")
        for script in SCRIPTS
        for sole in (True, False)
        if script not in (ONE_OF_SEVERAL if sole else ALONE)
    ],
)
def test_both_ways_are_one(script: Script, sole_process: bool) -> None:
    settings = TranslatorSettings(sole_process=sole_process, addition_debounce_s=0.5)
    short, _ = told(script, settings, short=True)
    long, _ = told(script, settings, short=False)
    assert short == long


@pytest.mark.parametrize("sole_process", [True, False], ids=["alone", "several"])
def test_the_short_way_is_taken(sole_process: bool) -> None:
    _, taken = told(nothing_new, TranslatorSettings(sole_process=sole_process), short=True)
    assert taken == 3


def test_a_heartbeat_and_its_answer_are_foreseen() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    message = HeartbeatRequest(GROUP, generation_id=1, member_id=A)
    heartbeat = Request(RequestId(100), connection, ApiKey.HEARTBEAT, 4, "app", message)
    prediction = bench.translator.predict(bench.now, heartbeat)
    assert prediction is not None
    (call,) = bench.translator.handle_request(bench.now, heartbeat)
    assert isinstance(call, Call)
    assert call.message is prediction.upstream_request
    assert prediction.answer_to(bench.heartbeat_answer(2)) is None
    answer = prediction.answer_to(bench.heartbeat_answer(1))
    assert bench.translator.handle_reply(bench.now, call.call_id, bench.heartbeat_answer(1)) == [answer]


def test_no_answer_is_foreseen_for_a_client_that_is_gone() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    message = HeartbeatRequest(GROUP, generation_id=1, member_id=A)
    heartbeat = Request(RequestId(100), connection, ApiKey.HEARTBEAT, 4, "app", message)
    prediction = bench.translator.predict(bench.now, heartbeat)
    assert prediction is not None
    bench.translator.handle_request(bench.now, heartbeat)
    bench.client_disconnected(connection)
    assert prediction.answer_to(bench.heartbeat_answer(1)) is None
