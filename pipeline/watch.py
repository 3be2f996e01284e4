"""Progress bars for Spark's work: how many tasks of the running stages are done."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S = 0.3


def console() -> Console:
    """Where progress goes: standard error, so that what a command prints can be piped."""
    return Console(file=sys.stderr, highlight=False)


@contextlib.contextmanager
def step(spark: "SparkSession", text: str) -> Iterator[None]:
    """Show ``text`` with the tasks of what Spark does inside; off a terminal only the text and the time."""
    where = console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=where) as bar:
        shown = bar.add_task(text, total=None)
        done = threading.Event()

        def look() -> None:
            finished: dict[int, tuple[int, int]] = {}
            tracker = spark.sparkContext.statusTracker()
            while not done.wait(_LOOK_S):
                for stage in tracker.getActiveStageIds():
                    about = tracker.getStageInfo(stage)
                    if about is not None:
                        finished[stage] = (about.numCompletedTasks, about.numTasks)
                bar.update(
                    shown,
                    completed=sum(tasks for tasks, _ in finished.values()),
                    total=sum(tasks for _, tasks in finished.values()) or None,
                )

        watcher = threading.Thread(target=look, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            known = bar.tasks[0].total
            bar.update(shown, total=known or 1, completed=known or 1)
