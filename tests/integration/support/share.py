"""Java share consumers (KIP-932), and what they say of their records."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from support import find_broker
from support.broker import Kafka
from support.clients import CONFLUENT, DRIVERS, ClientKind
from support.consumers import ConsumerProcess
from support.raw import RawConnection
from tools.java_client import compiled

_GROUP_RESOURCE = 32
_SET = 0


def skip_without_share_groups(version: str, *, preview: bool = True) -> None:
    """Skip on brokers that have none. In 4.1 they are a preview, which the tests' brokers switch on.

    ``preview`` is False for what the preview lacks or does otherwise.
    """
    if version < "4.1":
        pytest.skip(f"Kafka {version} has no share groups that any client speaks")
    if version < "4.2" and not preview:
        pytest.skip(f"Kafka {version} has share groups as a preview only")


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


def configure_group(kafka: Kafka, group: str, lock_duration_ms: int) -> None:
    """Have a share group read topics from their beginning, and lock records for so long."""
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(lock_duration_ms),
    }
    with RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0]) as connection:
        answer = connection.call(
            IncrementalAlterConfigsRequest(
                resources=(
                    AlterConfigsResource(
                        resource_type=_GROUP_RESOURCE,
                        resource_name=group,
                        configs=tuple(
                            AlterableConfig(name=name, config_operation=_SET, value=value)
                            for name, value in settings.items()
                        ),
                    ),
                ),
                validate_only=False,
            )
        )
    assert [one.error_code for one in answer.responses] == [0], answer
