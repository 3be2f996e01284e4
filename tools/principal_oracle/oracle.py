"""Runs PrincipalOracle.java on the jars of a broker."""

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.kafka import jars

_SOURCE = Path(__file__).with_name("PrincipalOracle.java")


def names(subjects: Sequence[bytes], version: str = jars.DEFAULT_VERSION) -> list[str | None]:
    """Return what Java's ``X500Principal.getName()`` says of each DER name; None for one that it refuses.

    :raises jars.KafkaUnavailableError: Java or the jars can't be had.
    """
    return _ask([f"name {_base64(subject)}" for subject in subjects], version)


def mapped(cases: Sequence[tuple[str, str]], version: str = jars.DEFAULT_VERSION) -> list[str | None]:
    """Return what Kafka's ``SslPrincipalMapper`` with these rules says of each name; None for an error.

    :raises jars.KafkaUnavailableError: Java or the jars can't be had.
    """
    return _ask([f"map {_base64(rules.encode())} {_base64(name.encode())}" for rules, name in cases], version)


def _ask(lines: Sequence[str], version: str) -> list[str | None]:
    java = jars.check_java()
    jars.ensure_jars(version)
    answer = subprocess.run(
        [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars.classpath(version), str(_SOURCE)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )  # fmt: skip
    told = [line.split(" ") for line in answer.stdout.splitlines() if line.startswith(("ok ", "error "))]
    return [base64.b64decode(text).decode() if verdict == "ok" else None for verdict, text in told]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
