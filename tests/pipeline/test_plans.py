"""The page about the pipeline's plans shows the operators that Spark really uses."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline import plans

pytestmark = pytest.mark.timeout(300)


def test_the_page_shows_the_plans_of_the_jobs(spark: SparkSession, tmp_path: Path) -> None:
    shown = plans.blocks(plans.PAGE.read_text(encoding="utf-8"))

    found = plans.plans_of(spark, tmp_path)

    assert len(shown) >= 10
    assert shown == {name: found[name] for name in shown}, "python -m tests.pipeline.plans writes the page"
    assert not [name for name in found if name not in shown and ": kept " in name]
