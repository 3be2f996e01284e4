"""Decodes and encodes messages with Kafka's own classes: its client's through CodecOracle.java, those of Kafka Connect
through ConnectOracle.java.
"""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tools.connect_worker.worker import ensure_connect
from tools.kafka.jars import KafkaUnavailableError, check_java
from tools.maven import MavenError, ensure_dependencies

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "codec_oracle"


class OracleUnavailableError(Exception):
    """Java or Maven is missing, or the jars cannot be fetched; the message says which."""


class Answer(NamedTuple):
    """Kafka's encoding of a message, and its fields as Kafka prints them."""

    written: bytes
    fields: dict[str, Any]


class Oracle:
    """A running CodecOracle with the client of one Kafka version. Use it in a `with` statement."""

    program = "CodecOracle.java"

    def __init__(self, kafka_version: str) -> None:
        """Fetch the jars at first use. Raises OracleUnavailableError."""
        java = _java()
        jars = self._jars(kafka_version)
        self._process = subprocess.Popen(
            [java, "-cp", f"{jars}/*", "-XX:TieredStopAtLevel=1", str(HERE / self.program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, name: str, version: int, data: bytes) -> Answer | str:
        """Return how Kafka reads these bytes, or why it refuses them."""
        question, answer = self._process.stdin, self._process.stdout
        if question is None or answer is None:
            raise OracleUnavailableError("the oracle has no pipes")
        question.write(f"{name} {version} {data.hex()}\n")
        question.flush()
        line = answer.readline()
        if not line.startswith("ok "):
            return line.strip() or "the oracle has died"
        _, written, fields = line.split(" ", 2)
        return Answer(bytes.fromhex(written), json.loads(fields))

    @staticmethod
    def _jars(kafka_version: str) -> Path:
        """Return the folder with the client's jars, fetched by Maven at the first call."""
        try:
            return ensure_dependencies(
                HERE / "pom.xml",
                BUILD / kafka_version,
                {"kafka.version": kafka_version},
                what=f"kafka-clients {kafka_version}",
            )
        except MavenError as error:
            raise OracleUnavailableError(str(error)) from error


class ConnectOracle(Oracle):
    """The same for embedded messages of Kafka Connect, which begin with their version."""

    program = "ConnectOracle.java"

    @staticmethod
    def _jars(kafka_version: str) -> Path:
        try:
            return ensure_connect(kafka_version)
        except KafkaUnavailableError as error:
            raise OracleUnavailableError(str(error)) from error


def _java() -> str:
    try:
        return check_java()
    except KafkaUnavailableError as error:
        raise OracleUnavailableError(str(error)) from error
