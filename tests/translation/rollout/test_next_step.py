"""How a move by steps goes on, by what was found out: the pure decision."""

from typing import Any

import pytest
from msgspec.structs import replace

from translation.member_log.group_records import Move, Phase
from translation.moving.move_view import view_of
from translation.policy.policy import Mode, Rule
from translation.rollout.next_step import RolloutInputs, begin, decide, describe

RULE = Rule(group="g", mode=Mode.TRANSLATE, steps=(1, "50%", "100%"), hold_s=60)
FIRST = begin(RULE, number=7, now_ms=1_000)


def test_a_move_begins_at_its_first_step() -> None:
    assert Move(steps="1, 50%, 100%", number=7, since_ms=1_000) == FIRST
    assert describe(FIRST, RULE) == "step 1 of 3 (1)"


def test_a_step_that_is_not_filled_goes_on_for_ever() -> None:
    assert decide(FIRST, RULE, RolloutInputs(now_ms=10**12)) is FIRST


def test_a_step_settles_once_and_is_held_from_then_on() -> None:
    settled = decide(FIRST, RULE, RolloutInputs(now_ms=5_000, filled=True))
    assert settled == replace(FIRST, settled_ms=5_000)
    assert describe(settled, RULE) == "step 1 of 3 (1), settled"
    assert decide(settled, RULE, RolloutInputs(now_ms=64_999)) is settled
    assert decide(settled, RULE, RolloutInputs(now_ms=65_000)) == replace(
        FIRST, step=1, since_ms=65_000, settled_ms=0
    )


def test_a_step_that_loses_members_again_stays_settled() -> None:
    settled = replace(FIRST, settled_ms=5_000)
    assert decide(settled, RULE, RolloutInputs(now_ms=6_000, filled=False)) is settled


def test_the_last_step_is_held_for_good() -> None:
    last = replace(FIRST, step=2, settled_ms=5_000)
    assert decide(last, RULE, RolloutInputs(now_ms=10**12, filled=True)) is last


def test_a_group_that_the_broker_made_a_classic_one_is_held() -> None:
    held = decide(
        replace(FIRST, settled_ms=1), RULE, RolloutInputs(now_ms=10**9, filled=True, downgraded=True)
    )
    assert (held.phase, held.step) == (Phase.HELD, 0)
    assert describe(held, RULE) == (
        "step 1 of 3 (1), held: its last translated member has left, so the broker made it a classic group"
    )


def test_harm_aborts_before_anything_else() -> None:
    aborted = decide(FIRST, RULE, RolloutInputs(now_ms=2_000, filled=True, downgraded=True, harm="lag grows"))
    assert (aborted.phase, aborted.why, aborted.since_ms) == (Phase.ABORTED, "lag grows", 2_000)


@pytest.mark.parametrize("phase", [Phase.HELD, Phase.ABORTED, Phase.OVER, "paused by a later release"])
def test_what_does_not_move_stays_as_it_is(phase: str) -> None:
    move = replace(FIRST, phase=phase, settled_ms=1)
    assert decide(move, RULE, RolloutInputs(now_ms=10**12, filled=True, downgraded=True, harm="x")) is move


PROVEN = replace(RULE, proof_s=60)


def test_a_step_that_is_not_proven_is_held_and_says_why() -> None:
    settled = replace(FIRST, settled_ms=5_000)
    waits = RolloutInputs(now_ms=10**12, filled=True, missing_proof="no replica verifies it")
    assert decide(settled, PROVEN, waits) is settled
    assert view_of(settled, PROVEN, 0, "", unproven=waits.missing_proof).text == (
        "step 1 of 3 (1), settled; not proven: no replica verifies it"
    )
    assert decide(settled, PROVEN, replace(waits, missing_proof="")).step == 1


def test_somebody_may_let_it_go_on_and_that_is_recorded_until_the_next_step() -> None:
    settled = replace(FIRST, settled_ms=5_000)
    override = replace(PROVEN, unproven_override="INC-7, Anna")
    waits = RolloutInputs(now_ms=65_000, filled=True, missing_proof="no replica verifies it")
    second = decide(settled, override, waits)
    assert (second.step, second.unproven) == (1, "INC-7, Anna")
    assert describe(second, override) == "step 2 of 3 (50%), begun unproven (INC-7, Anna)"
    third = decide(replace(second, settled_ms=70_000), override, RolloutInputs(now_ms=10**9, filled=True))
    assert (third.step, third.unproven) == (2, "")


def test_an_override_does_not_shorten_the_hold() -> None:
    settled = replace(FIRST, settled_ms=5_000)
    override = replace(PROVEN, unproven_override="INC-7, Anna")
    assert decide(settled, override, RolloutInputs(now_ms=64_999, missing_proof="x")) is settled


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"proof_s": 60}, "`proof_s` is about `steps`"),
        ({"steps": (1,), "unproven_override": "Anna"}, "`unproven_override` is about `proof_s`"),
    ],
)
def test_keys_that_would_do_nothing_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Rule(group="g", mode=Mode.TRANSLATE, **more)
