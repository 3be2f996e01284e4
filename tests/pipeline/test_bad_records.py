"""A capture full of records that cannot be read: each is in quarantine with the reason, and nothing else is lost."""

import json
import random
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline import quarantine
from pipeline.journal import events
from pipeline.quarantine import QUARANTINE
from pipeline.readiness import job, records
from pipeline.readiness.cluster import Cluster, Topic
from pipeline.readiness.output import GROUPS, MEMBERS, NOT_READY, OFFSETS, READY, VERDICTS
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from tests.pipeline.journal_lines import GOOD

pytestmark = pytest.mark.timeout(600)

CLUSTER = Cluster((Topic("orders", "AAAAAAAAAAAAAAAAAAAAAQ", 12),))
DAMAGED = 3_000


class Raw(NamedTuple):
    """A record as it lies in the topic; ``bad`` if it cannot be read."""

    key: bytes | None
    value: bytes | None
    bad: bool = False


def record(key: object, value: object) -> Raw:
    made = CoordinatorRecord(key, value)
    return Raw(encode_key(made.key), encode_value(made))


def commit(group: str, partition: int = 0) -> Raw:
    key = OffsetCommitKey(group=group, topic="orders", partition=partition)
    return record(key, OffsetCommitValue(offset=5, metadata="", commit_timestamp=1_790_000_000_000))


def classic(group: str, subscription: bytes | None = None) -> Raw:
    topics = ConsumerProtocolSubscription(topics=("orders",))
    member = GroupMetadataMember(
        member_id="m",
        client_id="app",
        client_host="/10.0.0.7",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=encode_subscription(topics, 1) if subscription is None else subscription,
        assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=()), 1),
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m",
        current_state_timestamp=1_790_000_000_000,
        members=(member,),
    )
    return record(GroupMetadataKey(group=group), value)


def consumer_group(group: str) -> list[Raw]:
    member = ConsumerGroupMemberMetadataValue(
        client_id="app",
        client_host="/10.0.0.7",
        subscribed_topic_names=("orders",),
        rebalance_timeout_ms=300_000,
        server_assignor="uniform",
    )
    return [
        record(ConsumerGroupMetadataKey(group_id=group), ConsumerGroupMetadataValue(epoch=1)),
        record(ConsumerGroupMemberMetadataKey(group_id=group, member_id="m"), member),
    ]


def with_version(raw: Raw, version: int) -> Raw:
    return Raw(raw.key, version.to_bytes(2, "big") + (raw.value or b"")[2:], bad=True)


def hopeless() -> list[Raw]:
    """Records that nobody can read, of every kind, each of a group of its own (where a group can be told)."""
    found = [
        Raw(None, b"no key", bad=True),
        Raw(b"", b"", bad=True),
        Raw(b"\x00", b"half a type", bad=True),
        Raw(b"\x00\x63" + commit("type-99").key[2:], b"an unknown type", bad=True),
        Raw(b"\xff\xff" + commit("type-minus-1").key[2:], b"no type of Kafka's", bad=True),
        Raw(b"\x00\x01\x00\x02\xff\xfe\x00\x01t\x00\x00\x00\x00", b"a group id that is no text", bad=True),
        Raw(commit("cut-key").key[:-2], commit("cut-key").value, bad=True),
        Raw(b"GET / HTTP/1.1\r\n", b"nonsense", bad=True),
        Raw(commit("empty-value").key, b"", bad=True),
        *(with_version(commit(f"commit-v{version}"), version) for version in (5, 99, 32_767, 65_535)),
        *(with_version(classic(f"classic-v{version}"), version) for version in (5, 99, 65_535)),
        *(with_version(consumer_group("consumer-v9")[number], 9) for number in range(2)),
    ]
    for name, make in (("commit", commit), ("classic", classic)):
        whole = make(name).value
        for length in range(2, len(whole)):
            raw = make(f"{name}-cut-{length:03}")
            found.append(Raw(raw.key, raw.value[:length], bad=True))
    return found


def damaged(count: int) -> list[Raw]:
    """Records with a few bytes changed: some can be read all the same, and whatever they say must not end the job."""
    chance = random.Random(4)  # noqa: S311 - a model, no secret
    found = []
    for number in range(count):
        group = f"damaged-{number:05}"
        raw = chance.choice([commit(group), classic(group), *consumer_group(group)])
        key, value = bytearray(raw.key), bytearray(raw.value)
        for _ in range(chance.randint(1, 3)):
            part = chance.choice([key, value, value, value])
            part[chance.randrange(len(part))] = chance.randrange(256)
        reason = records.check(bytes(key), bytes(value))[2]
        found.append(Raw(bytes(key), bytes(value), bad=reason is not None))
    return found


