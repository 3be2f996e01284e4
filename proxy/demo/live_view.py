"""Shows the demo as one screen that is redrawn several times a second."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from proxy.demo.display_model import DisplayModel, LogLine

_WIDE = 125
"""From this many columns on both groups fit side by side."""
_FEWEST_LINES, _MOST_LINES = 3, 12
_FRAME = 3
"""Lines around the log panel: its border, and the line of the cursor."""


class LiveView:
    """Draws the display model with rich."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    @contextmanager
    def showing(self, display: DisplayModel) -> Iterator[None]:
        """Take over the terminal until the context exits."""
        with self._live:
            yield
            self.refresh(display)

    def step_began(self, display: DisplayModel) -> None:
        """Redraw at once."""
        self.refresh(display)

    def settled(self, display: DisplayModel) -> None:
        """Redraw at once."""
        self.refresh(display)

    def line_added(self, _line: LogLine) -> None:
        """Nothing to do: the next redraw shows the line."""

    def refresh(self, display: DisplayModel) -> None:
        """Redraw."""
        self._live.update(self._rendered(display), refresh=True)

    def _rendered(self, display: DisplayModel) -> RenderableType:
        groups = display.tables()
        wide = self._console.width >= _WIDE
        above = Group(
            _heading(display), Columns(groups, padding=(0, 4)) if wide else Group(*groups), _records(display)
        )
        room = self._console.height - len(self._console.render_lines(above)) - _FRAME
        if room < _FEWEST_LINES:
            return above
        return Group(above, _log_panel(display, min(room, _MOST_LINES)))


def _heading(display: DisplayModel) -> Panel:
    text = Text()
    text.append(f"Step {display.step_number} of {display.steps_in_all}: ", style="bold")
    text.append(f"{display.step.heading}\n", style="bold cyan")
    text.append(display.step.explanation)
    title = f"Epochgate demo on {display.source}, {display.elapsed_s:.0f} s"
    return Panel(text, title=title, title_align="left", border_style="cyan")


def _records(display: DisplayModel) -> Text:
    produced = display.produced()
    text = Text(f"records produced: {produced}")
    for group in display.groups:
        behind = max(produced - group.done, 0)
        text.append(f"   {group.title} has read {group.records.distinct}")
        if behind:
            text.append(f" ({behind} to go)", style="yellow")
    return text


def _log_panel(display: DisplayModel, lines: int) -> Panel:
    shown = list(display.lines)[-lines:]
    text = Text(
        "\n".join(f"{line.at_s:6.1f} s  {line.text}" for line in shown), no_wrap=True, overflow="ellipsis"
    )
    return Panel(text, title="what happened", title_align="left", height=lines + 2, border_style="dim")
