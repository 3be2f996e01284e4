"""Whether the next step of a move may begin: pause, approvals, windows of time, and the hook. The pure decisions."""

import datetime as dt
from typing import Any

import pytest
from msgspec.structs import replace

from translation.member_log.group_records import (
    MOST_HOOK_CALLS,
    GroupRecord,
    HookCall,
    Move,
    Phase,
    decode_group_value,
    encode_group_value,
)
from translation.moving.move_view import view_of
from translation.policy.policy import Approval, Mode, Rule
from translation.policy.windows import Window
from translation.rollout.hook import ANSWER_MS, asked_again_ms, vetoed
from translation.rollout.next_step import RolloutInputs, begin, decide
from translation.rollout.step_start import may_come_in, what_it_waits_for

NIGHT = (Window(from_="01:00", to="05:00"),)
OPEN_MS = int(dt.datetime(2026, 1, 5, 1, 0, tzinfo=dt.UTC).timestamp() * 1000)
CLOSED_MS = OPEN_MS - 1
REQUIRED = Approval.REQUIRED


def rule(**settings: Any) -> Rule:
    return Rule(group="g", mode=Mode.TRANSLATE, steps=(1, "50%", "100%"), hold_s=0, **settings)


SETTLED = replace(begin(rule(), 7, 1), settled_ms=1)


@pytest.mark.parametrize(
    ("settings", "asks", "expected"),
    [
        ({}, "", Phase.MOVING),
        ({"pause": True}, "", Phase.AWAITING),
        ({"windows": NIGHT}, "", Phase.AWAITING),
        ({"approval": REQUIRED}, "", Phase.AWAITING),
        ({}, "me", Phase.AWAITING),
    ],
)
def test_a_first_step_that_may_have_to_wait_is_awaited(
    settings: dict[str, Any], asks: str, expected: Phase
) -> None:
    assert begin(rule(**settings), 7, 1, hook_owner=asks).phase == expected


def test_a_group_that_moves_as_a_whole_waits_for_nothing() -> None:
    whole = Rule(group="g", mode=Mode.TRANSLATE, steps=("100%",))
    assert begin(whole, 7, 1, hook_owner="me").phase == Phase.MOVING


@pytest.mark.parametrize(
    ("settings", "approved", "now_ms", "begins"),
    [
        ({}, 0, CLOSED_MS, True),
        ({"pause": True}, 0, OPEN_MS, False),
        ({"windows": NIGHT}, 0, OPEN_MS, True),
        ({"windows": NIGHT}, 0, CLOSED_MS, False),
        ({"approval": REQUIRED}, 0, OPEN_MS, False),
        ({"approval": REQUIRED}, 1, OPEN_MS, False),
        ({"approval": REQUIRED}, 2, OPEN_MS, True),
        ({"approval": REQUIRED, "approve": 1}, 0, OPEN_MS, False),
        ({"approval": REQUIRED, "approve": 2}, 0, OPEN_MS, True),
        ({"approval": REQUIRED, "windows": NIGHT}, 2, CLOSED_MS, False),
    ],
)
def test_the_second_step_begins_only_if_nothing_stands_against_it(
    settings: dict[str, Any], approved: int, now_ms: int, *, begins: bool
) -> None:
    after = decide(replace(SETTLED, approved=approved), rule(**settings), RolloutInputs(now_ms=now_ms))
    assert (after.step == 1) is begins


@pytest.mark.parametrize(("approved", "by_policy", "begins"), [(0, 0, False), (1, 0, True), (0, 1, True)])
def test_the_first_step_needs_an_approval_too(approved: int, by_policy: int, *, begins: bool) -> None:
    waiting = rule(approval=REQUIRED, approve=by_policy)
    awaited = replace(begin(waiting, 7, 1), approved=approved)
    assert (decide(awaited, waiting, RolloutInputs(now_ms=2)).phase == Phase.MOVING) is begins