def capture(folder: Path, raws: list[Raw]) -> Path:
    """Files as `epochgate capture` writes them: one partition, offsets from 0 on."""
    rows = [(0, offset, 1_790_000_000_000, raw.key, raw.value) for offset, raw in enumerate(raws)]
    (folder / records.CAPTURED_RECORDS).mkdir(parents=True)
    table = pa.Table.from_batches([records.CAPTURED.batch(rows)])
    pq.write_table(table, folder / records.CAPTURED_RECORDS / "part-00000.parquet")
    CLUSTER.save(folder)
    return folder


def test_all_is_read_or_in_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    healed = commit("healed")
    raws = [
        classic("good"),
        commit("good"),
        *hopeless(),
        classic("no-subscription", subscription=b"\x00\x01\xff\xff\xff\xff"),
        with_version(healed, 99),
        healed,
        with_version(commit("broken-later"), 99),
        *damaged(DAMAGED),
        commit("good", partition=1),
    ]
    source = capture(tmp_path / "capture", raws)

    rows = records.captured(spark, source)
    summary = job.run(spark, rows, Cluster.load(source), tmp_path)

    out = str(tmp_path)
    found = {row["offset"]: row for row in QUARANTINE.read(spark, out).collect()}
    bad = {offset: raw for offset, raw in enumerate(raws) if raw.bad}
    assert found.keys() == bad.keys()
    assert sum(summary.quarantined.values()) == len(bad) > 500
    assert summary.quarantined[quarantine.OTHERS] > 0
    for offset, raw in bad.items():
        row = found[offset]
        assert row["reason"]
        assert (row["key"], row["content"]) == (raw.key, raw.value)
    newest = {raw.key: offset for offset, raw in enumerate(raws)}
    superseded = {offset for offset, row in found.items() if row["superseded"]}
    assert raws.index(with_version(healed, 99)) in superseded
    assert superseded == {
        offset
        for offset, raw in bad.items()
        if newest[raw.key] != offset and records.check(raw.key, raw.value)[1] is not None
    }

    verdicts = {row["group_id"]: row for row in VERDICTS.read(spark, out).collect()}
    groups = {row["group_id"] for row in GROUPS.read(spark, out).collect()}
    assert groups == verdicts.keys()
    assert summary.groups == len(groups)
    assert verdicts["good"]["verdict"] == READY
    assert "unreadable_records" not in {reason["code"] for reason in verdicts["healed"]["reasons"]}
    for group in (
        "broken-later",
        "commit-v99",
        "classic-v5",
        "consumer-v9",
        "classic-cut-040",
        "no-subscription",
    ):
        assert verdicts[group]["verdict"] == NOT_READY, group
    offsets = {(row["group_id"], row["partition"]) for row in OFFSETS.read(spark, out).collect()}
    assert {("good", 0), ("good", 1), ("healed", 0)} <= offsets
    assert not {group for group, _ in offsets} & {"broken-later", "commit-v99"}
    assert "good" in {row["group_id"] for row in MEMBERS.read(spark, out).collect()}


def test_the_clients_software_comes_from_the_proxys_journal(spark: SparkSession, tmp_path: Path) -> None:
    source = capture(tmp_path / "capture", [classic("seen"), classic("unseen")])
    told = {"group": "seen", "kind": "joined", "member": "m", "software": "sarama/1.45.2"}
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "r.b.1.jsonl").write_text(json.dumps({**GOOD, **told}) + "\n", encoding="utf-8")

    journal = events.from_files(spark, tmp_path / "journal")
    job.run(spark, records.captured(spark, source), Cluster.load(source), tmp_path, journal=journal)

    groups = {row["group_id"]: row["software"] for row in GROUPS.read(spark, str(tmp_path)).collect()}
    assert groups == {"seen": ["sarama/1.45.2"], "unseen": None}
    verdicts = {row["group_id"]: row for row in VERDICTS.read(spark, str(tmp_path)).collect()}
    assert [reason["code"] for reason in verdicts["seen"]["reasons"]] == ["client_software"]
    assert verdicts["unseen"]["verdict"] == READY
