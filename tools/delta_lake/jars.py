"""Provides Delta Lake's jars: found in build/, or fetched by Maven with the small pom beside this file.

`python3 -m tools.delta_lake.jars` prints them as `spark.jars` takes them.
"""

import sys
from pathlib import Path

from tools.maven import MavenError, ensure_dependencies

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build" / "delta_lake"
VERSION = "4.4.0"
SPARK_MINOR = "4.2"


class DeltaUnavailableError(Exception):
    """The jars cannot be fetched; the message says what is missing."""


def ensure_delta(version: str = VERSION, spark_minor: str = SPARK_MINOR) -> list[Path]:
    """Return the jars of this Delta for this Spark, fetched at the first call. Safe from several processes at once."""
    what = f"Delta Lake {version} for Spark {spark_minor}"
    properties = {"delta.version": version, "spark.minor": spark_minor}
    try:
        jars = ensure_dependencies(POM, BUILD / version, properties, what=what, say=_say)
    except MavenError as error:
        raise DeltaUnavailableError(str(error)) from error
    return sorted(jars.glob("*.jar"))


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # standard output is the list of jars


if __name__ == "__main__":
    print(",".join(map(str, ensure_delta())))
