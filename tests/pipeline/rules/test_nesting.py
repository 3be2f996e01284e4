"""A line that is nested deeply is a line with a mistake, however deep the stack is of whoever reads it."""

from collections.abc import Callable
from typing import Any, TypeVar

from pipeline.rules.commits import Commits
from pipeline.rules.events import Event
from pipeline.rules.findings import BadSnapshot
from pipeline.rules.lines import Line, parse_line
from pipeline.rules.ownership import GroupOwnership

T = TypeVar("T")
LEVELS = 800
"""So many levels a line may have that is read with little on the stack."""


def deep_in_the_stack(call: Callable[[], T], frames: int = 300) -> T:
    return call() if frames == 0 else deep_in_the_stack(call, frames - 1)


def nested(**fields: Any) -> bytes:
    values = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    return f'[{{"topic": "orders", "x": {"[" * LEVELS}{"]" * LEVELS}, {values}}}]'.encode()


def line(**fields: bytes) -> Line:
    parts = b", ".join(b'"%s": %s' % (name.encode(), value) for name, value in fields.items())
    parsed = parse_line(
        b'{"v": 1, "seq": 1, "time_us": 1, "replica": "r", "boot": "b", "kind": "assigned", "group": "g", '
        b'"member": "m", "protocol": "translated", "generation": 1, ' + parts + b"}"
    )
    assert isinstance(parsed, Line)
    return parsed


def test_partitions_that_are_nested_deeply_are_a_finding() -> None:
    owned = line(owned=nested(partitions="[0]")).owned
    event = Event(1, "r", "b", 1, "assigned", "m", None, "translated", 1, owned)
    found = deep_in_the_stack(lambda: GroupOwnership({}, 0).take(event))
    assert [type(one) for one in found] == [BadSnapshot]


def test_commits_that_are_nested_deeply_match_no_schema() -> None:
    event = line(commits=nested(partitions="[0]", offsets="[1]", before="[0]"))
    assert not deep_in_the_stack(lambda: Commits(0).take(event))
