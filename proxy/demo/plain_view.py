"""Shows the demo as plain lines, for logs and for terminals without cursor control."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from proxy.demo.display_model import DisplayModel, LogLine

_PROGRESS_S = 5.0


class PlainView:
    """Prints each log line, and every few seconds how many records were read."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress_at_s = _PROGRESS_S

    @contextmanager
    def showing(self, display: DisplayModel) -> Iterator[None]:
        """Print the title."""
        self._print(f"Epochgate demo on {display.source}")
        yield

    def step_began(self, display: DisplayModel) -> None:
        """Print the heading and the explanation of the step."""
        self._print("")
        self._print(f"== step {display.step_number} of {display.steps_in_all}: {display.step.heading}")
        self._print(f"   {display.step.explanation}")

    def settled(self, display: DisplayModel) -> None:
        """Print the groups as tables."""
        for table in display.tables():
            self._console.print(table)

    def line_added(self, line: LogLine) -> None:
        """Print a log line."""
        self._print(f"[{line.at_s:6.1f} s] {line.text}")

    def refresh(self, display: DisplayModel) -> None:
        """Print how many records were produced and read, every few seconds."""
        if display.elapsed_s >= self._progress_at_s:
            self._progress_at_s = display.elapsed_s + _PROGRESS_S
            read = ", ".join(f"{group.title} has read {group.records.distinct}" for group in display.groups)
            self.line_added(LogLine(display.elapsed_s, f"{display.produced()} records produced; {read}"))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
