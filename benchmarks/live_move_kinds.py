"""The kinds of applications whose groups `python -m benchmarks.live_move` moves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.clients import (
    AIOKAFKA,
    CONFLUENT,
    COOPERATIVE,
    KAFKA_PYTHON,
    REACTOR_KAFKA,
    SPRING_KAFKA,
    ClientKind,
    of_library,
)
from support.other_clients import FRANZ_GO, KAFKA_GO, KAFKAJS, SARAMA

from tools.java_client.libraries import Library


@dataclass(frozen=True)
class Kind:
    """Applications of one kind."""

    client: ClientKind
    assignor: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    more: str = ""
    in_place: bool = True
    """Whether brokers convert its groups with their members in them; else a move is all at once."""

    def __str__(self) -> str:
        named = f"{self.client} {self.client.version()}, {self.assignor}"
        return f"{named}, {self.more}" if self.more else named


COMMITS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "none": ({}, "commits by itself"),
    "revoked": ({"auto_commit": False, "commit_in": ["revoked"]}, "commits in revoked"),
    "lost": ({"auto_commit": False, "commit_in": ["revoked", "lost"]}, "commits in revoked and lost"),
}
"""What an application does in its callbacks, where it catches nothing. One that has onPartitionsRevoked only commits
in both: Java calls it for lost partitions too."""


def _java_kinds() -> Iterator[tuple[str, Kind]]:
    for number, version in enumerate(("2.8.2", "3.9.2", "4.4.0")):
        client = of_library("Java", Library.client(version))
        for other, (style, (spec, more)) in enumerate(COMMITS.items()):
            assignor = ("range", COOPERATIVE)[(number + other) % 2]
            yield f"java-{version[:3]}-{style}", Kind(client, assignor, spec, more)


KINDS: Mapping[str, Kind] = {
    **dict(_java_kinds()),
    "spring": Kind(SPRING_KAFKA, "range"),
    "reactor": Kind(REACTOR_KAFKA, "range"),
    "librdkafka-range": Kind(CONFLUENT, "range"),
    "kafka-python": Kind(KAFKA_PYTHON, "range"),
    "aiokafka": Kind(AIOKAFKA, "roundrobin"),
    "kafkajs": Kind(KAFKAJS, "RoundRobinAssigner"),
    "franz-go": Kind(FRANZ_GO, COOPERATIVE),
    "librdkafka-cooperative": Kind(CONFLUENT, COOPERATIVE, in_place=False),
    "sarama": Kind(SARAMA, "sticky", in_place=False),
    "kafka-go": Kind(KAFKA_GO, "rack-affinity", in_place=False),
}
