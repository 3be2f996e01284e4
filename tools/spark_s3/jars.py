"""Provides these jars: found in build/, or fetched by Maven with the small pom beside this file.

`python3 -m tools.spark_s3.jars` prints them as `spark.jars` takes them.
"""

import sys
from pathlib import Path

from tools.maven import ensure_dependencies

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build" / "spark_s3"
HADOOP_VERSION = "3.5.0"
"""That of PySpark 4.2.0."""


def ensure_s3() -> list[Path]:
    """Return the jars, fetched at the first call. Safe to call from several processes at once.

    :raises tools.maven.MavenError: they can't be fetched.
    """
    what = f"Hadoop's file system for S3 {HADOOP_VERSION}"
    properties = {"hadoop.version": HADOOP_VERSION}
    return sorted(
        ensure_dependencies(POM, BUILD / HADOOP_VERSION, properties, what=what, say=_say).glob("*.jar")
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # standard output is the list of jars


if __name__ == "__main__":
    print(",".join(map(str, ensure_s3())))
