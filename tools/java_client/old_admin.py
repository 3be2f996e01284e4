"""Runs GroupLister.java on the client of an old Kafka, which Maven fetches at first use."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tools.java_client.libraries import Library
from tools.kafka import jars

HERE = Path(__file__).resolve().parent


@dataclass
class SeenMember:
    """A member as the old client shows it."""

    client_id: str
    host: str
    partitions: set[tuple[str, int]] = field(default_factory=set)


@dataclass
class SeenGroup:
    """A group as the old client shows it; `listed` are all groups that it lists."""

    listed: set[str]
    state: str
    assignor: str
    members: dict[str, SeenMember]


def look(version: str, bootstrap: str, group: str) -> SeenGroup:
    """List and describe groups.

    Raises jars.KafkaUnavailableError without Java or Maven, RuntimeError if the tool fails.
    """
    java = jars.check_java()
    command = [
        java,
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{Library.client(version).ensure()}/*",
        str(HERE / "GroupLister.java"),
    ]
    answer = subprocess.run(
        [*command, bootstrap, group], capture_output=True, text=True, check=False, timeout=120
    )
    if answer.returncode != 0:
        raise RuntimeError(f"kafka-clients {version}:\n{answer.stderr}")
    seen = SeenGroup(set(), "", "", {})
    for line in answer.stdout.splitlines():
        match line.split("\t"):
            case ["listed", name]:
                seen.listed.add(name)
            case ["group", state, assignor]:
                seen.state, seen.assignor = state, assignor
            case ["member", member, client_id, host]:
                seen.members[member] = SeenMember(client_id, host)
            case ["assigned", member, topic, partition]:
                seen.members[member].partitions.add((topic, int(partition)))
    return seen
