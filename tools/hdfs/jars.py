"""Provides the mini cluster's jars: found in build/, or fetched by Maven with the small pom beside this file."""

from pathlib import Path

from tools.maven import ensure_dependencies

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build" / "hdfs"
HADOOP_VERSION = "3.5.0"
"""That of PySpark 4.2.0."""


def ensure_hdfs() -> list[Path]:
    """Return the jars, fetched at the first call. Safe to call from several processes at once.

    :raises tools.maven.MavenError: they can't be fetched.
    """
    what = f"HDFS's mini cluster {HADOOP_VERSION}"
    properties = {"hadoop.version": HADOOP_VERSION}
    return sorted(ensure_dependencies(POM, BUILD / HADOOP_VERSION, properties, what=what).glob("*.jar"))
