"""What drops superseded records before they are decoded: nothing unreadable gets lost, and no newest record."""

import itertools
import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from support.broker import Kafka

from pipeline.errors import PipelineError
from pipeline.quarantine import QUARANTINE
from pipeline.readiness import commits, content, job, records, superseded
from pipeline.readiness.output import GROUPS, MEMBERS, OFFSETS, VERDICTS
from protocol_codecs.codec import encode
from protocol_codecs.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    encode_key,
)
from tests.pipeline.test_bad_records import (
    CLUSTER,
    Raw,
    classic,
    commit,
    consumer_group,
    damaged,
    hopeless,
)

VERSIONS = range(5)
STREAMS = b"\x00\x11" + encode_key(GroupMetadataKey(group="streams"))[2:] + b"more"
Record = tuple[int, int, Raw]
"""Partition, offset, and what is there."""


def value(version: int, metadata: str = "", topic_id: bytes = bytes(16)) -> bytes:
    told = OffsetCommitValue(offset=-1, metadata=metadata, commit_timestamp=-1, topic_id=topic_id)
    return version.to_bytes(2, "big") + encode(told, version)


def column(values: Iterable[bytes | None]) -> pa.BinaryArray:
    return pa.array(list(values), pa.binary())


def proved(raws: list[Raw]) -> list[bool]:
    return commits.proved(column(raw.key for raw in raws), column(raw.value for raw in raws)).tolist()


@pytest.mark.parametrize("metadata", ["", "x", "m" * 126])
@pytest.mark.parametrize("version", VERSIONS)
def test_commits_of_every_version_are_proved(version: int, metadata: str) -> None:
    key = encode_key(OffsetCommitKey(group="g" * 300, topic="orders", partition=-1))

    assert proved([Raw(key, value(version, metadata)), Raw(key, None), Raw(b"\0\0" + key[2:], b"")]) == [
        True,
        True,
        False,
    ]
    assert proved([Raw(key, value(4, metadata, topic_id=bytes(range(16))))]) == [True]


def whole_and_broken(chance: random.Random) -> tuple[list[Raw], list[Raw]]:
    """Commits of every version and kind of text, and each with bytes changed, cut off, or added."""
    texts = [
        "",
        "a",
        "ä",
        "x" * 127,
        "x" * 128,
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ]
    keys = [
        encode_key(OffsetCommitKey(group=group, topic=topic, partition=3))
        for group in texts
        for topic in texts
    ]
    whole = [
        Raw(key, value(chance.choice(VERSIONS), chance.choice(texts), chance.choice([bytes(16), b"i" * 16])))
        for key in keys * 200
    ]
    broken = []
    for raw in whole:
        parts = [bytearray(raw.key or b""), bytearray(raw.value or b"")]
        part = chance.choice(parts)
        match chance.randrange(3):
            case 0:
                part[chance.randrange(len(part))] = chance.choice([0, 1, 16, 127, 128, 255])
            case 1:
                del part[chance.randrange(len(part)) :]
            case _:
                part += bytes([chance.randrange(256)])
        broken.append(Raw(bytes(parts[0]), bytes(parts[1])))
    return whole, broken


def test_whatever_is_proved_can_be_read() -> None:
    whole, broken = whole_and_broken(random.Random(22))  # noqa: S311 - a model, no secret
    raws = [*whole, *broken, *hopeless(), *damaged(3_000)]

    found = proved(raws)

    assert sum(found[: len(whole)]) > len(whole) / 6
    assert not all(found[len(whole) :])
    for raw, is_proved in zip(raws, found, strict=True):
        if is_proved:
            assert records.check(raw.key, raw.value)[2] is None, raw


def test_columns_of_proved_commits_are_what_the_codec_reads() -> None:
    whole, broken = whole_and_broken(random.Random(23))  # noqa: S311 - a model, no secret
    nothing_as_id = Raw(commit("g").key, value(4, topic_id=b"i" * 16)[:-16] + bytes(16))
    raws = [nothing_as_id, *(raw for raw in [*whole, *broken] if proved([raw]) == [True])]

    read = commits.columns(column(raw.key for raw in raws), column(raw.value for raw in raws))

    found = pa.RecordBatch.from_arrays(read, schema=OFFSETS.arrow)
    found.validate(full=True)
    rows = [content._offset_row(decode_record(raw.key, raw.value)) for raw in raws]
    assert len(rows) > 1_000
    assert found.equals(OFFSETS.batch(rows))


@pytest.mark.parametrize(
    ("key", "content"),
    [
        (None, value(3)[:12] + b"\0" * 2 + b"\xff\xff" + b"x" * 65_535 + b"\0" * 8),
        (b"\0\1\xff\xff" + b"x" * 65_535 + b"\0\1t" + b"\0" * 4, value(3)),
        (b"\0\1\0\1g\xff\xff" + b"x" * 65_535 + b"\0" * 4, value(3)),
        (None, b"\0\4" + b"\0" * 21),
    ],
    ids=["metadata", "group", "topic", "metadata of version 4"],
)
def test_a_null_is_not_taken_for_a_long_text(key: bytes | None, content: bytes) -> None:
    raw = Raw(key or commit("g").key, content)

    assert records.check(raw.key, raw.value)[2] is not None
    assert proved([raw]) == [False]


