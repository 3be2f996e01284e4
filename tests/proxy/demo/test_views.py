"""What the demo shows of what clients and brokers say."""

import io

from rich.console import Console

from proxy.demo.display_model import DisplayModel
from proxy.demo.group import DemoGroup
from proxy.demo.group_table import group_table
from proxy.demo.plain_view import PlainView


def test_a_line_can_not_command_the_terminal() -> None:
    out = io.StringIO()
    display = DisplayModel("a broker", 1, PlainView(Console(file=out)))
    display.log("Epochgate: \x1b[2J\r\n\u202e left")
    assert "Epochgate: \\x1b[2J\\r\\n\\u202e left\n" in out.getvalue()


def test_of_those_that_have_gone_a_group_shows_only_the_last() -> None:
    group = DemoGroup("Classic", "g", 1, lambda _line: None)
    for name in ("first", "second", "third"):
        group.started(name, 0)
    for name in ("first", "second"):
        group.killed(name, 1)
    console = Console(file=(out := io.StringIO()), width=80)
    console.print(group_table(group, None))
    assert "first" not in out.getvalue()
    assert "second" in out.getvalue()
    assert "third" in out.getvalue()
