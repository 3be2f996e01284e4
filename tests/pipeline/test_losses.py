"""Missing numbers of a journal's events: in the middle, at the edges and over whole words, whatever comes twice."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.audit import judging
from pipeline.audit.output import LOSSES, OVERLAPS
from pipeline.journal.losses import Boot, find_losses
from pipeline.rules.classes import LOST, VIOLATION, OverlapClassifier
from pipeline.rules.losses import Loss

pytestmark = pytest.mark.timeout(300)

WORD = 64
HOLES = [
    (1, 2),
    (WORD - 1, WORD - 1),
    (WORD + 1, 2 * WORD - 1),
    (500, 500),
    (502, 700),
    (100 * WORD, 100 * WORD),
    (200 * WORD - 1, 300 * WORD),
    (3_000 * WORD - 5, 5_000 * WORD + 5),
]
LAST = 6_000 * WORD + 17


def time_of(number: int) -> int:
    return 1_000 + 10 * number


def test_holes_are_told_with_the_times_around_them(spark: SparkSession, tmp_path: Path) -> None:
    missing = " or ".join(f"id between {first} and {last}" for first, last in HOLES)
    holed = spark.range(1, LAST + 1).where(f"not ({missing})").withColumn("boot", F.lit("b1"))
    twice = holed.where("id % 10 = 3").unionAll(holed.where("id > 380000"))
    whole = spark.range(1, 1_001).withColumn("boot", F.lit("b2"))
    rows = holed.unionAll(twice).unionAll(whole)
    events = rows.select(
        F.lit("r").alias("replica"),
        "boot",
        F.col("id").alias("seq"),
        (1_000 + 10 * F.col("id")).alias("time_us"),
    )
    events.repartition(3).write.parquet(str(tmp_path / "events"))

    with find_losses(spark.read.parquet(str(tmp_path / "events"))) as (boots, losses):
        found = sorted(tuple(row) for row in losses.collect())

    lost = sum(last - first + 1 for first, last in HOLES)
    expected = [
        ("r", "b1", first, last, 0 if first == 1 else time_of(first - 1), time_of(last + 1))
        for first, last in HOLES
    ]
    assert found == expected
    assert [boot._replace(duplicates=0) for boot in boots] == [
        Boot("r", "b1", time_of(3), time_of(LAST), LAST, LAST - lost, 0),
        Boot("r", "b2", time_of(1), time_of(1_000), 1_000, 1_000, 0),
    ]
    assert [boot.duplicates for boot in boots] == [twice.count(), 0]


def test_a_journal_without_holes_has_no_losses(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(1, WORD + 3).selectExpr("'r' replica", "'b' boot", "id seq", "id time_us")
    rows.write.parquet(str(tmp_path / "events"))

    with find_losses(spark.read.parquet(str(tmp_path / "events"))) as (boots, losses):
        assert losses.count() == 0

    assert [boot.events for boot in boots] == [WORD + 2]


def test_numbers_that_no_process_writes_are_no_losses(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("r", "b", seq, 7) for seq in (-(2**63), -64, 0, 2, 5)],
        "replica string, boot string, seq bigint, time_us bigint",
    )

    with find_losses(rows) as (_, losses):
        assert sorted(tuple(row)[2:4] for row in losses.collect()) == [(1, 1), (3, 4)]


def test_overlaps_in_losses_are_those_of_the_plain_rules(spark: SparkSession) -> None:
    chance = random.Random(22)  # noqa: S311 - a model, no secret
    losses = []
    for seq in range(60):
        begin = chance.randrange(10_000)
        losses.append(Loss("r.1", chance.choice("abc"), seq, seq, begin, begin + chance.choice([0, 30, 900])))
    overlaps = [overlap(chance, number) for number in range(400)]
    rows = spark.createDataFrame([tuple(one.values()) for one in overlaps], OVERLAPS.ddl)

    found = judging.classified(rows, 0, {}, spark.createDataFrame(losses, LOSSES.ddl)).collect()

    plain = OverlapClassifier(0, {}, losses)
    assert {row["first_event"]: row["class"] for row in found} == {
        one["first_event"]: plain.class_of(one) for one in overlaps
    }
    assert len(found) == len(overlaps)
    classes = [row["class"] for row in found]
    assert min(classes.count(LOST), classes.count(VIOLATION)) > 50


def overlap(chance: random.Random, number: int) -> dict[str, object]:
    """Return a row of the table of overlaps."""
    since = chance.randrange(10_000)
    served_by = [f"r.1.{boot}" for boot in "abcd" if chance.random() < 0.3] or ["r.1.d"]
    told = {
        **dict.fromkeys(OVERLAPS.names, "x"),
        "group": chance.choice("gh"),
        "partition": chance.randrange(3),
        "first_event": f"e{number}",
        "from_us": since + 20,
        "until_us": since + 20 + chance.choice([0, 30, 100]),
        "same_instance": chance.random() < 0.1,
        "heard_us": since + chance.choice([0, 40]),
        "served_by": served_by,
        "proven": chance.random() < 0.9,
    }
    return told | {"class": None}
