"""Missing numbers of a journal's events: in the middle, at the edges and over whole bitmaps, whatever comes twice."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.journal.losses import Boot, find_losses

pytestmark = pytest.mark.timeout(300)

IN_A_BITMAP = 32_768
HOLES = [
    (1, 2),
    (500, 500),
    (502, 700),
    (IN_A_BITMAP, IN_A_BITMAP),
    (2 * IN_A_BITMAP + 1, 2 * IN_A_BITMAP + 1),
    (3 * IN_A_BITMAP - 5, 5 * IN_A_BITMAP + 5),
]
LAST = 6 * IN_A_BITMAP + 17


def time_of(number: int) -> int:
    return 1_000 + 10 * number


def test_holes_are_told_with_the_times_around_them(spark: SparkSession, tmp_path: Path) -> None:
    missing = " or ".join(f"id between {first} and {last}" for first, last in HOLES)
    holed = spark.range(1, LAST + 1).where(f"not ({missing})").withColumn("boot", F.lit("b1"))
    twice = holed.where("id % 10 = 3 and id != 503").unionAll(holed.where("id > 190000"))
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
    rows = spark.range(1, IN_A_BITMAP + 3).selectExpr("'r' replica", "'b' boot", "id seq", "id time_us")
    rows.write.parquet(str(tmp_path / "events"))

    with find_losses(spark.read.parquet(str(tmp_path / "events"))) as (boots, losses):
        assert losses.count() == 0

    assert [boot.events for boot in boots] == [IN_A_BITMAP + 2]
