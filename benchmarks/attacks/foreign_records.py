"""What a stranger writes into the member log's topic: forged records, damaged ones, and bytes that are none."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaException, Producer

from translation.member_log.formats import FORMAT_HEADER
from translation.member_log.group_records import (
    MOVE,
    GroupRecord,
    Move,
    Phase,
    encode_group_key,
    encode_group_value,
    group_key,
)
from translation.member_log.records import (
    Kind,
    MemberRecord,
    Writer,
    encode_key,
    encode_value,
    member_key,
    partition_of,
)

STRANGER = Writer(b"a stranger")
V1 = [(FORMAT_HEADER, b"\x01")]
DEEP = 1_000
DEEPER = 3_000
_FORGED_GROUPS = 20
_FLUSH_S = 60.0

Headers = Sequence[tuple[str, bytes | None]]


class Foreign(NamedTuple):
    """One record; ``partition`` None: in each partition."""

    key: bytes
    value: bytes | None
    headers: Headers = V1
    partition: int | None = None


class TopicWriter:
    """Writes to the topic as an account that may. An error of the broker is not repeated: rights may be missing."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._topic, self.partitions = topic, partitions
        self.written = self.failed = 0

    def write(self, records: Iterable[Foreign]) -> None:
        """Write all of them; return when the broker has them."""
        for record in records:
            everywhere = range(self.partitions) if record.partition is None else (record.partition,)
            for partition in everywhere:
                self._write(record, partition)
            self._producer.poll(0)
        self.failed += self._producer.flush(_FLUSH_S)

    def _write(self, record: Foreign, partition: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=record.key,
                    value=record.value,
                    partition=partition,
                    headers=list(record.headers),
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException:  # the topic is being deleted
                self.failed += 1
                return
            else:
                return

    def _delivered(self, error: object, _record: object) -> None:
        if error is None:
            self.written += 1
        else:
            self.failed += 1


def served(group: str, member: str, partitions: int, writer: Writer = STRANGER, **fields: object) -> Foreign:
    """Return a forged `served` of one member, whose version is 0 if ``fields`` do not say otherwise."""
    key = member_key(group, member)
    record = MemberRecord(Kind.SERVED, **{"version": 0, **fields})  # type: ignore[arg-type]
    return Foreign(encode_key(key, writer), encode_value(record), V1, partition_of(key, partitions))


def served_with_version(group: str, member: str, version: int, partitions: int) -> Foreign:
    """Return a forged `served` with any unsigned 64-bit version, whatever the codec's type may hold."""
    key = member_key(group, member)
    value = b"\x82\xa4kind\xa6served\xa7version\xcf" + version.to_bytes(8)
    return Foreign(encode_key(key, STRANGER), value, V1, partition_of(key, partitions))


def approved_move(group: str, steps: str, partitions: int, version: int) -> Foreign:
    """Return a forged `move`, which says that its first step was approved and has begun."""
    key = group_key(group, MOVE)
    record = GroupRecord(version, move=Move(steps, phase=Phase.MOVING, approved=1))
    return Foreign(
        encode_group_key(key, STRANGER), encode_group_value(record), V1, partition_of(key.member, partitions)
    )


def members(count: int, partitions: int) -> Iterator[Foreign]:
    """Yield forged members of a few groups, each with a snapshot's length of bytes that says nothing."""
    for number in range(count):
        yield served(
            f"forged-{number % _FORGED_GROUPS}", f"member-{number}-{'x' * 100}", partitions, server="y" * 100
        )


def garbage(dice: random.Random, partitions: int) -> Foreign:
    """Return random bytes, or a forged record of a group of nobody's in which some bytes were changed."""
    headers = dice.choice(([], V1, V1, [(FORMAT_HEADER, dice.randbytes(1))], [("x", None)]))
    if dice.random() < 0.5:
        value = dice.choice((None, dice.randbytes(dice.randrange(200)), b"\x91" * dice.randrange(3_000)))
        return Foreign(dice.randbytes(dice.randrange(1, 60)), value, headers, dice.randrange(partitions))
    name = f"forged-{dice.randrange(_FORGED_GROUPS)}"
    record = served(name, f"member-{dice.randrange(20)}", partitions, version=dice.randrange(1_000))
    value = record.value or b""
    return record._replace(key=_damaged(dice, record.key), value=_damaged(dice, value), headers=headers)


def _damaged(dice: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(dice.randrange(4)):
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
    return bytes(damaged)
