"""Kafka Streams applications (tools/java_client/StreamsDriver.java), and what they have counted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from support import find_broker
from support.broker import QUIET, Kafka, Record
from support.clients import ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.waiting import eventually
from tools.java_client import compiled

PARTITIONS = 3
KEYS = 10
WITHIN_S = 60.0

Counts = Mapping[str, Sequence[int]]


def _java(log: Path) -> list[str]:
    compiled.ensure_compiled(find_broker.wanted_version(), compiled.STREAMS)
    return compiled.command(find_broker.wanted_version(), log, compiled.STREAMS)


STREAMS = ClientKind("kafka streams", (), find_broker.wanted_version, _java)


@dataclass
class StreamsApplication:
    """An application that counts keys exactly once, and enters at ``bootstrap``. ``protocol`` is `streams` or
    `classic`, as in group.protocol; ``group`` is its id.
    """

    kafka: Kafka
    bootstrap: str
    consumers: Consumers
    group: str
    protocol: str
    input: str = field(init=False)
    output: str = field(init=False)

    def __post_init__(self) -> None:
        self.input = self.kafka.new_topic("input", partitions=PARTITIONS)
        self.output = self.kafka.new_topic("output", partitions=1)

    def start(self, kind: ClientKind = STREAMS) -> ConsumerProcess:
        """Start an instance."""
        name = f"a{len(self.consumers.all) + 1}"
        return self.consumers.start(
            kind,
            self.bootstrap,
            self.group,
            self.input,
            name=name,
            only={
                "bootstrap": self.bootstrap,
                "group": self.group,
                "client_id": name,
                "input": self.input,
                "output": self.output,
                "keys": KEYS,
                "protocol": self.protocol,
                "state_dir": str(self.consumers.folder / f"{name}.state"),
            },
        )

    def wait_until_shared(self, *instances: ConsumerProcess) -> None:
        """Wait until each of these has tasks, and all tasks run: one for each partition before and behind the
        repartition topic.
        """
        self.consumers.wait_until(
            lambda: (
                all(map(tasks_of, instances))
                and len({task for one in instances for task in tasks_of(one)}) == 2 * PARTITIONS
            ),
            "each instance has tasks, and all tasks run",
        )

    def wait_until_counted(self, records: Iterable[Record]) -> None:
        """Wait until as much is counted; whether rightly so is for `counted` and `expected` to say."""
        wanted = sum(1 for _ in records)
        eventually(
            lambda: sum(map(len, self.counted().values())),
            lambda count: count >= wanted,
            what=f"{wanted} records are counted",
            timeout_s=WITHIN_S,
            between_s=0.3,
        )

    def counted(self) -> Counts:
        """{key: every count of it, in the order of the output}, without what was aborted or is not committed yet."""
        found: dict[str, list[int]] = defaultdict(list)
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                **QUIET,
            }
        )
        try:
            consumer.assign([TopicPartition(self.output, 0, OFFSET_BEGINNING)])
            while True:
                for message in consumer.consume(1000, timeout=1):
                    error, key, value = message.error(), message.key(), message.value()
                    if error is not None:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        return found
                    assert key is not None
                    assert value is not None
                    found[key.decode()].append(int(value))
        finally:
            consumer.close()


def expected(records: Iterable[Record]) -> Counts:
    """What an application that counts each of these once has in its output: all counts of a key, one after another."""
    totals = Counter(str(int(record.value) % KEYS) for record in records)
    return {key: list(range(1, total + 1)) for key, total in totals.items()}


def tasks_of(instance: ConsumerProcess) -> list[str]:
    """The tasks that run in an instance now."""
    told = instance.seen("tasks")
    return list(told[-1].fields["active"]) if told else []
