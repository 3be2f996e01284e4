"""Java share consumers (KIP-932), and what they say of their records."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from support import find_broker
from support.broker import Kafka, Record
from support.clients import CONFLUENT, DRIVERS, ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.tracing import ports_of, trace_file
from tests.skips import not_here
from tools.java_client import compiled


def skip_without_share_groups(version: str, *, preview: bool = True) -> None:
    """Skip on brokers that have none. In 4.1 they are a preview, which the tests' brokers switch on.

    ``preview`` is False for what the preview lacks or does otherwise.
    """
    if version < "4.1":
        not_here(f"Kafka {version} has no share groups that any client speaks")
    if version < "4.2" and not preview:
        not_here(f"Kafka {version} has share groups as a preview only")


def counts_releases(version: str) -> bool:
    """Whether a record keeps its delivery count when the broker releases it; Kafka 4.1's preview takes one back."""
    return version >= "4.2"


def _java(log: Path) -> list[str]:
    compiled.ensure_compiled(find_broker.wanted_version(), compiled.SHARE_CONSUMER)
    return compiled.command(find_broker.wanted_version(), log, compiled.SHARE_CONSUMER)


SHARE_CONSUMER = ClientKind("java share consumer", (), find_broker.wanted_version, _java)
CONFLUENT_SHARE_CONSUMER = ClientKind(
    "confluent-kafka share consumer",
    (),
    CONFLUENT.version,
    lambda _log: [sys.executable, str(DRIVERS / "confluent_share_driver.py")],
)


class Delivery(NamedTuple):
    """A record that a poll has returned; ``count`` is 1 the first time that the group gets it."""

    value: str
    count: int


def deliveries(consumers: Iterable[ConsumerProcess]) -> Iterator[Delivery]:
    """All that the polls of these consumers have returned."""
    for consumer in consumers:
        for event in consumer.seen("records"):
            yield from map(Delivery, event.fields["values"], event.fields["deliveries"])


def acknowledged(consumers: Iterable[ConsumerProcess]) -> Counter[tuple[int, int]]:
    """How often the broker has accepted the acknowledgement of each (partition, offset)."""
    return Counter(
        (event.fields["partition"], offset)
        for consumer in consumers
        for event in consumer.seen("acknowledged")
        if event.fields["error"] is None
        for offset in event.fields["offsets"]
    )


def refused(consumers: Iterable[ConsumerProcess]) -> list[str]:
    """Why acknowledgements were refused."""
    said = [event.fields["error"] for consumer in consumers for event in consumer.seen("acknowledged")]
    return [error for error in said if error is not None]


def configure_group(
    kafka: Kafka, group: str, lock_duration_ms: int, others: Mapping[str, str] | None = None
) -> None:
    """Have a share group read topics from their beginning, and lock records for so long; and other settings."""
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(lock_duration_ms),
        **(others or {}),
    }
    kafka.configure_group(group, settings)


LOCK_S = 60
"""For how long records are locked, in seconds: the most that a broker allows by default."""

WITHIN_S = 40.0
"""Nothing may take so long that a lock has ended by itself."""


@dataclass
class ShareGroup:
    """A share group of its own, whose consumers enter at ``bootstrap``."""

    kafka: Kafka
    bootstrap: str
    consumers: Consumers
    group: str
    topic: str

    def start(self, mode: str, kind: ClientKind = SHARE_CONSUMER) -> ConsumerProcess:
        number = len(self.consumers.all) + 1
        return self.consumers.start(
            kind,
            self.bootstrap,
            self.group,
            self.topic,
            name=f"s{number}",
            only={
                "bootstrap": self.bootstrap,
                "group": self.group,
                "topic": self.topic,
                "client_id": f"s{number}",
                "mode": mode,
            },
        )

    def wait_until_acknowledged(self, records: Sequence[Record], times: int = 1) -> None:
        wanted = Counter({(record.partition, record.offset): times for record in records})
        self.consumers.wait_until(
            lambda: wanted <= acknowledged(self.consumers.all),
            "every record is acknowledged",
            timeout_s=WITHIN_S,
        )

    def wait_until_all_are_read(self, records: Sequence[Record]) -> None:
        wanted = {record.value for record in records}
        self.consumers.wait_until(
            lambda: wanted <= {delivery.value for delivery in deliveries(self.consumers.all)},
            "every record is read",
            timeout_s=WITHIN_S,
        )

    def ports(self) -> set[int]:
        """To which the consumers, all of them traced, have opened connections, as the kernel saw it."""
        folder = self.consumers.folder
        return set(ports_of([trace_file(folder / f"{one.name}.client.log") for one in self.consumers.all]))

    def configured(self, others: Mapping[str, str] | None = None) -> "ShareGroup":
        configure_group(self.kafka, self.group, LOCK_S * 1000, others)
        return self
