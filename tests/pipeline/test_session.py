"""What a session is started with, as its JVM sees it."""

from pyspark.sql import SparkSession


def test_allocations_outside_of_the_heap_share_two_arenas(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    assert jvm.java.lang.System.getenv("MALLOC_ARENA_MAX") == "2"
    assert spark.conf.get("spark.executorEnv.MALLOC_ARENA_MAX") == "2"
