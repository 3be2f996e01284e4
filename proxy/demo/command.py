"""Runs ``epochgate demo``: chooses the view and the cluster, and returns the exit code."""

import io
import sys
from typing import TextIO, cast

import trio
from rich.console import Console

from protocol_codecs.printable import printable
from proxy.config.schema import Log
from proxy.demo.display_model import View
from proxy.demo.embedded import run_embedded
from proxy.demo.failure import DemoFailed
from proxy.demo.live_view import LiveView
from proxy.demo.plain_view import PlainView
from proxy.demo.plan import Plan
from proxy.demo.story import R, Story
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.log_setup import configure
from proxy.transport.dialer import UnreachableError

_NARROWEST = 100


def run_demo(story: Story[R], bootstrap: str | None, plan: Plan, *, plain: bool) -> ExitCode:
    """Run a story on a cluster, or on the embedded coordinator for None, and return the exit code."""
    console = Console()
    plain = plain or not console.is_terminal
    if plain:
        console.width = max(console.width, _NARROWEST)
    view: View = PlainView(console) if plain else LiveView(console)
    configure(Log(level="warning", format="console"), stream=cast("TextIO", _StandardError()))
    failed: list[str] = []
    interrupted = False
    result: R | None = None
    try:
        if bootstrap is None:
            result = trio.run(run_embedded, story.run, plan, view)
        else:
            result = trio.run(story.run, bootstrap, f"Kafka at {bootstrap}", plan, view)
    except* (DemoFailed, UnreachableError) as failures:
        failed = _messages(failures)
    except* KeyboardInterrupt:
        interrupted = True
    if result is None:
        for message in failed:
            console.print(printable(f"FAILED: {message}", keep="\n"), style="bold red", markup=False)
        if interrupted:
            console.print("interrupted; all processes have been stopped")
        return ExitCode.INTERRUPTED if interrupted else ExitCode.FAILED
    for renderable in story.summary(result):
        console.print()
        console.print(renderable)
    return ExitCode.PROBLEM_FOUND if story.problems(result) else ExitCode.SUCCESS


class _StandardError(io.TextIOBase):
    """Writes to the present ``sys.stderr``, which the live screen replaces while it runs."""

    def write(self, text: str) -> int:
        """Write to the present ``sys.stderr``."""
        return sys.stderr.write(text)


def _messages(group: BaseExceptionGroup[Exception]) -> list[str]:
    """Return the messages of all exceptions in nested groups."""
    found: list[str] = []
    for error in group.exceptions:
        found += _messages(error) if isinstance(error, BaseExceptionGroup) else [str(error)]
    return found
