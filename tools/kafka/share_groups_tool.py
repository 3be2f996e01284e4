"""Runs `kafka-share-groups.sh`, or another tool, of a Kafka version, whose jars Maven fetches at first use."""

import subprocess

from tools.kafka import extra_jars, jars

_SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
"""The main class of `kafka-groups.sh`."""


CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
"""Of `kafka-consumer-groups.sh`."""
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
"""Of `kafka-console-producer.sh`."""


def run(version: str, bootstrap: str, *arguments: str, main: str = _SHARE_GROUPS, written: str = "") -> str:
    """Return what the tool prints, without its warnings; ``written`` is its standard input.

    :raises jars.KafkaUnavailableError: Java or Maven is missing.
    :raises RuntimeError: the tool failed, or did not end in two minutes.
    """
    java = jars.check_java()
    libs = extra_jars.ensure(extra_jars.Part.TOOLS, version)
    command = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", main, "--bootstrap-server", bootstrap]
    answer = subprocess.run(
        [*command, *arguments], input=written, capture_output=True, text=True, check=False, timeout=120
    )
    if answer.returncode != 0 or "Error" in answer.stdout:
        raise RuntimeError(f"{main} {' '.join(arguments)}:\n{answer.stdout}{answer.stderr}")
    return answer.stdout
