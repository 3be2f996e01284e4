"""The demo as one screen that is drawn again several times a second."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from proxy.demo.display_model import Line, Stage
from proxy.demo.group_table import group_table

_WIDE = 125
"""Columns from which both groups fit side by side."""
_FEWEST_LINES, _MOST_LINES = 3, 12
_FRAME = 3
"""Lines around the happenings: the border, and the one below which the cursor stands."""


class LiveView:
    """Draws the stage."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    @contextmanager
    def showing(self, stage: Stage) -> Iterator[None]:
        """Take the terminal over until the end."""
        with self._live:
            yield
            self.refresh(stage)

    def step_began(self, stage: Stage) -> None:
        """Draw at once."""
        self.refresh(stage)

    def settled(self, stage: Stage) -> None:
        """Draw at once."""
        self.refresh(stage)

    def said(self, _line: Line) -> None:
        """The next drawing shows it."""

    def refresh(self, stage: Stage) -> None:
        """Draw."""
        self._live.update(self._drawn(stage), refresh=True)

    def _drawn(self, stage: Stage) -> RenderableType:
        groups = [group_table(group, stage.boards.get(group.group_id)) for group in stage.groups]
        wide = self._console.width >= _WIDE
        above = Group(
            _heading(stage), Columns(groups, padding=(0, 4)) if wide else Group(*groups), _records(stage)
        )
        room = self._console.height - len(self._console.render_lines(above)) - _FRAME
        if room < _FEWEST_LINES:
            return above
        return Group(above, _happenings(stage, min(room, _MOST_LINES)))


def _heading(stage: Stage) -> Panel:
    text = Text()
    text.append(f"Step {stage.step_number} of {stage.steps_in_all}: ", style="bold")
    text.append(f"{stage.step.heading}\n", style="bold cyan")
    text.append(stage.step.explanation)
    title = f"Epochgate demo on {stage.source}, {stage.elapsed_s:.0f} s"
    return Panel(text, title=title, title_align="left", border_style="cyan")


def _records(stage: Stage) -> Text:
    produced = stage.produced()
    text = Text(f"records produced: {produced}")
    for group in stage.groups:
        behind = max(produced - group.records.distinct, 0)
        text.append(f"   {group.title} has read {group.records.distinct}")
        if behind:
            text.append(f" ({behind} to go)", style="yellow")
    return text


def _happenings(stage: Stage, lines: int) -> Panel:
    shown = list(stage.lines)[-lines:]
    text = Text(
        "\n".join(f"{line.at_s:6.1f} s  {line.text}" for line in shown), no_wrap=True, overflow="ellipsis"
    )
    return Panel(text, title="what happened", title_align="left", height=lines + 2, border_style="dim")