def characters() -> list[bytes]:
    """Bytes that are a character, or nearly: each first byte before others at the edges of what may follow it."""
    edges = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    found = [bytes([first]) for first in range(256)]
    found += [bytes([first, second]) for first in range(0xC0, 256) for second in edges]
    found += [
        bytes([first, second, third]) for first in range(0xE0, 256) for second in edges for third in edges
    ]
    return found + [bytes([first, second, 0x80, 0xBF]) for first in range(0xF0, 256) for second in edges]


def test_whatever_spark_proves_can_be_read(spark: SparkSession) -> None:
    whole, broken = whole_and_broken(random.Random(24))  # noqa: S311 - a model, no secret
    texts = [
        raw
        for text in characters()
        for size in [len(text).to_bytes(2, "big")]
        for raw in (
            Raw(b"\0\1" + size + text + b"\0\1t" + bytes(4), value(3)),
            Raw(b"\0\1\0\1g" + size + text + bytes(4), None),
            Raw(commit("g").key, value(3)[:14] + size + text + bytes(8)),
            Raw(commit("g").key, value(4)[:14] + bytes([len(text) + 1]) + text + bytes(9)),
        )
    ]
    raws = [*whole, *broken, *texts, *hopeless(), *damaged(3_000), Raw(STREAMS, b"")]
    rows = spark.createDataFrame(
        pa.Table.from_batches([batch([(0, offset, raw) for offset, raw in enumerate(raws)])])
    )

    found = {row["offset"] for row in rows.where(superseded.readable_commit()).select("offset").collect()}

    assert len([offset for offset in found if offset < len(whole)]) > len(whole) / 6
    for offset in found:
        raw = raws[offset]
        assert records.check(raw.key, raw.value)[2] is None, raw
    for offset, raw in enumerate(raws):
        short = max(len(raw.key or b""), len(raw.value or b"")) < 128
        is_commit = raw.key is not None and raw.key[:2] in (b"\0\0", b"\0\1")
        if short and is_commit and records.check(raw.key, raw.value)[2] is None and offset < len(whole):
            assert offset in found, raw


def batch(rows: Iterable[Record]) -> pa.RecordBatch:
    return records.CAPTURED.batch(
        [(partition, offset, 0, raw.key, raw.value) for partition, offset, raw in rows]
    )


def history(chance: random.Random) -> list[Record]:
    """What a topic has that is not compacted: keys that come again, broken and whole, in partitions of their own."""
    bad = [*hopeless(), *damaged(400)]
    groups = [f"g{number}" for number in range(20)]
    told: list[Raw] = []
    for _ in range(3_000):
        group = chance.choice(groups)
        raw = chance.choice([classic(group), *consumer_group(group)])
        if chance.random() < 0.8:
            raw = commit(group, chance.randrange(9))
        match chance.randrange(12):
            case 0:
                raw = Raw(raw.key, None)
            case 1:
                raw = Raw(raw.key, (raw.value or b"")[: chance.randrange(20)])
            case 2:
                raw = chance.choice(bad)
            case 3:
                raw = Raw(STREAMS, chance.choice([None, b"one", b"two"]))
            case _:
                pass
        told.append(raw)
    offsets = [0, 0, (1 << 40) - 70]
    found = []
    for raw in told:
        partition = chance.randrange(3)
        found.append((partition, offsets[partition], raw))
        offsets[partition] += chance.choice([1, 1, 1, 2, 90])  # transactions and compaction leave holes
    return found


def expected(told: list[Record]) -> tuple[dict[tuple[int, int], Raw], dict[tuple[int, int], bool]]:
    """The newest records of keys that can be read, and whether each unreadable record is superseded: one by one."""
    newest: dict[tuple[int, bytes | None], int] = {}
    for partition, offset, raw in told:
        newest[partition, raw.key] = max(offset, newest.get((partition, raw.key), -1))
    held, bad = {}, {}
    for partition, offset, raw in told:
        _, group, reason = records.check(raw.key, raw.value)
        is_newest = newest[partition, raw.key] == offset
        if is_newest and group is not None:
            held[partition, offset] = raw
        if reason is not None:
            bad[partition, offset] = group is not None and not is_newest
    return held, bad


def in_files(spark: SparkSession, folder: Path, told: list[Record], files: int = 3) -> DataFrame:
    (folder / records.CAPTURED_RECORDS).mkdir(parents=True)
    for number in range(files):
        table = pa.Table.from_batches([batch(told[number::files])])
        pq.write_table(table, folder / records.CAPTURED_RECORDS / f"part-{number:05}.parquet")
    return records.captured(spark, folder)


