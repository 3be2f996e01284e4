"""What the owner of a client with a certificate does beside consuming, with the client's own library."""

import warnings
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from support.certificates import Client
from support.clients import CONFLUENT, JAVA, KAFKA_PYTHON
from support.consumers import ConsumerProcess
from support.live_group import LiveGroup
from support.ownership import Event, Partition, deliveries
from tools.kafka import share_groups_tool

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that is old
    from kafka import KafkaAdminClient, KafkaProducer

PRODUCED = "made by a client with a certificate"


@dataclass(frozen=True)
class Uses:
    """What a client's owner does beside consuming, each with the client's own library."""

    member: ConsumerProcess
    client: Client
    topic: str
    group: str
    version: str
    folder: Path

    def produce(self, bootstrap: str) -> None:
        """A record, acknowledged."""
        match self.member.kind:
            case kind if kind is CONFLUENT:
                failed: list[object] = []
                producer = Producer({"bootstrap.servers": bootstrap, **self.client.confluent()})
                producer.produce(
                    self.topic, PRODUCED, on_delivery=lambda error, _: failed.append(error) if error else None
                )
                assert (producer.flush(30), failed) == (0, [])
            case kind if kind is KAFKA_PYTHON:
                producer = KafkaProducer(bootstrap_servers=bootstrap, **self.client.kafka_python())
                producer.send(self.topic, PRODUCED.encode()).get(timeout=30)
                producer.close()
            case kind if kind is JAVA:
                self._tool(
                    share_groups_tool.CONSOLE_PRODUCER, bootstrap, "--topic", self.topic,
                    "--producer.config", str(self._properties), written=f"{PRODUCED}\n",
                )  # fmt: skip
            case _:
                self._franz_go("produce", topic=self.topic, value=PRODUCED)

    def describe(self, bootstrap: str) -> int:
        """How many members the group has."""
        match self.member.kind:
            case kind if kind is CONFLUENT:
                admin = AdminClient({"bootstrap.servers": bootstrap, **self.client.confluent()})
                return len(
                    admin.describe_consumer_groups([self.group])[self.group].result(timeout=30).members
                )
            case kind if kind is KAFKA_PYTHON:
                asked = KafkaAdminClient(bootstrap_servers=bootstrap, **self.client.kafka_python())
                described = asked.describe_groups([self.group])
                asked.close()
                return len(described[self.group]["members"])
            case kind if kind is JAVA:
                printed = self._tool(
                    share_groups_tool.CONSUMER_GROUPS, bootstrap, "--describe", "--members", "--group", self.group,
                    "--command-config", str(self._properties),
                )  # fmt: skip
                return sum(line.startswith(self.group) for line in printed.splitlines())
            case _:
                return int(self._franz_go("describe").fields["members"])

    def _tool(self, main: str, bootstrap: str, *arguments: str, written: str = "") -> str:
        return share_groups_tool.run(self.version, bootstrap, *arguments, main=main, written=written)

    @property
    def _properties(self) -> Path:
        file = self.folder / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.client.java().items()))
        return file

    def _franz_go(self, command: str, **fields: object) -> Event:
        since = self.member.mark()
        self.member.send(command, **fields)
        answer = self.member.wait_for("produced", "described", "error", since=since)
        assert answer.kind != "error", answer
        return answer


def read_of_clients(live: LiveGroup) -> set[tuple[Partition, int]]:
    """Where the members have read what the clients produced."""
    read = deliveries([event for member in live.members for event in member.events])
    return {(one.partition, one.offset) for one in read if one.value == PRODUCED}
