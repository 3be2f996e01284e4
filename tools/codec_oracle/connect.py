"""Has Kafka Connect's own classes write embedded messages, through ConnectVectors.java."""

import subprocess
from pathlib import Path

from tools.connect_worker.worker import ensure_connect
from tools.kafka import jars

_HERE = Path(__file__).resolve().parent


def connect_vectors(kafka_version: str) -> dict[tuple[str, int], bytes]:
    """Return what the classes of this version write, by ``metadata`` or ``assignment`` and version of the protocol.

    :raises jars.KafkaUnavailableError: Java or Maven is missing, or the jars can't be fetched.
    """
    java, libs = jars.check_java(), ensure_connect(kafka_version)
    program = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(_HERE / "ConnectVectors.java")]
    printed = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120).stdout
    lines = (line.split(" ") for line in printed.splitlines())
    return {(name, int(version)): bytes.fromhex(digits) for name, version, digits in lines}
