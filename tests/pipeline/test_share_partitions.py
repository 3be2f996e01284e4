"""Share groups and their partitions in readiness' tables, from records as Kafka writes them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.quarantine import QUARANTINE
from pipeline.readiness import job, records, share_partitions
from pipeline.readiness.cluster import Cluster, Topic
from pipeline.readiness.output import GROUPS, MEMBERS, NOT_READY, SHARE_PARTITIONS, VERDICTS
from pipeline.readiness.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from protocol_codecs import Uuid, uuid_to_text
from protocol_codecs import records as r
from tests.pipeline.test_share_state import batch

TOPIC, GONE = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))
NOW_MS = 1_790_000_000_000
CLUSTER = Cluster((Topic("orders", uuid_to_text(TOPIC), 4),), time_ms=NOW_MS)
Raw = tuple[bytes | None, bytes | None]


def raw(key: r.CoordinatorRecord) -> Raw:
    return r.encode_key(key.key), r.encode_value(key)


def share_raw(record: r.CoordinatorRecord) -> Raw:
    return r.encode_share_state_key(record.key), r.encode_share_state_value(record)


def share_group(group: str, epoch: int) -> Raw:
    return raw(
        r.CoordinatorRecord(
            r.ShareGroupMetadataKey(group_id=group), r.ShareGroupMetadataValue(epoch=epoch, metadata_hash=1)
        )
    )


def member(group: str, member_id: str, *, epoch: int, partitions: tuple[int, ...]) -> list[Raw]:
    where = {"group_id": group, "member_id": member_id}
    declared = r.ShareGroupMemberMetadataValue(
        rack_id="r1", client_id="c", client_host="/127.0.0.1", subscribed_topic_names=("orders",)
    )
    target = r.ShareGroupTargetAssignmentTopicPartition(topic_id=TOPIC, partitions=partitions)
    owned = r.ShareGroupCurrentMemberAssignmentTopicPartitions(topic_id=TOPIC, partitions=partitions)
    current = r.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=epoch, previous_member_epoch=epoch - 1, state=0, assigned_partitions=(owned,)
    )
    return [
        raw(r.CoordinatorRecord(r.ShareGroupMemberMetadataKey(**where), declared)),
        raw(
            r.CoordinatorRecord(
                r.ShareGroupTargetAssignmentMemberKey(**where),
                r.ShareGroupTargetAssignmentMemberValue(topic_partitions=(target,)),
            )
        ),
        raw(r.CoordinatorRecord(r.ShareGroupCurrentMemberAssignmentKey(**where), current)),
    ]


def target_epoch(group: str, epoch: int) -> Raw:
    return raw(
        r.CoordinatorRecord(
            r.ShareGroupTargetAssignmentMetadataKey(group_id=group),
            r.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
        )
    )


def snapshot(
    group: str, *batches: r.ShareStateBatch, topic: Uuid = TOPIC, partition: int = 0, **fields: Any
) -> Raw:
    value = {
        "snapshot_epoch": 0,
        "state_epoch": 1,
        "leader_epoch": 0,
        "start_offset": 0,
        "create_timestamp": NOW_MS - 9_000,
        "write_timestamp": NOW_MS - 5_000,
        "state_batches": batches,
    }
    key = r.ShareSnapshotKey(group_id=group, topic_id=topic, partition=partition)
    return share_raw(r.CoordinatorRecord(key, r.ShareSnapshotValue(**(value | fields))))


def update(
    group: str, *batches: r.ShareStateBatch, topic: Uuid = TOPIC, partition: int = 0, **fields: Any
) -> Raw:
    value = {"snapshot_epoch": 0, "leader_epoch": 0, "start_offset": -1, "state_batches": batches}
    key = r.ShareUpdateKey(group_id=group, topic_id=topic, partition=partition)
    return share_raw(r.CoordinatorRecord(key, r.ShareUpdateValue(**(value | fields))))


def tombstone(group: str) -> Raw:
    return share_raw(r.CoordinatorRecord(r.ShareSnapshotKey(group_id=group, topic_id=TOPIC, partition=0)))


def write(folder: Path, name: str, raws: list[Raw], files: int = 1) -> None:
    """A topic as `epochgate capture` writes it: one partition, offsets from 0 on."""
    rows = [(0, offset, NOW_MS, key, value) for offset, (key, value) in enumerate(raws)]
    (folder / name).mkdir(parents=True)
    for number in range(files):
        table = pa.Table.from_batches([records.CAPTURED.batch(rows[number::files])])
        pq.write_table(table, folder / name / f"part-{number:05}.parquet")


@pytest.fixture(scope="module")
def out(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("share")
    groups = [
        share_group("busy", 1),
        share_group("busy", 3),
        target_epoch("busy", 3),
        *member("busy", "m1", epoch=3, partitions=(0, 1)),
        *member("busy", "m2", epoch=2, partitions=(1,)),
        share_group("idle", 7),
        share_group("broken", 2),
        (r.encode_key(r.ShareGroupMetadataKey(group_id="broken")), b"\x00\x09"),
    ]
    bad_update = (update("busy", partition=2)[0], b"\x00\x00\xff")
    states = [
        bad_update,  # before the snapshot: superseded
        update("busy", batch(0, 9, ARCHIVED, 5), partition=2),  # of a snapshot that is gone
        snapshot("busy", batch(0, 9, AVAILABLE, 4), batch(10, 19, AVAILABLE, 1), partition=2),
        update("busy", batch(10, 14, ACKNOWLEDGED, 2), partition=2, delivery_complete_count=5),
        update("busy", batch(0, 1, ARCHIVED, 5), partition=2, start_offset=1, leader_epoch=6),
        bad_update,
        snapshot("busy", topic=GONE, partition=3, start_offset=-1, state_epoch=0),
        update("orphan", batch(5, 6, AVAILABLE, 2), start_offset=5),
        snapshot("deleted", batch(0, 9, AVAILABLE, 1)),
        tombstone("deleted"),
        (None, b"no key"),
        (b"\x00\x07" + snapshot("x")[0][2:], b"an unknown type"),
        (update("x")[0], None),
        (snapshot("odd", batch(0, (1 << 63) - 1, AVAILABLE, 1), batch(9, 3, AVAILABLE, 1))),
    ]
    write(folder, records.CAPTURED_RECORDS, groups)
    write(folder, share_partitions.CAPTURED_SHARE_RECORDS, states, files=3)
    share = share_partitions.captured(spark, folder)
    assert share is not None
    job.run(spark, records.captured(spark, folder), CLUSTER, folder, share_rows=share)
    return folder


def rows(spark: SparkSession, table: Any, out: Path) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.read(spark, str(out)).collect()]


def test_a_share_group_has_its_state_and_members(spark: SparkSession, out: Path):
    found = {row["group_id"]: row for row in rows(spark, GROUPS, out)}

    about = ("kind", "protocol_type", "protocol", "state", "epoch", "assignment_epoch", "members")
    assert {group: tuple(row[name] for name in about) for group, row in found.items()} == {
        "busy": ("share", "share", "simple", "Stable", 3, 3, 2),
        "idle": ("share", "share", "simple", "Empty", 7, None, 0),
        "broken": ("share", "share", "", None, None, None, None),
    }
    assert found["broken"]["unreadable_records"] == 1
    verdicts = {row["group_id"]: row for row in rows(spark, VERDICTS, out)}
    assert [reason["code"] for reason in verdicts["busy"]["reasons"]] == ["group_type"]
    assert {row["verdict"] for row in verdicts.values()} == {NOT_READY}


def test_its_members_are_told(spark: SparkSession, out: Path):
    found = {row["member_id"]: row for row in rows(spark, MEMBERS, out)}

    assert found.keys() == {"m1", "m2"}
    one = found["m1"]
    assigned = [{"topic": "orders", "topic_id": uuid_to_text(TOPIC), "partitions": [0, 1]}]
    assert (one["protocol"], one["client_id"], one["rack"], one["subscription"]) == (
        "share",
        "c",
        "r1",
        ["orders"],
    )
    assert (one["assignment"], one["target"], one["member_epoch"]) == (assigned, assigned, 3)
    assert [found[name]["reconciled"] for name in ("m1", "m2")] == [True, False]


def test_share_partitions_are_snapshots_with_their_updates(spark: SparkSession, out: Path):
    found = {(row["group_id"], row["partition"]): row for row in rows(spark, SHARE_PARTITIONS, out)}

    assert found.keys() == {("busy", 2), ("busy", 3), ("orphan", 0), ("odd", 0)}
    assert found["busy", 2] == {
        "group_id": "busy",
        "topic": "orders",
        "topic_id": uuid_to_text(TOPIC),
        "partition": 2,
        "state_epoch": 1,
        "leader_epoch": 6,
        "start_offset": 1,
        "available": 8 + 5,
        "acknowledged": 5,
        "archiving": 0,
        "archived": 1,
        "last_attempt": 8,
        "delivery_complete_count": None,
        "snapshot_time_ms": NOW_MS - 5_000,
        "snapshot_age_ms": 5_000,
        "updates": 2,
        "unreadable_records": 1,
        "state_partition": 0,
    }
    assert (found["busy", 3]["topic"], found["busy", 3]["start_offset"]) == (None, None)
    orphan = found["orphan", 0]
    assert (orphan["state_epoch"], orphan["snapshot_age_ms"], orphan["available"]) == (None, None, 2)
    assert found["odd", 0]["available"] == (1 << 63) - 1


def test_what_cannot_be_read_is_in_quarantine(spark: SparkSession, out: Path):
    found = [row for row in rows(spark, QUARANTINE, out) if row["source"] == "__share_group_state"]

    assert sorted((row["offset"], row["superseded"]) for row in found) == [
        (0, True),
        (5, False),
        (10, False),
        (11, False),
        (12, False),
    ]
    assert all(row["reason"] for row in found)


def test_a_capture_without_the_topic_has_an_empty_table(spark: SparkSession, tmp_path: Path):
    write(tmp_path, records.CAPTURED_RECORDS, [share_group("busy", 1)])

    share = share_partitions.captured(spark, tmp_path)
    job.run(spark, records.captured(spark, tmp_path), CLUSTER, tmp_path, share_rows=share)

    assert share is None
    assert rows(spark, SHARE_PARTITIONS, tmp_path) == []
    assert len(rows(spark, GROUPS, tmp_path)) == 1
