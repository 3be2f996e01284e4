"""A line that is nested deeply is none, however deep the stack is of whoever reads it."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from pipeline.rules.lines import Line, parse_line
from protocol_codecs.foreign import MOST_DEPTH

T = TypeVar("T")


def deep_in_the_stack(call: Callable[[], T], frames: int = 300) -> T:
    return call() if frames == 0 else deep_in_the_stack(call, frames - 1)


def line(field: str, levels: int) -> bytes:
    """An event in which a field has so many levels, the line's own among them."""
    inner = levels - 3
    return (
        b'{"v": 1, "seq": 1, "time_us": 1, "replica": "r", "boot": "b", "kind": "assigned", "group": "g", '
        b'"member": "m", "%s": [{"topic": "orders", "x": %s%s}]}'
        % (field.encode(), b"[" * inner, b"]" * inner)
    )


@pytest.mark.parametrize("field", ["owned", "commits", "of a later version"])
def test_the_depth_of_a_line_has_a_bound_that_no_stack_changes(field: str) -> None:
    for read in (lambda line: line(), deep_in_the_stack):
        assert isinstance(read(lambda: parse_line(line(field, MOST_DEPTH))), Line)
        assert read(lambda: parse_line(line(field, MOST_DEPTH + 1))) == "not JSON"
        assert read(lambda: parse_line(line(field, 800))) == "not JSON"
