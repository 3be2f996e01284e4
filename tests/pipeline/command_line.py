"""How the tests start `epochgate pipeline`: small, on loopback, with a JVM that does not compile for the long run."""

import sys

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""
Halve the CPU time of runs that last seconds. With one compiler alone the JVM keeps 48 MiB for compiled code, which one
session for all tests fills after a few minutes: queries then fail. So it gets what the JVM keeps with all compilers.
"""

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}


def pipeline(*arguments: object, master: str = "local[2]", **settings: str) -> list[str]:
    """The command line; settings are Spark's, with `_` for `.`."""
    conf = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    return [sys.executable, "-m", "proxy", "pipeline", *map(str, arguments), "--master", master, *options]
