"""Kafka's own group coordinator (GroupOracle.java): plays runs of moves, many in one JVM."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from coordinator.partitions import Partitions
from protocol_codecs import uuid_to_text
from proxy.shadow.group import ClassicGroup
from proxy.shadow.run import Run
from tools.kafka import jars

SOURCE = Path(__file__).with_name("GroupOracle.java")
Targets = dict[str, dict[str, list[int]]]


class Oracle:
    """Answers one scene after the other."""

    def __init__(self, question: IO[str], answers: IO[str]) -> None:
        self._question = question
        self._answers = answers

    def targets(self, group: ClassicGroup, run: Run) -> Targets:
        """The target assignment with which Kafka ends this run."""
        self._question.write(json.dumps(_scene(group, run)) + "\n")
        self._question.flush()
        found: Targets = json.loads(self._answers.readline())
        return found


@contextmanager
def running_oracle() -> Iterator[Oracle]:
    """Compile and start it. Raises KafkaUnavailableError."""
    java, libs = jars.check_java(), jars.ensure_jars()
    with TemporaryDirectory() as classes:
        subprocess.run(
            [jars.java_home_program("javac"), "-cp", f"{libs}/*", "-d", classes, str(SOURCE)], check=True
        )
        command = [java, "-cp", f"{classes}:{libs}/*", "org.apache.kafka.coordinator.group.GroupOracle"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield Oracle(process.stdin, process.stdout)
            process.stdin.close()


def as_text(targets: Mapping[str, Partitions]) -> Targets:
    """Our targets in the same form; as Kafka, members without partitions have an empty assignment."""
    return {
        member: {uuid_to_text(topic): sorted(numbers) for topic, numbers in sorted(mine.items()) if numbers}
        for member, mine in targets.items()
    }


def _scene(group: ClassicGroup, run: Run) -> dict[str, Any]:
    names = {topic.topic_id: topic.name for topic in group.image.topics.values()}
    return {
        "topics": [
            {"id": uuid_to_text(topic.topic_id), "name": topic.name, "partitions": topic.partitions}
            for topic in group.image.topics.values()
        ],
        "members": [
            {
                "id": client.member_id,
                "instance": client.instance_id,
                "topics": client.topics,
                "assigned": {names[topic]: numbers for topic, numbers in client.assigned.items()},
            }
            for client in group.clients
        ],
        "assignor": group.assignor,
        "at_once": group.moves_at_once is not None,
        "joins": [
            {"client": join.client, "computes": join.computes, "id": join.member_id} for join in run.joins
        ],
    }
