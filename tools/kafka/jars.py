"""Provides the broker's jars: found in build/, or fetched by Maven with the small pom beside this file."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.maven import MavenError, Say, ensure_dependencies

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "kafka"
POM = Path(__file__).with_name("pom.xml")
DEFAULT_VERSION = "4.4.0"
OLDEST_JAVA = 17


class KafkaUnavailableError(Exception):
    """No broker can run here; the message says what is missing and how to get it."""


def java_home_program(name: str) -> str:
    """Return the path of a JDK program (`java`, `javac`): $JAVA_HOME first, then PATH.

    Raises KafkaUnavailableError if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise KafkaUnavailableError(
            f"{name} is missing: Kafka 4 needs a JDK {OLDEST_JAVA} or newer, on PATH or under JAVA_HOME"
        )
    return found


def check_java() -> str:
    """Return the path of a `java` that is new enough for a Kafka 4 broker. Raises KafkaUnavailableError."""
    java = java_home_program("java")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    said = answer.stderr + answer.stdout
    version = re.search(r'version "(\d+)', said)
    if answer.returncode != 0 or version is None:
        raise KafkaUnavailableError(f"{java} does not run: {said.strip() or f'exit {answer.returncode}'}")
    if int(version[1]) < OLDEST_JAVA:
        raise KafkaUnavailableError(f"{java} is Java {version[1]}: Kafka 4 needs {OLDEST_JAVA} or newer")
    return java


def classpath(version: str) -> str:
    """Return the class path of a fetched version (see `ensure_jars`)."""
    return f"{BUILD / version / 'libs'}/*"


def ensure_jars(version: str = DEFAULT_VERSION, *, say: Say = print) -> Path:
    """Return the folder with every jar that a broker of `version` needs, fetched by Maven at the first call.

    Safe to call from several processes at once. Raises KafkaUnavailableError.
    """
    libs = BUILD / version / "libs"
    if libs.is_dir():
        return libs
    java_home_program("java")
    try:
        what = f"the jars of Kafka {version} (about 45 MB)"
        return ensure_dependencies(POM, libs, {"kafka.version": version}, what=what, say=say)
    except MavenError as error:
        if re.search(
            rf"Could not find artifact org\.apache\.kafka:kafka_2\.13:jar:{re.escape(version)}\b",
            error.output,
        ):
            raise KafkaUnavailableError(
                f"Kafka {version} is not on Maven Central (wrong KAFKA_VERSION?)"
            ) from None
        raise KafkaUnavailableError(str(error)) from error