def test_what_has_begun_goes_on_without_an_approval() -> None:
    """A policy that comes to require approvals calls no step back."""
    moving = begin(rule(), 7, 1)
    assert decide(moving, rule(approval=REQUIRED), RolloutInputs(now_ms=2, filled=True)).settled_ms == 2


@pytest.mark.parametrize("settings", [{"pause": True}, {"windows": NIGHT}, {"approval": REQUIRED}])
def test_harm_and_a_downgrade_wait_for_nobody(settings: dict[str, Any]) -> None:
    inputs = RolloutInputs(now_ms=CLOSED_MS, harm="lag grows")
    assert decide(SETTLED, rule(**settings), inputs).phase == Phase.ABORTED
    inputs = RolloutInputs(now_ms=CLOSED_MS, downgraded=True)
    assert decide(SETTLED, rule(**settings), inputs).phase == Phase.HELD


@pytest.mark.parametrize(
    ("settings", "settled_ms", "now_ms", "expected"),
    [
        ({}, 0, CLOSED_MS, True),
        ({"pause": True}, 1, OPEN_MS, False),
        ({"windows": NIGHT}, 0, OPEN_MS, True),
        ({"windows": NIGHT}, 0, CLOSED_MS, False),
        ({"windows": NIGHT}, 1, CLOSED_MS, True),  # it takes the place of one that was translated
    ],
)
def test_whether_a_newcomer_may_be_translated(
    settings: dict[str, Any], settled_ms: int, now_ms: int, *, expected: bool
) -> None:
    assert may_come_in(replace(SETTLED, settled_ms=settled_ms), rule(**settings), now_ms) is expected


# -- the hook ----------------------------------------------------------------------------------------------------------


def test_one_process_asks_and_the_step_begins_when_the_hook_agrees() -> None:
    asked = decide(SETTLED, rule(), RolloutInputs(now_ms=1_000, hook_owner="me"))
    assert asked == replace(SETTLED, hook=HookCall(step=1, by="me", asked_ms=1_000))
    assert decide(asked, rule(), RolloutInputs(now_ms=1_000 + ANSWER_MS - 1, hook_owner="other")) is asked
    other = decide(asked, rule(), RolloutInputs(now_ms=1_000 + ANSWER_MS, hook_owner="other"))
    assert other.hook == HookCall(step=1, by="other", asked_ms=1_000 + ANSWER_MS, tries=2)
    begun = decide(asked, rule(), RolloutInputs(now_ms=2_000, hook_owner="me", hook_approved_step=1))
    assert (begun.step, begun.hook) == (1, None)


def test_what_the_hook_said_about_another_step_does_not_count() -> None:
    assert (
        decide(SETTLED, rule(), RolloutInputs(now_ms=1_000, hook_owner="me", hook_approved_step=0)).step == 0
    )


def test_the_hook_is_not_asked_before_everything_else_agrees() -> None:
    waiting = rule(approval=REQUIRED)
    assert decide(SETTLED, waiting, RolloutInputs(now_ms=1_000, hook_owner="me")) is SETTLED


def test_what_the_hook_has_agreed_to_begins_only_in_a_window_all_the_same() -> None:
    inputs = RolloutInputs(now_ms=CLOSED_MS, hook_owner="me", hook_approved_step=1)
    assert decide(SETTLED, rule(windows=NIGHT), inputs) is SETTLED


def test_what_is_counted_of_its_vetoes_is_a_record_that_all_read() -> None:
    call = HookCall(step=1, by="me", asked_ms=0, tries=MOST_HOOK_CALLS, why="no")
    again = decide(replace(SETTLED, hook=call), rule(), RolloutInputs(now_ms=10**9, hook_owner="me"))
    assert again.hook is not None
    assert again.hook.asked_ms == 10**9
    assert decode_group_value(encode_group_value(GroupRecord(1, move=again))).move == again


