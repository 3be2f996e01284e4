"""Creates the Spark session for the jobs, on a laptop or on a cluster; fails with a clear error if it can't."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import delta
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
LOCAL = "local[*]"
LOOPBACK = "127.0.0.1"

_MALLOC_ARENAS = "2"
"""RocksDB and Arrow allocate outside of Java's heap, in many threads. glibc gives these up to eight arenas a core, and
what is free in one serves no other, so a process that follows a journal grew for as long as it was watched."""
_STATE = "org.apache.spark.sql.execution.streaming.state"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.streaming.stopTimeout": "30s",
    # What streams must remember (the identity of each event that may come twice) lies on disk, not in the heap.
    "spark.sql.streaming.stateStore.providerClass": _STATE + ".RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "256",
    "spark.executorEnv.MALLOC_ARENA_MAX": _MALLOC_ARENAS,
    # The live audit (pipeline/progress/streams.py) does not wait until the batches of the tables have had their tasks.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.showConsoleProgress": "false",
    # A file that disappears or a bad block ends the job with an error: nothing is dropped silently.
    "spark.sql.files.ignoreCorruptFiles": "false",
}
_REDACTED = {
    "spark.redaction.regex": "(?i)secret|password|passphrase|token|access[.]?key|account[.]?key|credential",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|passphrase|token|access[.]?key|account[.]?key",
}
"""Spark's own patterns of names and values whose values it does not show: in plans, in its UI and in its event log."""
_REDACTED_TOO = "(?i)jaas|keystore|private key"
"""Of the Kafka clients, which have a login and a key in these settings."""
_ON_ONE_MACHINE = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}


def start(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> "SparkSession":
    """Return the session. ``conf`` overrides what is set here; without ``master`` spark-submit's counts, else local[*].

    Raises PipelineError if Java, PySpark or one of their needs is missing.
    """
    _check_python()
    check_java()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only the jobs need Spark, not `--help`

    under_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    os.environ.setdefault("MALLOC_ARENA_MAX", _MALLOC_ARENAS)  # of the JVM that this process may start
    builder = SparkSession.builder.appName(f"epochgate {name}")
    if master is not None or not under_submit:
        builder = builder.master(master or LOCAL)
    settings = dict(_SETTINGS)
    if not under_submit and (master or LOCAL).startswith("local"):
        settings |= _ON_ONE_MACHINE
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's own default is any python3 on PATH
    if delta.has_jars(conf or {}):
        settings |= delta.SETTINGS
    settings |= dict(conf or {})
    for (
        key,
        pattern,
    ) in _REDACTED.items():  # what somebody sets widens what is hidden, and never narrows it to nothing
        settings[key] = f"(?:{settings.get(key, pattern)})|(?:{_REDACTED_TOO})"
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def check_java() -> None:
    """Check that a Java version is installed that Spark supports. Raises PipelineError if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        where = f"no java in JAVA_HOME ({home})" if home else "no java on PATH, and JAVA_HOME is not set"
        raise PipelineError(
            f"Java is missing: {where}. Spark needs Java {OLDEST_JAVA} or newer (Debian: default-jre-headless)"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - the person's own java
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[1] if version else said.strip() or "nothing"
        raise PipelineError(f"Java {OLDEST_JAVA} or newer is needed by Spark, but {java} says {found}")


def _check_python() -> None:
    for module in ("pyspark", "pyarrow", "pandas"):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            raise PipelineError(
                f"{module} is not installed: "
                "pip install '.[pipeline]' in a checkout of Epochgate brings what this command needs"
            ) from None
