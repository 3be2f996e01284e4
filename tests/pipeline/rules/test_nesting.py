"""A line that is nested deeply is none for whoever reads it, however deep its stack is: audit and live proof agree."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from pipeline.rules.commits import Commits
from pipeline.rules.events import Event
from pipeline.rules.lines import Line, parse_line
from pipeline.rules.ownership import GroupOwnership
from protocol_codecs.foreign import MOST_DEPTH

T = TypeVar("T")
AROUND = 3
"""Levels of a line around what is nested in its partitions."""


def deep_in_the_stack(call: Callable[[], T], frames: int = 300) -> T:
    return call() if frames == 0 else deep_in_the_stack(call, frames - 1)


def line(levels: int) -> bytes:
    nested = f'"x": {"[" * (levels - AROUND)}{"]" * (levels - AROUND)}'
    owned = f'[{{"topic": "orders", "partitions": [0], {nested}}}]'
    commits = f'[{{"topic": "orders", "partitions": [0], "offsets": [1], "before": [0], {nested}}}]'
    return (
        '{"v": 1, "seq": 1, "time_us": 1, "replica": "r", "boot": "b", "kind": "assigned", "group": "g", '
        f'"member": "m", "protocol": "translated", "generation": 1, "owned": {owned}, "commits": {commits}}}'
    ).encode()


@pytest.mark.parametrize("levels", [MOST_DEPTH + 1, 100, 400, 600, 800, 900, 100_000])
def test_a_line_that_is_nested_too_deeply_is_none_on_every_stack(levels: int) -> None:
    for frames in (0, 300, 600):
        reason = deep_in_the_stack(lambda: parse_line(line(levels)), frames)
        assert reason == "nested too deeply, or not closed"


def test_whatever_is_a_line_can_be_taken_on_every_stack() -> None:
    event = deep_in_the_stack(lambda: parse_line(line(MOST_DEPTH)))
    assert isinstance(event, Line)
    taken = Event(1, "r", "b", 1, "assigned", "m", None, "translated", 1, event.owned)
    assert deep_in_the_stack(lambda: GroupOwnership({}, 0).take(taken)) == []
    assert deep_in_the_stack(lambda: Commits(0).take(event))
