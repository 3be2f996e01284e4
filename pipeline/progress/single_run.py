"""Locks a folder for one run at a time, because two runs would overwrite each other's tables."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.watch import console

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

PATIENCE_S = 120.0
_LOOK_S = 0.2


@contextlib.contextmanager
def single_run(spark: "SparkSession", folder: str, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Lock ``folder`` against other runs, after waiting for a run that is about to end.

    The lock is held by the JVM, not by this process: when a command is killed, its JVM notices a little later and keeps
    writing until then. Raises PipelineError if the other run has not ended after ``patience_s``.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    java = spark.sparkContext._jvm  # noqa: SLF001 - PySpark's way to what only the JVM can do
    if java is None:
        raise PipelineError("progress needs a Spark driver of its own, not Spark Connect")
    file = java.java.io.RandomAccessFile(f"{folder}/_lock", "rw")
    try:
        _wait_for(file.getChannel(), folder, patience_s)
        yield
    finally:
        file.close()  # gives the lock back


def _wait_for(channel: "JavaObject", folder: str, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    told = False
    while channel.tryLock() is None:
        if not told:
            console().print(f"another run writes to {folder}: waiting for its end")
            told = True
        if time.monotonic() > deadline:
            raise PipelineError(f"another run writes to {folder}: end it, or choose another folder")
        time.sleep(_LOOK_S)