def tables(spark: SparkSession, out: Path) -> dict[str, list[str]]:
    return {
        table.name: sorted(map(repr, table.read(spark, str(out)).collect()))
        for table in (OFFSETS, GROUPS, MEMBERS, VERDICTS, QUARANTINE)
    }


@pytest.mark.parametrize("seed", range(2))
def test_what_is_left_is_the_newest_of_each_key_and_all_that_is_unreadable(
    spark: SparkSession, seed: int
) -> None:
    told = history(random.Random(seed))  # noqa: S311 - a model, no secret
    rows = spark.createDataFrame(pa.Table.from_batches([batch(told)]))
    held, bad = expected(told)

    newest = superseded.newest_offsets(rows)
    few, many = (
        superseded.dropped(rows, newest, most_words=most) for most in (superseded.MOST_WORDS, 0)
    )  # sent to every executor, and shuffled
    checked = records.checked(few)
    found = records.newest(superseded.one_of_each(checked, newest)).collect()

    assert sorted(map(repr, few.collect())) == sorted(map(repr, many.collect()))
    assert {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in found} == {
        at: raw[:2] for at, raw in held.items()
    }
    assert len(found) == len(held)
    assert {
        (row["partition"], row["offset"]) for row in checked.where("reason IS NOT NULL").collect()
    } == bad.keys()
    superseded_left = {(row["partition"], row["offset"]) for row in few.where("NOT newest").collect()}
    plain = {
        at[:2] for at in told if at[2].value == commit("g").value and records.check(*at[2][:2])[2] is None
    }
    assert len(plain - held.keys()) > 500
    assert not superseded_left & plain
    newest.words.unpersist()


def test_the_tables_are_those_of_the_newest_records_alone(spark: SparkSession, tmp_path: Path) -> None:
    told = history(random.Random(7))  # noqa: S311 - a model, no secret
    held, bad = expected(told)
    alone = [one for one in told if one[:2] in held]

    job.run(spark, in_files(spark, tmp_path / "all", told), CLUSTER, tmp_path / "one")
    job.run(spark, in_files(spark, tmp_path / "alone", alone), CLUSTER, tmp_path / "other")

    found, other = tables(spark, tmp_path / "one"), tables(spark, tmp_path / "other")
    assert {name: found[name] for name in found if name != "quarantine"} == {
        name: other[name] for name in other if name != "quarantine"
    }
    quarantined = QUARANTINE.read(spark, str(tmp_path / "one")).collect()
    assert {(row["partition"], row["offset"]): row["superseded"] for row in quarantined} == bad
    assert len(quarantined) == len(bad) > 100
    assert sum(bad.values()) > 50


def test_records_that_come_twice_count_once(spark: SparkSession) -> None:
    told = history(random.Random(8))[:500]  # noqa: S311 - a model, no secret
    rows = spark.createDataFrame(pa.Table.from_batches([batch(told)] * 2))
    held, bad = expected(told)

    newest = superseded.newest_offsets(rows)
    checked = records.checked(superseded.dropped(rows, newest))
    found = records.newest(superseded.one_of_each(checked, newest)).collect()

    assert sorted((row["partition"], row["offset"]) for row in found) == sorted(held)
    assert checked.where("reason IS NOT NULL").count() == 2 * len(bad)
    newest.words.unpersist()


def test_newest_records_that_are_gone_end_the_run(spark: SparkSession) -> None:
    told = [(0, 0, commit("a")), (0, 1, commit("b")), (0, 2, commit("a"))]
    rows = spark.createDataFrame(pa.Table.from_batches([batch(told)]))
    newest = superseded.newest_offsets(rows)
    left = superseded.dropped(rows.where("offset != 1"), newest)

    with pytest.raises(PipelineError, match="1 of the newest records are gone"):
        superseded.one_of_each(left, newest)
    newest.words.unpersist()


def test_an_empty_topic_has_no_newest_records(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], records.CAPTURED.ddl)

    newest = superseded.newest_offsets(rows)

    assert superseded.one_of_each(superseded.dropped(rows, newest), newest).count() == 0
    assert list(records.check_batches([])) == []
    newest.words.unpersist()


@pytest.mark.long
@pytest.mark.kafka
def test_a_topic_of_brokers_has_the_same_tables_as_files(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    told = history(random.Random(9))  # noqa: S311 - a model, no secret
    next_offset = {number: itertools.count() for number in range(3)}
    told = [(partition, next(next_offset[partition]), raw) for partition, _, raw in told]
    topic = kafka.new_topic("offsets", partitions=3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for partition, _, raw in told:
        producer.produce(topic, raw.value, raw.key, partition)
    producer.flush()

    in_topic = records.from_kafka(spark, kafka.bootstrap, 3, topic=topic)
    job.run(spark, in_topic, CLUSTER, tmp_path / "one")
    job.run(spark, in_files(spark, tmp_path / "all", told), CLUSTER, tmp_path / "other")

    assert tables(spark, tmp_path / "one") == tables(spark, tmp_path / "other")
