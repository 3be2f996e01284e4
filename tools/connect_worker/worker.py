"""Provides the jars of Kafka Connect's workers, compiles connectors for them, and says how to run one."""

import subprocess
from pathlib import Path

from tools.kafka import jars
from tools.kafka.broker import LOG_SETTINGS
from tools.maven import MavenError, ensure_dependencies

HERE = Path(__file__).resolve().parent
IDLE, NUMBERS = HERE / "IdleSource.java", HERE / "NumberSource.java"
"""Connectors with as many tasks as they may have: which read nothing, and which count."""

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


def ensure_connectors(version: str) -> Path:
    """Compile :data:`IDLE` and :data:`NUMBERS` once and return the folder of their classes.

    :raises jars.KafkaUnavailableError: a JDK or the jars are missing.
    """
    libs = ensure_connect(version)
    classes = _BUILD / f"{version}-classes"
    for source in (IDLE, NUMBERS):
        done = classes / f"{source.stem}.class"
        if not done.exists() or done.stat().st_mtime < source.stat().st_mtime:
            classes.mkdir(parents=True, exist_ok=True)
            compiler = jars.java_home_program("javac")
            command = [compiler, "-cp", f"{libs}/*", "-d", str(classes), str(source)]
            subprocess.run(command, capture_output=True, check=True)
    services = classes / "META-INF" / "services" / "org.apache.kafka.connect.source.SourceConnector"
    services.parent.mkdir(parents=True, exist_ok=True)
    services.write_text(f"{IDLE.stem}\n{NUMBERS.stem}\n")  # found without a search of all classes
    return classes


def settings(bootstrap: str, group: str, name: str, url: str) -> dict[str, str]:
    """Return what a worker of a group is told; its REST API listens at ``url``. Topics have one replica."""
    topics = {f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")}
    factors = {f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")}
    return (
        topics
        | factors
        | {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "listeners": url.removesuffix("/"),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
        }
    )


def command(version: str, settings: Path, log: Path, tasks: Path) -> list[str]:
    """Return the command line of a worker. Call :func:`ensure_connectors` first.

    Its own log goes to ``log``, and what the tasks of :data:`NUMBERS` say to ``tasks``.
    """
    java = jars.check_java()
    jars.ensure_jars(version)  # which has what writes the log
    path = f"{_BUILD / f'{version}-classes'}:{_BUILD / version}/*:{jars.classpath(version)}"
    return [
        java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Depochgate.log={log}", f"-Depochgate.tasks={tasks}",
        "-cp", path, "org.apache.kafka.connect.cli.ConnectDistributed", str(settings),
    ]  # fmt: skip
