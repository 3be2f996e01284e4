"""What the demo shows of what clients and brokers say."""

import io

from rich.console import Console

from proxy.demo.display_model import Stage
from proxy.demo.plain_view import PlainView


def test_a_line_can_not_command_the_terminal() -> None:
    out = io.StringIO()
    stage = Stage("a broker", 1, PlainView(Console(file=out)))
    stage.say("Epochgate: \x1b[2J\r\n\u202e left")
    assert "Epochgate: \\x1b[2J\\r\\n\\u202e left\n" in out.getvalue()
