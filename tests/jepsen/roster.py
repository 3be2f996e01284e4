"""The consumers of a run: four libraries in one group, eager and cooperative, two of them static."""

from dataclasses import dataclass

from support.clients import AIOKAFKA, CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON, ClientKind


@dataclass(frozen=True)
class Seat:
    """One consumer's place. A process that replaces a killed one has the same name, settings and address."""

    name: str
    kind: ClientKind
    assignor: str
    instance_id: str | None = None

    def __str__(self) -> str:
        static = f", static as {self.instance_id}" if self.instance_id else ""
        return f"{self.name}: {self.kind} {self.kind.version()}, {self.assignor}{static}"


SEATS = (
    Seat("confluent-eager", CONFLUENT, "roundrobin"),
    Seat("confluent-cooperative", CONFLUENT, COOPERATIVE),
    Seat("confluent-static", CONFLUENT, COOPERATIVE, "static-1"),
    Seat("python-sticky", KAFKA_PYTHON, "sticky"),
    Seat("python-range", KAFKA_PYTHON, "range"),
    Seat("python-cooperative", KAFKA_PYTHON, COOPERATIVE),
    Seat("aio-roundrobin", AIOKAFKA, "roundrobin"),
    Seat("aio-sticky", AIOKAFKA, "sticky"),
    Seat("aio-range", AIOKAFKA, "range"),
    Seat("java-eager", JAVA, "roundrobin"),
    Seat("java-cooperative", JAVA, COOPERATIVE),
    Seat("java-static", JAVA, "range", "static-2"),
)

SEATS_OF_ONE_ASSIGNOR = (
    Seat("confluent-range", CONFLUENT, "range"),
    Seat("confluent-static", CONFLUENT, "range", "static-1"),
    Seat("python-range", KAFKA_PYTHON, "range"),
    Seat("python-static", KAFKA_PYTHON, "range", "static-2"),
    Seat("aio-range", AIOKAFKA, "range"),
    Seat("java-range", JAVA, "range"),
)
"""For a run that migrates: classic members can share a group only if they have an assignor in common."""
