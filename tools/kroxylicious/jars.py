"""Provides Kroxylicious: a release that you have unpacked, or the newest runtime that Maven Central has."""

import os
import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tools.kafka import jars as kafka
from tools.maven import MavenError, Say, ensure_dependencies

HERE = Path(__file__).parent
BUILD = kafka.ROOT / "build" / "kroxylicious"
RELEASE = "EPOCHGATE_KROXYLICIOUS"
"""The environment variable that names the folder of an unpacked release, as `kroxylicious-app-0.23.0`."""
CENTRAL_VERSION = "0.12.0"
"""The newest whose runtime is in Maven Central; later releases are archives on the project's own site."""
_JVMS = Path("/usr/lib/jvm")
_MAIN = "io/kroxylicious/proxy/KafkaProxy.class"
_JAVA_OF_CLASS_FILES = 44
"""Java 17 writes class files of version 61, and so on."""


class KroxyliciousUnavailableError(Exception):
    """It cannot run here; the message says what is missing and how to get it."""


@dataclass(frozen=True)
class Kroxylicious:
    """One version of it, ready to be started."""

    version: tuple[int, ...]
    java: str
    """A `java` that is new enough."""
    arguments: tuple[str, ...]
    """What follows `java`; the configuration file comes after them."""

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def ensure(say: Say = print) -> Kroxylicious:
    """Return the release that `EPOCHGATE_KROXYLICIOUS` names, or Maven Central's, which is fetched at the first call.

    Safe to call from several processes at once.

    :raises KroxyliciousUnavailableError: it is not there, cannot be fetched, or no Java here is new enough.
    """
    unpacked = os.environ.get(RELEASE)
    if unpacked:
        libs = Path(unpacked) / "libs"
        version, runtime = _runtime(libs)
        application = ("-cp", f"{libs}/*", "io.kroxylicious.app.Kroxylicious", "--config")
        return Kroxylicious(version, _java_for(runtime), application)
    what = f"Kroxylicious' runtime {CENTRAL_VERSION}"
    try:
        libs = ensure_dependencies(
            HERE / "pom.xml",
            BUILD / CENTRAL_VERSION,
            {"kroxylicious.version": CENTRAL_VERSION},
            what=what,
            say=say,
        )
    except MavenError as error:
        raise KroxyliciousUnavailableError(str(error)) from error
    version, runtime = _runtime(libs)
    return Kroxylicious(version, _java_for(runtime), ("-cp", f"{libs}/*", str(HERE / "Start.java")))


def _runtime(libs: Path) -> tuple[tuple[int, ...], Path]:
    for jar in libs.glob("kroxylicious-runtime-*.jar"):
        if found := re.fullmatch(r"kroxylicious-runtime-(\d+)\.(\d+)\.(\d+)\.jar", jar.name):
            return tuple(map(int, found.groups())), jar
    raise KroxyliciousUnavailableError(
        f"no kroxylicious-runtime-*.jar in {libs}: {RELEASE} names an unpacked release"
    )


def _java_for(runtime: Path) -> str:
    """Return the first `java` that can load the classes of a jar: the one that runs Kafka, or another one here."""
    with zipfile.ZipFile(runtime) as jar, jar.open(_MAIN) as main:
        needed = int.from_bytes(main.read(8)[6:], "big") - _JAVA_OF_CLASS_FILES
    for java in (kafka.java_home_program("java"), *map(str, sorted(_JVMS.glob("*/bin/java")))):
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        version = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
        if version is not None and int(version[1]) >= needed:
            return java
    raise KroxyliciousUnavailableError(
        f"{runtime.name} needs Java {needed}, which is neither on PATH nor in {_JVMS}"
    )
