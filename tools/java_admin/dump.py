"""Runs GroupsDump.java on the jars of a broker."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tools.kafka import jars
from tools.kafka.broker import LOG_SETTINGS

SOURCE = Path(__file__).with_name("GroupsDump.java")


def groups(bootstrap: str, log: Path, version: str = jars.DEFAULT_VERSION) -> dict[str, dict[str, Any]]:
    """Return every group by its id, as the Java admin client sees it.

    Raises jars.KafkaUnavailableError without a JDK.
    """
    jars.check_java()
    jars.ensure_jars(version)
    command = [
        jars.java_home_program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}", f"-Depochgate.log={log}",
        "-cp", jars.classpath(version), str(SOURCE), bootstrap,
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"{SOURCE.name}: {answer.stderr[-2000:]}")
    return {group["group_id"]: group for group in json.loads(answer.stdout.splitlines()[-1])}
