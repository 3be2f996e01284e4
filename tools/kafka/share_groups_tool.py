"""Runs `kafka-share-groups.sh` of a Kafka version, whose jars Maven fetches at first use."""

import subprocess

from tools.kafka import jars
from tools.maven import MavenError, ensure_dependencies

_POM = jars.ROOT / "tools" / "kafka" / "tools.xml"
_BUILD = jars.ROOT / "build" / "kafka_tools"
_MAIN = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def run(version: str, bootstrap: str, *arguments: str) -> str:
    """Return what the tool prints, without its warnings.

    :raises jars.KafkaUnavailableError: Java or Maven is missing.
    :raises RuntimeError: the tool failed, or did not end in two minutes.
    """
    java = jars.check_java()
    try:
        libs = ensure_dependencies(
            _POM, _BUILD / version, {"kafka.version": version}, what=f"the tools of Kafka {version}"
        )
    except MavenError as error:
        raise jars.KafkaUnavailableError(str(error)) from error
    command = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", _MAIN, "--bootstrap-server", bootstrap]
    answer = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)
    if answer.returncode != 0 or "Error" in answer.stdout:
        raise RuntimeError(f"kafka-share-groups {' '.join(arguments)}:\n{answer.stdout}{answer.stderr}")
    return answer.stdout
