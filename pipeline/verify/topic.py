"""Reads the journal's topic, up to what it has when the reading begins. It joins no group and commits nothing."""

from collections.abc import Callable, Mapping
from typing import Any

from pipeline import kafka_clients
from pipeline.errors import PipelineError
from pipeline.verify.spool import Spool

_POLL_S = 1.0
PATIENCE_S = 60.0
"""How long a broker may take to answer, and the topic to go on."""

_AT_ONCE = 5_000
_NO_RIGHT_TO_GROUP = 30
"""GROUP_AUTHORIZATION_FAILED: librdkafka looks for the coordinator of a group even if the consumer never joins it."""


def read(
    bootstrap: str,
    topic: str,
    settings: Mapping[str, str],
    spool: Spool,
    told: Callable[[int], None] = lambda _: None,
) -> None:
    """Copy the topic's records into ``spool``. Raises PipelineError."""
    kafka_clients.check_readable(bootstrap, topic, settings)
    consumer = kafka_clients.consumer(bootstrap, settings)
    from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

    try:
        found = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic]
        if found.error is not None:
            raise PipelineError(f"{bootstrap}: topic {topic}: {found.error.str()}")
        at = [TopicPartition(topic, number) for number in sorted(found.partitions)]
        bounds = {one.partition: consumer.get_watermark_offsets(one, timeout=PATIENCE_S) for one in at}
        consumer.assign([TopicPartition(topic, number, start) for number, (start, _) in bounds.items()])
        _copy(consumer, bounds, spool, told)
    except KafkaException as error:
        raise kafka_clients.failure(bootstrap, error) from None
    finally:
        consumer.close()


def _copy(
    consumer: Any, bounds: dict[int, tuple[int, int]], spool: Spool, told: Callable[[int], None]
) -> None:
    """Read every partition up to its end as it was at the start."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    reached = {number: start for number, (start, _) in bounds.items()}
    count, waited = 0, 0.0
    while left := {number for number, (_, end) in bounds.items() if reached[number] < end}:
        messages = consumer.consume(_AT_ONCE, timeout=_POLL_S)
        waited = 0.0 if messages else waited + _POLL_S
        if waited >= PATIENCE_S:
            raise PipelineError(
                f"nothing came for {PATIENCE_S:.0f} s; partitions {sorted(left)} are not read yet"
            )
        lines: dict[int, list[bytes]] = {}
        for message in messages:
            error, number = message.error(), message.partition()
            if error is None:
                if message.offset() < bounds[number][1]:
                    lines.setdefault(number, []).append(message.value() or b"")
                reached[number] = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
                reached[number] = bounds[number][1]
            elif error.code() != _NO_RIGHT_TO_GROUP:
                raise KafkaException(error)
        for number, some in lines.items():
            spool.add(str(number), some)
            count += len(some)
        told(count)
