"""`epochgate capture`: copies the topics of a cluster's coordinators to Parquet files, to be read anywhere.

They are the offsets topic and, where it exists and may be read, the state of share groups.

Reads by assignment: it joins no group and commits nothing. Records of aborted transactions are left out
(``read_committed``), as the broker's own coordinator leaves them out.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import kafka_clients
from pipeline.errors import PipelineError
from pipeline.readiness import cluster
from pipeline.readiness.cluster import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from pipeline.readiness.records import CAPTURED
from pipeline.readiness.share_partitions import CAPTURED_SHARE

Told = Callable[[int, int], None]
"""Called with the number of offsets read so far and the total."""

_NO_RIGHT_TO_GROUP = 30
"""GROUP_AUTHORIZATION_FAILED: librdkafka looks for the coordinator of a group even if the consumer never joins it."""
_ROWS_A_FILE = 500_000
_POLL_S = 1.0
_PATIENCE_S = 60.0
_AT_ONCE = 5_000


class Copied(NamedTuple):
    """The number of records that were written."""

    records: int
    share_records: int | None
    """Of the share state topic; None if there is none, or it may not be read."""
    may_read_share_state: bool


def capture(
    bootstrap: str, out: Path, client_settings: Mapping[str, str] | None = None, told: Told = lambda *_: None
) -> Copied:
    """Write the newest whole state of the topics to ``out``. The right to read that of share groups may be missing.

    Raises PipelineError if the cluster does not answer or ``out`` has a capture already.
    """
    folder = out / CAPTURED.name
    if folder.exists():
        raise PipelineError(f"{folder} exists: choose another folder, or remove it")
    seen = cluster.ask(bootstrap, client_settings)
    partitions = seen.partitions(OFFSETS_TOPIC)
    if not partitions:
        raise PipelineError(f"{bootstrap} has no {OFFSETS_TOPIC}: no group has ever been there")
    settings = dict(client_settings or {})
    kafka_clients.check_readable(bootstrap, OFFSETS_TOPIC, settings)
    may_read_share_state = kafka_clients.may_read(bootstrap, SHARE_STATE_TOPIC, settings)
    share_partitions = seen.partitions(SHARE_STATE_TOPIC) if may_read_share_state else 0
    share_count = None
    if share_partitions:
        unfinished = _unfinished(out, CAPTURED_SHARE.name)
        share_count = _copy(bootstrap, SHARE_STATE_TOPIC, share_partitions, unfinished, settings, told)
        shutil.rmtree(out / CAPTURED_SHARE.name, ignore_errors=True)
        unfinished.rename(out / CAPTURED_SHARE.name)
    unfinished = _unfinished(out, CAPTURED.name)
    count = _copy(bootstrap, OFFSETS_TOPIC, partitions, unfinished, settings, told)
    seen.save(out)
    unfinished.rename(folder)  # the last step: with this folder the capture is complete
    return Copied(count, share_count, may_read_share_state)


def _unfinished(out: Path, name: str) -> Path:
    """Return an empty folder for a topic that is not copied yet."""
    folder = out / f"_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _copy(
    bootstrap: str, topic: str, partitions: int, folder: Path, settings: dict[str, str], told: Told
) -> int:
    consumer = kafka_clients.consumer(bootstrap, settings, **{"isolation.level": "read_committed"})
    from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

    try:
        ends = {}
        starts = {}
        for number in range(partitions):
            at = TopicPartition(topic, number)
            starts[number], ends[number] = consumer.get_watermark_offsets(at, timeout=_PATIENCE_S)
        consumer.assign([TopicPartition(topic, number, start) for number, start in starts.items()])
        return _read(consumer, starts, ends, folder, told)
    except KafkaException as error:
        raise kafka_clients.failure(bootstrap, error) from None
    finally:
        consumer.close()


def _read(consumer: Any, starts: dict[int, int], ends: dict[int, int], folder: Path, told: Told) -> int:
    """Read every partition up to its end offset at the start."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    reached = dict(starts)
    left = {number for number, end in ends.items() if starts[number] < end}
    total, rows, count, waited = sum(ends.values()) - sum(starts.values()), [], 0, 0.0
    while left:
        messages = [
            message
            for message in consumer.consume(_AT_ONCE, timeout=_POLL_S)
            if message.error() is None or message.error().code() != _NO_RIGHT_TO_GROUP
        ]
        waited = 0.0 if messages else waited + _POLL_S
        if waited >= _PATIENCE_S:
            raise PipelineError(
                f"nothing came for {_PATIENCE_S:.0f} s; partitions {sorted(left)} are not read yet"
            )
        for message in messages:
            error = message.error()
            if error is None:
                rows.append(_row(message))
                reached[message.partition()] = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
                reached[message.partition()] = ends[message.partition()]
            else:
                raise KafkaException(error)
        left = {number for number in left if reached[number] < ends[number]}
        if len(rows) >= _ROWS_A_FILE:
            count += _write(rows, folder)
        told(sum(min(at, ends[number]) - starts[number] for number, at in reached.items()), total)
    return count + _write(rows, folder)


def _row(message: Any) -> tuple[int, int, int, bytes | None, bytes | None]:
    return message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value()


def _write(rows: list[Any], folder: Path) -> int:
    """Write the rows to a new file and drop them from memory."""
    number = len(list(folder.glob("*.parquet")))
    table = pa.Table.from_batches([CAPTURED.batch(rows)])
    pq.write_table(table, folder / f"part-{number:05}.parquet", compression="zstd")
    written = len(rows)
    rows.clear()
    return written
