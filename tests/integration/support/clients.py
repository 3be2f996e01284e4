"""The kinds of clients that the tests drive: nobody here wrote them, and none is changed."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from support import find_broker
from tools.java_client import compiled
from tools.java_client.libraries import REACTOR, SPRING, Library

DRIVERS = Path(__file__).resolve().parents[1] / "drivers"
COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True)
class ClientKind:
    """A client library, and how a process with one of its consumers is started."""

    name: str
    assignors: tuple[str, ...]
    version: Callable[[], str]
    command: Callable[[Path], list[str]]
    new_protocol: bool = False
    """Whether it can also be a member of the new protocol by itself."""

    def __str__(self) -> str:
        return self.name


def _python(driver: str) -> Callable[[Path], list[str]]:
    return lambda _log: [sys.executable, str(DRIVERS / driver)]


def _java(log: Path) -> list[str]:
    compiled.ensure_compiled(find_broker.wanted_version())
    return compiled.command(find_broker.wanted_version(), log)


CONFLUENT = ClientKind(
    "confluent-kafka",
    ("range", "roundrobin", COOPERATIVE),
    lambda: f"{version('confluent-kafka')} (librdkafka {confluent_kafka.libversion()[0]})",
    _python("confluent_driver.py"),
    new_protocol=True,
)
KAFKA_PYTHON = ClientKind(
    "kafka-python",
    ("range", "roundrobin", "sticky", COOPERATIVE),
    lambda: version("kafka-python"),
    _python("kafka_python_driver.py"),
)
AIOKAFKA = ClientKind(
    "aiokafka",
    ("range", "roundrobin", "sticky"),
    lambda: version("aiokafka"),
    _python("aiokafka_driver.py"),
)
JAVA = ClientKind(
    "java",
    ("range", "roundrobin", "sticky", COOPERATIVE),
    find_broker.wanted_version,
    _java,
    new_protocol=True,
)


def _java_producer(log: Path) -> list[str]:
    compiled.ensure_compiled(find_broker.wanted_version(), compiled.PRODUCER)
    return compiled.command(find_broker.wanted_version(), log, compiled.PRODUCER)


CONFLUENT_PRODUCER = ClientKind(
    "confluent-kafka producer", (), CONFLUENT.version, _python("producer_driver.py")
)
JAVA_PRODUCER = ClientKind("java producer", (), JAVA.version, _java_producer)
"""Applications that produce (drivers/producer_driver.py); they are started with `only`."""


def of_library(name: str, library: Library) -> ClientKind:
    """Applications on a Java library that Maven fetches."""
    return ClientKind(name, ("range",), lambda: library.version, library.command)


SPRING_KAFKA = of_library("Spring Kafka", SPRING)
REACTOR_KAFKA = of_library("Reactor Kafka", REACTOR)

ALL = (CONFLUENT, KAFKA_PYTHON, AIOKAFKA, JAVA)
EVERY_ASSIGNOR = tuple((kind, assignor) for kind in ALL for assignor in kind.assignors)
