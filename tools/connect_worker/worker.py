"""Provides the jars of Kafka Connect's workers, compiles a connector for them, and says how to run one."""

import subprocess
from pathlib import Path

from tools.kafka import jars
from tools.kafka.broker import LOG_SETTINGS
from tools.maven import MavenError, ensure_dependencies

HERE = Path(__file__).resolve().parent
CONNECTOR = HERE / "IdleSource.java"
"""A connector with as many tasks as it may have, which read nothing."""

_BUILD = jars.ROOT / "build" / "kafka_connect"


def ensure_connect(version: str) -> Path:
    """Return the folder with every jar that a worker of this version needs, fetched by Maven at the first call.

    :raises jars.KafkaUnavailableError: Maven is missing, or the jars can't be fetched.
    """
    try:
        return ensure_dependencies(
            HERE / "pom.xml", _BUILD / version, {"kafka.version": version}, what=f"Kafka Connect {version}"
        )
    except MavenError as error:
        raise jars.KafkaUnavailableError(str(error)) from error


def ensure_connector(version: str) -> Path:
    """Compile :data:`CONNECTOR` once and return the folder of its classes.

    :raises jars.KafkaUnavailableError: a JDK or the jars are missing.
    """
    libs = ensure_connect(version)
    classes = _BUILD / f"{version}-classes"
    done = classes / f"{CONNECTOR.stem}.class"
    if not done.exists() or done.stat().st_mtime < CONNECTOR.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        compiler = jars.java_home_program("javac")
        command = [compiler, "-cp", f"{libs}/*", "-d", str(classes), str(CONNECTOR)]
        subprocess.run(command, capture_output=True, check=True)
    return classes


def command(version: str, settings: Path, log: Path) -> list[str]:
    """Return the command line of a worker, whose own log goes to ``log``. Call :func:`ensure_connector` first."""
    java = jars.check_java()
    jars.ensure_jars(version)  # which has what writes the log
    path = f"{_BUILD / f'{version}-classes'}:{_BUILD / version}/*:{jars.classpath(version)}"
    return [
        java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Depochgate.log={log}",
        "-cp", path, "org.apache.kafka.connect.cli.ConnectDistributed", str(settings),
    ]  # fmt: skip
