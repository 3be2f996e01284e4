"""Compiles the Java driver; `command` returns how to run it. `share_consumer` needs no compiling."""

import subprocess
from pathlib import Path

from tools.kafka import jars
from tools.kafka.broker import LOG_SETTINGS
from tools.maven import Say

SHARE_CONSUMER = Path(__file__).with_name("ShareConsumer.java")
SOURCE = Path(__file__).with_name("ConsumerDriver.java")
BUILD = jars.ROOT / "build" / "java_client"


def ensure_compiled(version: str = jars.DEFAULT_VERSION, *, say: Say = print) -> Path:
    """Compile once and return the folder of the classes. Raises jars.KafkaUnavailableError without JDK or jars."""
    jars.check_java()
    compiler = jars.java_home_program("javac")
    jars.ensure_jars(version, say=say)
    classes = BUILD / version
    done = classes / f"{SOURCE.stem}.class"
    if not done.exists() or done.stat().st_mtime < SOURCE.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-cp", jars.classpath(version), "-d", str(classes), str(SOURCE)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"{SOURCE.name} does not compile against Kafka {version}:\n{answer.stderr}")
    return classes


def command(version: str, log: Path) -> list[str]:
    """Return the command line of one client, whose own log goes to `log`. Call `ensure_compiled` first."""
    return [
        jars.java_home_program("java"),
        "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Depochgate.log={log}",
        "-cp", f"{BUILD / version}:{jars.classpath(version)}", SOURCE.stem,
    ]  # fmt: skip


def share_consumer(version: str, *arguments: str) -> list[str]:
    """Return the command that runs the share consumer's source. Raises jars.KafkaUnavailableError."""
    jars.check_java()
    jars.ensure_jars(version)
    return [
        jars.java_home_program("java"), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-cp", jars.classpath(version), str(SHARE_CONSUMER), *arguments,
    ]  # fmt: skip