def test_after_a_veto_it_is_asked_again_later_each_time() -> None:
    call = HookCall(step=1, by="me", asked_ms=0)
    waits = [asked_again_ms(replace(call, tries=tries, why="no")) // 1000 for tries in (1, 2, 3, 6, 7, 999)]
    assert waits == [10, 20, 40, 320, 600, 600]
    move = vetoed(replace(SETTLED, hook=call), call, "full moon")
    assert decide(move, rule(), RolloutInputs(now_ms=9_999, hook_owner="me")) is move
    again = decide(move, rule(), RolloutInputs(now_ms=10_000, hook_owner="me"))
    assert again.hook == HookCall(step=1, by="me", asked_ms=10_000, tries=2)


def test_a_veto_that_comes_after_another_process_has_asked_does_not_count() -> None:
    other = replace(SETTLED, hook=HookCall(step=1, by="other", asked_ms=5))
    assert vetoed(other, HookCall(step=1, by="me", asked_ms=0), "no") is other


# -- what is shown -----------------------------------------------------------------------------------------------------

AWAITED = begin(rule(approval=REQUIRED), 7, 1)


@pytest.mark.parametrize(
    ("move", "settings", "now_ms", "expected"),
    [
        (AWAITED, {"approval": REQUIRED}, 1, "before step 1 of 3 (1); waits for an approval of step 1"),
        (SETTLED, {"approval": REQUIRED}, 1, "step 1 of 3 (1), settled; waits for an approval of step 2"),
        (SETTLED, {"pause": True}, 1, "step 1 of 3 (1), settled; paused by the policy"),
        (
            SETTLED,
            {"windows": NIGHT},
            CLOSED_MS,
            "step 1 of 3 (1), settled; waits for a window of time (mon-sun 01:00-05:00 UTC)",
        ),
        (SETTLED, {"windows": NIGHT}, OPEN_MS, "step 1 of 3 (1), settled"),
        (
            replace(SETTLED, settled_ms=0),
            {"windows": NIGHT},
            CLOSED_MS,
            "step 1 of 3 (1); waits for a window of time (mon-sun 01:00-05:00 UTC)",
        ),
        (replace(SETTLED, step=2), {"approval": REQUIRED}, 1, "step 3 of 3 (100%), settled"),
        (
            replace(SETTLED, hook=HookCall(step=1, by="", asked_ms=0, why="full moon")),
            {},
            1,
            "step 1 of 3 (1), settled; the hook does not let step 2 begin: full moon",
        ),
        (
            replace(SETTLED, hook=HookCall(step=1, by="", asked_ms=0)),
            {},
            1,
            "step 1 of 3 (1), settled; waiting for the hook's answer for step 2",
        ),
        (
            replace(SETTLED, phase=Phase.PAUSED, why="by uid 7"),
            {"approval": REQUIRED},
            1,
            "step 1 of 3 (1), paused: by uid 7",
        ),
    ],
)
def test_what_a_move_waits_for(move: Move, settings: dict[str, Any], now_ms: int, expected: str) -> None:
    assert view_of(move, rule(**settings), now_ms, "p").text == expected


def test_an_approval_that_is_missing_is_shown_while_the_step_is_still_held() -> None:
    held = Rule(group="g", mode=Mode.TRANSLATE, steps=(1, 2), hold_s=60, approval=REQUIRED)
    view = view_of(SETTLED, held, 2, "p")
    assert (view.waits, view.next_step) == ("waits for an approval of step 2", 2)
    assert what_it_waits_for(SETTLED, held, 1, 2) == view.waits


@pytest.mark.parametrize(
    ("move", "settings", "expected"),
    [
        (SETTLED, {}, Phase.MOVING),
        (SETTLED, {"approval": REQUIRED}, "to_approve"),
        (replace(SETTLED, step=2), {}, "settled"),
        (replace(SETTLED, step=2, settled_ms=None), {}, Phase.MOVING),
        (replace(SETTLED, step=2, phase=Phase.ABORTED), {}, Phase.ABORTED),
    ],
)
def test_a_move_is_counted_by_what_it_waits_for(move: Move, settings: dict[str, Any], expected: str) -> None:
    assert view_of(move, rule(**settings), 2, "p").counted_as == expected
