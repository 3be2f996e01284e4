"""The steps of a rule: what may be written, and how many members each allows."""

import pytest

from translation.policy.policy import Mode, Rule
from translation.policy.steps import Step, parse_steps, text_of


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
