"""Provides the connector's jars: found in build/, or fetched by Maven with the small pom beside this file.

`python3 -m tools.spark_connector.jars` prints them as `spark.jars` takes them.
"""

import sys
from pathlib import Path

from tools.maven import MavenError, ensure_dependencies

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build" / "spark_connector"
SPARK_VERSION = "4.2.0"


class ConnectorUnavailableError(Exception):
    """The jars cannot be fetched; the message says what is missing."""


def ensure_connector(version: str = SPARK_VERSION) -> list[Path]:
    """Return the jars for this Spark, fetched at the first call. Safe to call from several processes at once."""
    what = f"Spark's Kafka connector {version}"
    try:
        jars = ensure_dependencies(POM, BUILD / version, {"spark.version": version}, what=what, say=_say)
    except MavenError as error:
        raise ConnectorUnavailableError(str(error)) from error
    return sorted(jars.glob("*.jar"))


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # standard output is the list of jars


if __name__ == "__main__":
    print(",".join(map(str, ensure_connector())))
