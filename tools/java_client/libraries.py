"""Fetches Java libraries, each with what it needs, and returns how to run the driver of one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.java_client import compiled
from tools.kafka import jars
from tools.maven import MavenError, ensure_dependencies

POM = Path(__file__).with_name("library.xml")
BUILD = jars.ROOT / "build" / "java_libraries"
OF_BROKER = ("jackson-*", "log4j-*", "slf4j-*")
"""What the drivers need beside their library, from the broker's jars."""


@dataclass(frozen=True)
class Library:
    """A library on Maven Central, and the driver that is an application of it."""

    group: str
    name: str
    version: str
    driver: Path = compiled.CONSUMER

    @classmethod
    def client(cls, version: str) -> Self:
        """Kafka's own client in this version."""
        return cls("org.apache.kafka", "kafka-clients", version)

    def ensure(self) -> Path:
        """Return the folder with its jars, fetched at the first call. Raises jars.KafkaUnavailableError."""
        what = {"library.group": self.group, "library.name": self.name, "library.version": self.version}
        folder = BUILD / f"{self.name}-{self.version}"
        try:
            return ensure_dependencies(POM, folder, what, what=f"{self.name} {self.version}")
        except MavenError as error:
            raise jars.KafkaUnavailableError(str(error)) from error

    def command(self, log: Path) -> list[str]:
        """Return the command line of one application. Raises jars.KafkaUnavailableError.

        Kafka's own client is used as it is at run time; the driver is compiled against the newest one.
        """
        fetched = self.ensure()
        broker = jars.ensure_jars()
        others = [jar for pattern in OF_BROKER for jar in sorted(broker.glob(pattern))]
        used = ":".join(map(str, [f"{fetched}/*", *others]))
        if self.driver == compiled.CONSUMER:
            classes = compiled.ensure_compiled()
        else:
            classes = compiled.compile_once(self.driver, BUILD / "classes" / self.name, used)
        return compiled.run(f"{classes}:{used}", log, self.driver, heap="-Xmx96m")


SPRING = Library("org.springframework.kafka", "spring-kafka", "3.3.10", compiled.HERE / "SpringDriver.java")
REACTOR = Library("io.projectreactor.kafka", "reactor-kafka", "1.3.23", compiled.HERE / "ReactorDriver.java")
