"""What the demo shows of what clients and brokers say."""

import io

from rich.console import Console

from proxy.demo.display_model import DisplayModel
from proxy.demo.plain_view import PlainView


def test_a_line_can_not_command_the_terminal() -> None:
    out = io.StringIO()
    display = DisplayModel("a broker", 1, PlainView(Console(file=out)))
    display.log("Epochgate: \x1b[2J\r\n\u202e left")
    assert "Epochgate: \\x1b[2J\\r\\n\\u202e left\n" in out.getvalue()
