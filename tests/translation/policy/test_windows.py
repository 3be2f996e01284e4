"""Windows of time of a rule: when they are open, also when clocks are put forward and back, and which are refused."""

import datetime as dt

import msgspec
import pytest

from translation.policy.policy import Mode, Rule
from translation.policy.windows import Window, is_open, text_of

WORK = Window(days="mon-fri", from_="09:00", to="16:00", timezone="Europe/Berlin")


def ms(text: str) -> int:
    """Milliseconds since 1970 of a time in UTC."""
    return int(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "at", "expected"),
    [
        (WORK, "2026-01-05T08:00", True),  # a Monday in winter, 09:00 in Berlin
        (WORK, "2026-01-05T07:59:59.999", False),
        (WORK, "2026-01-05T14:59:59.999", True),
        (WORK, "2026-01-05T15:00", False),
        (WORK, "2026-07-06T07:00", True),  # and one in summer
        (WORK, "2026-07-06T14:00", False),
        (WORK, "2026-01-03T10:00", False),  # Saturday
        (Window(), "2026-01-03T23:59:59", True),
        (Window(days="fri-mon"), "2026-01-04T12:00", True),  # Sunday
        (Window(days="fri-mon"), "2026-01-06T12:00", False),  # Tuesday
        (Window(days="Sat, sun"), "2026-01-04T12:00", True),
        # Sunday already in Auckland, Saturday still in UTC.
        (Window(days="sun", to="02:00", timezone="Pacific/Auckland"), "2026-01-03T12:00", True),
        # Clocks in Berlin are put forward on 2026-03-29 at 01:00 UTC, from 02:00 to 03:00.
        (Window(from_="02:00", to="03:00", timezone="Europe/Berlin"), "2026-03-29T00:59:59", False),
        (Window(from_="02:00", to="03:00", timezone="Europe/Berlin"), "2026-03-29T01:00", False),
        (Window(from_="01:30", to="03:30", timezone="Europe/Berlin"), "2026-03-29T01:00", True),
        # And back on 2026-10-25 at 01:00 UTC, from 03:00 to 02:00.
        (Window(from_="02:00", to="03:00", timezone="Europe/Berlin"), "2026-10-25T00:30", True),
        (Window(from_="02:00", to="03:00", timezone="Europe/Berlin"), "2026-10-25T01:30", True),
        (Window(from_="02:00", to="03:00", timezone="Europe/Berlin"), "2026-10-25T02:00", False),
    ],
)
def test_when_it_is_open(window: Window, at: str, *, expected: bool) -> None:
    assert window.is_open(ms(at)) is expected


def test_one_of_several_is_enough_and_without_any_it_is_always_open() -> None:
    night = (Window(days="mon", from_="22:00"), Window(days="tue", to="04:00"))
    assert is_open(night, ms("2026-01-05T23:00"))
    assert is_open(night, ms("2026-01-06T03:59"))
    assert not is_open(night, ms("2026-01-06T22:30"))
    assert is_open((), 0)
    assert text_of(night) == "mon 22:00-24:00 UTC, tue 00:00-04:00 UTC"


@pytest.mark.parametrize("at_ms", [-(10**18), 10**18])
def test_a_time_that_no_clock_shows_is_in_no_window(at_ms: int) -> None:
    assert not Window().is_open(at_ms)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"timezone": "Europe/Atlantis"}, "unknown time zone 'Europe/Atlantis'"),
        ({"timezone": "../../../etc/passwd"}, "unknown time zone"),
        ({"timezone": "/etc/localtime"}, "unknown time zone"),
        ({"timezone": ""}, "unknown time zone"),
        ({"timezone": "Europe"}, "unknown time zone 'Europe'"),
        ({"from": "22:00", "to": "04:00"}, "one over midnight is two windows"),
        ({"from": "09:00", "to": "09:00"}, "`to` has to be later than `from`"),
        ({"from": "9:00"}, "`from` of a window is a time such as 09:00, not '9:00'"),
        ({"to": "24:01"}, "`to` of a window is a time"),
        ({"from": "24:00"}, "`from` of a window is a time"),
        ({"from": "\u0660\u0669:\u0660\u0660"}, "`from` of a window is a time"),
        ({"days": "monday"}, "`days` of a window are such as mon-fri"),
        ({"days": ""}, "`days` of a window are such as"),
        ({"days": "mon-"}, "`days` of a window are such as"),
        ({"day": "mon"}, "unknown field `day`"),
    ],
)
def test_what_is_refused(written: dict[str, str], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem.replace("(", r"\(")):
        msgspec.convert(written, Window)


@pytest.mark.parametrize(
    ("key", "value"),
    [("windows", (WORK,)), ("pause", True), ("approval", "required")],
)
def test_what_limits_steps_needs_steps_that_can_be_limited(key: str, value: object) -> None:
    rule = {"group": "g", "mode": "translate", key: value}
    with pytest.raises(msgspec.ValidationError, match=f"`{key}` is about `steps`, and the rule has none"):
        msgspec.convert(msgspec.to_builtins(rule), Rule)
    with pytest.raises(msgspec.ValidationError, match=f"`{key}`: a group whose only step is 100%"):
        msgspec.convert(msgspec.to_builtins(rule | {"steps": ["100%"]}), Rule)
    assert msgspec.convert(msgspec.to_builtins(rule | {"steps": [1]}), Rule).mode is Mode.TRANSLATE


def test_a_step_is_approved_by_the_policy_only_where_approvals_are_required() -> None:
    with pytest.raises(ValueError, match="`approve` needs `approval: required`"):
        Rule(group="g", mode=Mode.TRANSLATE, steps=(1,), approve=1)
