"""Asks CodecOracle.java what Kafka's client makes of bytes."""

import fcntl
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "codec_oracle"
OLDEST_JAVA = 17


class OracleUnavailableError(Exception):
    """Java or Maven is missing, or the jars cannot be fetched; the message says which."""


class Answer(NamedTuple):
    """What Kafka made of a message: the bytes that it writes for it, and its fields as Kafka prints them."""

    written: bytes
    fields: dict[str, Any]


class Oracle:
    """A running CodecOracle on the client of one Kafka version. Use it in a `with` statement."""

    def __init__(self, kafka_version: str) -> None:
        """Fetch the jars at the first use. Raises OracleUnavailableError."""
        java = _java()
        jars = _jars(kafka_version)
        self._process = subprocess.Popen(
            [java, "-cp", f"{jars}/*", "-XX:TieredStopAtLevel=1", str(HERE / "CodecOracle.java")],
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
        """What Kafka makes of these bytes, or why it refuses them."""
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


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        raise OracleUnavailableError(f"java is missing: a JDK {OLDEST_JAVA} or newer is needed")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise OracleUnavailableError(f"{java} is older than {OLDEST_JAVA}")
    return java


def _jars(kafka_version: str) -> Path:
    """The folder with the client's jars, fetched by Maven at the first call."""
    jars = BUILD / kafka_version
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            _fetch(kafka_version, jars)
    return jars


def _fetch(kafka_version: str, jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise OracleUnavailableError("Maven (mvn) is missing: it fetches Kafka's client")
    fresh = jars.with_name(f"{kafka_version}.{os.getpid()}")
    command = [
        maven, "-q", "-B", "-f", str(HERE / "pom.xml"),
        f"-Dkafka.version={kafka_version}", f"-Djars.directory={fresh}", "dependency:copy-dependencies",
    ]  # fmt: skip
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise OracleUnavailableError(
                f"Maven could not fetch kafka-clients {kafka_version}: {run.stdout[:300]}"
            )
        fresh.rename(jars)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
