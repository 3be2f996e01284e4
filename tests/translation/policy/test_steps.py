"""The steps of a rule: what may be written, and how many members each allows."""

import pytest

from translation.member_log.group_records import GroupRecord, Move, encode_group_value
from translation.policy.policy import Mode, Rule
from translation.policy.steps import MOST_MEMBERS, MOST_STEPS, Step, parse_steps, text_of


@pytest.mark.parametrize(
    ("step", "members", "quota"),
    [
        (3, 10, 3),
        (3, 1, 3),
        ("10%", 1, 1),
        ("10%", 10, 1),
        ("10%", 11, 2),
        ("10%", 0, 0),
        ("33.33%", 3, 1),
        ("33.34%", 3, 2),
        ("0.01%", 10_000, 1),
        ("100%", 7, 7),
    ],
)
def test_a_share_is_rounded_up(step: int | str, members: int, quota: int) -> None:
    assert parse_steps((step,))[0].quota(members) == quota


def test_steps_are_read_and_written_as_people_write_them() -> None:
    steps = parse_steps((1, 5, "2.5%", "10%", "100%"))
    assert steps == (
        Step(members=1),
        Step(members=5),
        Step(share=250),
        Step(share=1_000),
        Step(share=10_000),
    )
    assert text_of(steps) == "1, 5, 2.50%, 10%, 100%"


@pytest.mark.parametrize(
    "written",
    [(), (0,), (-1,), (2, 2), (5, 1), ("10%", 1), ("0%",), ("100.01%",), ("10",), ("10 %",), ("x",)],
)
def test_steps_that_mean_nothing_or_do_not_rise_are_refused(written: tuple[int | str, ...]) -> None:
    with pytest.raises(ValueError, match="step"):
        parse_steps(written)


def test_only_a_group_that_is_translated_has_steps() -> None:
    with pytest.raises(ValueError, match="`mode` has to be `translate`"):
        Rule(group="g", mode=Mode.OBSERVE, steps=(1,))
    assert Rule(group="g", mode=Mode.TRANSLATE).staged == ()


def test_the_longest_steps_fit_in_the_record_of_a_move() -> None:
    longest = range(MOST_MEMBERS - MOST_STEPS + 1, MOST_MEMBERS + 1)
    assert encode_group_value(GroupRecord(1, move=Move(text_of(parse_steps(tuple(longest))))))
    with pytest.raises(ValueError, match="101 `steps`: 100 is the limit"):
        parse_steps(tuple(range(1, MOST_STEPS + 2)))
    with pytest.raises(ValueError, match="more than 1000000 members"):
        parse_steps((MOST_MEMBERS + 1,))
