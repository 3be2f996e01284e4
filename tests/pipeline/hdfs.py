"""HDFS's own cluster on loopback: a namenode and a datanode in one process, and its shell."""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark

from tests.pipeline.command_line import JAVA_OPTIONS
from tools.hdfs.jars import ensure_hdfs

_STARTS_S = 300.0


def _java(*arguments: object, folder: Path | None = None) -> list[str]:
    """Its classes come from the mini cluster's jars, the rest of Hadoop from PySpark; settings from ``folder``."""
    places = [*ensure_hdfs(), Path(pyspark.__file__).parent / "jars" / "*"]
    if folder is not None:
        places.insert(0, folder)
    class_path = ":".join(map(str, places))
    return ["java", *JAVA_OPTIONS.split(), "-Xmx512m", "-cp", class_path, *map(str, arguments)]


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start one that keeps its data in ``folder``. Yields its URI."""
    details, log = folder / "details.json", folder / "hdfs.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _java(
                f"-Dtest.build.data={folder}", "org.apache.hadoop.test.MiniDFSClusterManager",
                "-format", "-datanodes", 1, "-writeDetails", details,
            ),
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + _STARTS_S
        while not (details.exists() and (text := details.read_text()).endswith("}")):
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, "HDFS has not started"
            time.sleep(0.1)
        yield f"hdfs://127.0.0.1:{text.rpartition(':')[2].strip('} ')}"
    finally:
        process.kill()
        process.wait()


def shell(arguments: Sequence[object]) -> None:
    """Run a command of `hadoop fs`, which insists on a file of settings."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "core-site.xml").write_text("<configuration/>", encoding="utf-8")
        line = _java("org.apache.hadoop.fs.FsShell", *arguments, folder=Path(folder))
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
