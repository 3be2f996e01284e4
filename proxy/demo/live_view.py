"""The demo as one screen that is drawn again several times a second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from proxy.demo.group import Consumer, DemoGroup, Presence
from proxy.demo.members import MemberBoard
from proxy.demo.records import ranges
from proxy.demo.stage import Line, Stage

_LINES_SHOWN = 8
_WIDE = 110
_NS_PER_S = 1e9
_STYLES = {
    Presence.JOINING: "yellow",
    Presence.READING: "green",
    Presence.STOPPED: "bold red",
    Presence.LEAVING: "yellow",
    Presence.LEFT: "dim",
    Presence.KILLED: "dim red",
}


class LiveView:
    """Draws the stage."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    @contextmanager
    def showing(self, stage: Stage) -> Iterator[None]:
        """Take the terminal over until the end."""
        with self._live:
            self.refresh(stage)
            yield
            self.refresh(stage)

    def step_began(self, stage: Stage) -> None:
        """Draw at once."""
        self.refresh(stage)

    def said(self, _line: Line) -> None:
        """The next drawing shows it."""

    def refresh(self, stage: Stage) -> None:
        """Draw."""
        self._live.update(self._drawn(stage), refresh=True)

    def _drawn(self, stage: Stage) -> RenderableType:
        width = self._console.width
        tables = [_group_table(group, stage.boards.get(group.group_id)) for group in stage.groups]
        side_by_side = width >= _WIDE
        for table in tables:
            table.width = width // 2 - 1 if side_by_side else width
        return Group(
            _heading(stage),
            Columns(tables, padding=(0, 1)) if side_by_side else Group(*tables),
            _records(stage),
            _happenings(stage),
        )


def _heading(stage: Stage) -> Panel:
    text = Text()
    text.append(f"Step {stage.step_number} of {stage.steps_in_all}: ", style="bold")
    text.append(f"{stage.step.heading}\n", style="bold cyan")
    text.append(stage.step.explanation)
    title = f"Epochgate demo on {stage.source}, {stage.elapsed_s:.0f} s"
    return Panel(text, title=title, title_align="left", border_style="cyan")


def _group_table(group: DemoGroup, board: MemberBoard | None) -> Table:
    way = "straight to the brokers" if board is None else "through the proxy"
    table = Table(title=f"{group.title}: {way}", title_style="bold")
    table.add_column("consumer", no_wrap=True)
    table.add_column("does", no_wrap=True)
    if board is not None:
        table.add_column("member state", no_wrap=True)
        table.add_column("generation", justify="right")
        table.add_column("epoch", justify="right")
    table.add_column("partitions", no_wrap=True)
    for consumer in group.consumers.values():
        cells = [consumer.name, _presence(consumer)]
        if board is not None:
            member = board.of(consumer.name)
            cells += (
                ["", "", ""]
                if member is None
                else [member.state, _number(member.generation), _number(member.epoch)]
            )
        table.add_row(*cells, ranges(group.history.held_by(consumer.name)))
    return table


def _presence(consumer: Consumer) -> str:
    style = _STYLES[consumer.presence]
    if consumer.presence is Presence.STOPPED:
        seconds = (time.monotonic_ns() - consumer.since_ns) / _NS_PER_S
        return f"[{style}]stopped {seconds:.1f} s[/]"
    return f"[{style}]{consumer.presence}[/]"


def _number(number: int) -> str:
    return str(number) if number >= 0 else ""


def _records(stage: Stage) -> Text:
    produced = stage.produced()
    text = Text(f"records produced: {produced}")
    for group in stage.groups:
        behind = max(produced - group.records.distinct, 0)
        text.append(f"   {group.title} has read {group.records.distinct}")
        if behind:
            text.append(f" ({behind} to go)", style="yellow")
    return text


def _happenings(stage: Stage) -> Panel:
    shown = list(stage.lines)[-_LINES_SHOWN:]
    text = Text("\n".join(f"{line.at_s:6.1f} s  {line.text}" for line in shown), no_wrap=True, overflow="ellipsis")
    return Panel(text, title="what happened", title_align="left", height=_LINES_SHOWN + 2, border_style="dim")
