"""Has Kafka Connect's own classes write embedded messages, through ConnectVectors.java."""

import subprocess
from pathlib import Path

from tools.kafka import jars
from tools.maven import MavenError, ensure_dependencies

_HERE = Path(__file__).resolve().parent
_POM = jars.ROOT / "tools" / "kafka" / "tools.xml"
_BUILD = jars.ROOT / "build" / "kafka_tools"


def connect_vectors(kafka_version: str) -> dict[tuple[str, int], bytes]:
    """Return what the classes of this version write, by ``metadata`` or ``assignment`` and version of the protocol.

    :raises jars.KafkaUnavailableError: Java or Maven is missing, or the jars can't be fetched.
    """
    java = jars.check_java()
    try:
        libs = ensure_dependencies(
            _POM,
            _BUILD / kafka_version,
            {"kafka.version": kafka_version},
            what=f"the tools of Kafka {kafka_version}",
        )
    except MavenError as error:
        raise jars.KafkaUnavailableError(str(error)) from error
    program = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(_HERE / "ConnectVectors.java")]
    printed = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120).stdout
    lines = (line.split(" ") for line in printed.splitlines())
    return {(name, int(version)): bytes.fromhex(digits) for name, version, digits in lines}
