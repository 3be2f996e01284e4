"""Fetches jars of a Kafka that its broker does not need, each part by a small pom beside this file."""

from enum import StrEnum
from pathlib import Path

from tools.kafka import jars
from tools.maven import MavenError, Say, ensure_dependencies


class Part(StrEnum):
    """A part of Kafka, as its pom is called."""

    TOOLS = "tools"
    """The command line tools, with all that they need."""

    STREAMS = "streams"
    """Kafka Streams alone: what it needs is among the jars of the broker, but for RocksDB, which is left out."""


def folder(part: Part, version: str) -> Path:
    """Return where the jars are, once they are fetched."""
    return jars.ROOT / "build" / f"kafka_{part}" / version


def ensure(part: Part, version: str = jars.DEFAULT_VERSION, *, say: Say = print) -> Path:
    """Return the folder with the jars, fetched at the first call.

    :raises jars.KafkaUnavailableError: Java or Maven is missing, or Maven Central does not have them.
    """
    jars.check_java()
    pom = Path(__file__).with_name(f"{part}.xml")
    what = f"the {part} jars of Kafka {version}"
    try:
        return ensure_dependencies(pom, folder(part, version), {"kafka.version": version}, what=what, say=say)
    except MavenError as error:
        raise jars.KafkaUnavailableError(str(error)) from error
