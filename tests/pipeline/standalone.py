"""Spark's own master and two workers, each a process on loopback."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

_TIMEOUT_S = 240
_HOST = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


@contextlib.contextmanager
def cluster(folder: Path, *, memory: str, java_options: str = "") -> Iterator[str]:
    """The master's URL; each worker has one core and so much memory. Logs and work are in ``folder``."""
    with contextlib.ExitStack() as stack:

        def start(name: str, *arguments: str) -> Path:
            log = folder / f"{name}.log"
            command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]
            own = {
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_WORKER_DIR": str(folder / name),
                "SPARK_DAEMON_JAVA_OPTS": java_options,
            }
            with log.open("wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **own})
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return log

        log = start("master", "org.apache.spark.deploy.master.Master", *_HOST)
        master = _said(log, r"spark://127\.0\.0\.1:\d+")
        limits = ("--cores", "1", "--memory", memory)
        for name in ("worker-1", "worker-2"):
            start(name, "org.apache.spark.deploy.worker.Worker", *_HOST, *limits, master)
        _said(log, r"Registering worker[\s\S]*Registering worker")
        yield master


def _said(log: Path, pattern: str) -> str:
    """What a process has said that matches."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)
    return found[0]
