"""What drops superseded records before they are decoded: nothing unreadable gets lost, and no newest record."""

import random
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from pipeline.readiness import commits, records
from pipeline.readiness.newest import Newest
from protocol_codecs.codec import encode
from protocol_codecs.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, encode_key
from tests.pipeline.test_bad_records import Raw, classic, commit, consumer_group, damaged, hopeless

VERSIONS = range(5)


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


def test_whatever_is_proved_can_be_read() -> None:
    chance = random.Random(22)  # noqa: S311 - a model, no secret
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
    raws = [*whole, *broken, *hopeless(), *damaged(3_000)]

    found = proved(raws)

    assert sum(found[: len(whole)]) > len(whole) / 6
    assert not all(found[len(whole) :])
    for raw, is_proved in zip(raws, found, strict=True):
        if is_proved:
            assert records.check(raw.key, raw.value)[2] is None, raw


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


def checked(raws: list[Raw], at_once: int, partition: int = 7) -> Iterator[dict[str, object]]:
    rows = [(partition, offset, 0, raw.key, raw.value) for offset, raw in enumerate(raws)]
    batches = [
        records.CAPTURED.batch(rows[first : first + at_once]) for first in range(0, len(rows), at_once)
    ]
    return iter(pa.Table.from_batches(list(records.check_batches(batches))).to_pylist())


def test_a_task_leaves_the_unreadable_records_and_the_newest_of_each_key() -> None:
    raws = [
        *hopeless(),
        *damaged(3_000),
        classic("a"),
        commit("a"),
        *consumer_group("b"),
        commit("a"),
        classic("a"),
    ]
    streams = encode_key(GroupMetadataKey(group="streams"))
    raws += [
        Raw(b"\x00\x11" + streams[2:] + b"more", b"old"),
        Raw(b"\x00\x11" + streams[2:] + b"more", b"new"),
    ]
    said = [records.check(raw.key, raw.value) for raw in raws]
    newest = {raw.key: offset for offset, raw in enumerate(raws) if said[offset][2] is None}

    found = {row["offset"]: row for row in checked(raws, at_once=100)}

    bad = {offset for offset, (_, _, reason) in enumerate(said) if reason is not None}
    assert found.keys() == bad | set(newest.values())
    assert len(found) < len(raws)
    for offset, row in found.items():
        assert (row["type"], row["group_id"], row["reason"]) == said[offset]  # type: ignore[index]
        assert (row["key"], row["value"]) == raws[offset][:2]  # type: ignore[index]


def batch(*rows: tuple[int, int, bytes]) -> pa.RecordBatch:
    return records.CAPTURED.batch([(partition, offset, 0, key, None) for partition, offset, key in rows])


def left(kept: Newest, *batches: pa.RecordBatch) -> list[tuple[int, int]]:
    found = [one for each in batches for one in kept.take(each)]
    found += kept.rest()
    return sorted((row["partition"], row["offset"]) for one in found for row in one.to_pylist())


def test_the_highest_offset_counts_whatever_the_order() -> None:
    assert left(Newest(), batch((0, 9, b"k"), (0, 2, b"l")), batch((0, 5, b"k"), (0, 3, b"l"))) == [
        (0, 3),
        (0, 9),
    ]


def test_the_highest_offset_counts_in_one_batch_too() -> None:
    assert left(Newest(), batch((0, 9, b"k"), (0, 2, b"l"), (0, 5, b"k"), (0, 3, b"l"), (0, 7, b"k"))) == [
        (0, 3),
        (0, 9),
    ]


def test_the_same_key_in_another_partition_is_another_key() -> None:
    assert left(Newest(), batch((0, 9, b"k"), (1, 2, b"k"), (1, 3, b"k"))) == [(0, 9), (1, 3)]


def test_more_keys_than_there_is_room_for_are_passed_on() -> None:
    kept = Newest(most_bytes=1_000)
    passed_on = list(kept.take(batch(*((0, number, b"%05d" % number) for number in range(100)))))

    assert sum(one.num_rows for one in passed_on) == 100
    assert left(kept, batch((0, 100, b"00000"), (0, 101, b"00000"))) == [(0, 101)]


def test_nothing_is_kept_of_an_empty_task() -> None:
    assert list(records.check_batches([])) == []
    assert left(Newest(), batch()) == []
