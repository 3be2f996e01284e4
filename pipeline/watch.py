"""Progress bars for Spark's work: how many tasks of the running stages are done.

Executors import this module with the jobs whose functions they run; rich is imported where the driver draws.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

_LOOK_S = 0.3


def console() -> "Console":
    """Return the console for progress: standard error, so that a command's output can be piped."""
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stderr, highlight=False)


@contextlib.contextmanager
def step(spark: "SparkSession", text: str) -> Iterator[None]:
    """Show ``text`` with the progress of the Spark tasks inside; without a terminal only the text and the time.

    Spark's UI and its event log tell the same text as the description of the jobs inside.
    """
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

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
        spark.sparkContext.setJobDescription(text)
        try:
            yield
        finally:
            spark.sparkContext.setJobDescription("")
            done.set()
            watcher.join()
            known = bar.tasks[0].total
            bar.update(shown, total=known or 1, completed=known or 1)
