"""Locks a folder for one run at a time, because two runs would overwrite each other's tables."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.lease import DEFAULT_TIMES, Lease, Times
from pipeline.location import Location
from pipeline.watch import console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = "_lock"
PATIENCE_S = 120.0
_LOOK_S = 0.2


@contextlib.contextmanager
def single_run(
    spark: "SparkSession", folder: Location, patience_s: float = PATIENCE_S, times: Times = DEFAULT_TIMES
) -> Iterator[Callable[[], None]]:
    """Lock ``folder`` against other runs, after waiting for a run that is about to end.

    Yields a function to call now and then: it raises PipelineError when another run has taken the folder meanwhile,
    which only a folder without real locks allows (see :mod:`pipeline.lease`; ``times`` are its). Raises
    PipelineError if the other run has not ended after ``patience_s``.
    """
    files = FileSystems(spark)
    files.make_folder(folder)
    if folder.local is None:
        lease = Lease(files, folder / LOCK, times)
        _wait_for(lease.try_take, folder, patience_s, times.look_s)
        with lease.renewed() as check:
            yield check
        return
    with _locked(spark, folder.local, folder, patience_s):
        yield _nothing


@contextlib.contextmanager
def _locked(spark: "SparkSession", path: Path, folder: Location, patience_s: float) -> Iterator[None]:
    """Hold a lock of the operating system.

    It is held by the JVM, not by this process: when a command is killed, its JVM notices a little later and keeps
    writing until then.
    """
    java = spark.sparkContext._jvm  # noqa: SLF001 - PySpark's way to what only the JVM can do
    if java is None:
        raise PipelineError("the pipeline needs a Spark driver of its own, not Spark Connect")
    file = java.java.io.RandomAccessFile(str(path / LOCK), "rw")
    try:
        channel = file.getChannel()
        _wait_for(lambda: channel.tryLock() is not None, folder, patience_s, _LOOK_S)
        yield
    finally:
        file.close()  # gives the lock back


def _nothing() -> None:
    pass


def _wait_for(try_take: Callable[[], bool], folder: Location, patience_s: float, look_s: float) -> None:
    deadline = time.monotonic() + patience_s
    told = False
    while not try_take():
        if not told:
            console().print(f"another run writes to {folder}: waiting for its end")
            told = True
        if time.monotonic() > deadline:
            raise PipelineError(f"another run writes to {folder}: end it, or choose another folder")
        time.sleep(look_s)
