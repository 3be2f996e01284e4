"""The demo as plain lines, for logs and for terminals that can't be drawn on."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from proxy.demo.display_model import Line, Stage
from proxy.demo.group_table import group_table

_PROGRESS_S = 5.0


class PlainView:
    """One line for each happening, and now and then one for the records."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress_at_s = _PROGRESS_S

    @contextmanager
    def showing(self, stage: Stage) -> Iterator[None]:
        """Nothing to set up."""
        self._print(f"Epochgate demo on {stage.source}")
        yield

    def step_began(self, stage: Stage) -> None:
        """A heading and what it means."""
        self._print("")
        self._print(f"== step {stage.step_number} of {stage.steps_in_all}: {stage.step.heading}")
        self._print(f"   {stage.step.explanation}")

    def settled(self, stage: Stage) -> None:
        """The groups as they are now."""
        for group in stage.groups:
            self._console.print(group_table(group, stage.boards.get(group.group_id)))

    def said(self, line: Line) -> None:
        """One line."""
        self._print(f"[{line.at_s:6.1f} s] {line.text}")

    def refresh(self, stage: Stage) -> None:
        """Say how far the records are, every few seconds."""
        if stage.elapsed_s >= self._progress_at_s:
            self._progress_at_s = stage.elapsed_s + _PROGRESS_S
            read = ", ".join(f"{group.title} has read {group.records.distinct}" for group in stage.groups)
            self.said(Line(stage.elapsed_s, f"{stage.produced()} records are produced; {read}"))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
