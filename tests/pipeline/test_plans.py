"""The page about plans has those of the code, reduced as it says, and the jobs keep the shapes that it explains."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.audit import job as audit
from pipeline.journal import events
from pipeline.readiness import job as readiness
from pipeline.readiness import records, superseded
from tests.pipeline import plan_inputs, plans
from tests.pipeline.plan_shapes import DRIVER, Kept, Node, Shape, result_of, shape_of, told
from tests.pipeline.test_bad_records import CLUSTER

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"\w*(?:InArrow|InPandas|EvalPython)\w*")
JOBS = ("readiness", "audit", "progress", "report")
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
TO_DRIVER = {
    ("readiness: waves", "Scan parquet > Filter > Driver"),
    ("readiness: waves", "SortMergeJoin Inner > Driver"),
    ("incremental audit: outside a step", "Scan parquet > Driver"),
    ("progress: audit", "Scan ExistingRDD > Driver"),
}
"""Queries that bring rows to the driver which nothing has made fewer. The page says why they are few."""


def node(name: str, *children: Node, said: str = "") -> Node:
    return {"nodeName": name, "simpleString": said or name, "children": list(children)}


def exchange(child: Node, partitioning: str) -> Node:
    stage = node("Exchange", child, said=f"Exchange {partitioning}, ENSURE_REQUIREMENTS, [plan_id=77]")
    return node("AQEShuffleRead", node("ShuffleQueryStage", stage))


def line(plan: Node) -> str:
    return " ".join(one.strip() for one in told(shape_of(plan, Kept())))


SCAN = node("Scan parquet ", said="FileScan parquet [group#1,seq#2L] Location: [file:/tmp/x]")


# How plans are reduced


def test_ids_sizes_and_what_stands_around_operators_are_left_out() -> None:
    aggregate = node(
        "WholeStageCodegen (1)", node("HashAggregate", node("Project", node("ColumnarToRow", SCAN)))
    )
    spread = exchange(aggregate, "hashpartitioning(seq#2L, group#1, window#4-T3600000ms, 32)")
    ordered = node("Sort", spread, said="Sort [seq#2L ASC NULLS FIRST, group#1 DESC NULLS LAST], false, 0")
    python = node("MapInArrow", ordered, said="MapInArrow through(group#1, seq#2L)#9, [found#10], false")
    write = node("Execute InsertIntoHadoopFsRelationCommand", node("WriteFiles", python))

    assert line(node("AdaptiveSparkPlan", write)) == (
        "Scan parquet > HashAggregate > Exchange hash(group, seq, window) > Sort(seq, group) > "
        "MapInArrow through > Write"
    )


@pytest.mark.parametrize(
    ("partitioning", "expected"),
    [
        ("hashpartitioning(_groupingexpression#3, boot#1, 2)", "hash(boot, computed)"),
        ("rangepartitioning(verdict#3 ASC NULLS FIRST, state#1 ASC NULLS FIRST, 2)", "range(verdict, state)"),
        ("SinglePartition", "to one task"),
        ("RoundRobinPartitioning(1)", "to one task"),
        ("RoundRobinPartitioning(8)", "in turn"),
    ],
)
def test_a_shuffle_is_told_by_its_keys(partitioning: str, expected: str) -> None:
    assert line(exchange(SCAN, partitioning)) == f"Scan parquet > Exchange {expected}"


def test_a_join_stands_below_what_it_joins_and_its_sorts_are_left_out() -> None:
    left, right = (node("Sort", SCAN, said="Sort [a#1 ASC NULLS FIRST], false, 0") for _ in range(2))
    sent = node("BroadcastExchange", node("Filter", SCAN))
    inner = node("SortMergeJoin", left, right, said="SortMergeJoin [a#1], [a#2], LeftAnti")
    outer = node(
        "BroadcastHashJoin", inner, sent, said="BroadcastHashJoin [w#1L], [w#2L], LeftOuter, BuildRight"
    )

    assert told(shape_of(node("Filter", outer), Kept())) == [
        "        Scan parquet",
        "        Scan parquet",
        "    SortMergeJoin LeftAnti",
        "    Scan parquet > Filter > Exchange broadcast",
        "BroadcastHashJoin LeftOuter > Filter",
    ]


def test_a_long_chain_goes_on_in_the_next_line() -> None:
    plan = SCAN
    for _ in range(10):
        plan = node("HashAggregate", plan)
    lines = told(shape_of(plan, Kept()), "  ")
    assert [one.startswith("    > ") for one in lines] == [False, True]
    assert max(map(len, lines)) < 120
    assert " ".join(one.strip() for one in lines) == "Scan parquet" + 10 * " > HashAggregate"


def query(step: str, plan: Node, *, of_stream: bool = False) -> plans.Query:
    return plans.Query(step, of_stream, plan)


def test_a_plan_that_is_kept_is_told_once_and_equal_queries_are_counted() -> None:
    kept = node(
        "InMemoryTableScan", node("AdaptiveSparkPlan", node("MapInArrow", SCAN, said="MapInArrow check(a#1)"))
    )
    counts = query("one", node("HashAggregate", kept))
    found = plans.blocks([counts, counts, query("two", node("Filter", kept))])
    assert found == {
        "one": "kept 1:\n  Scan parquet > MapInArrow check\n\n2 times:\n  Scan kept 1 > HashAggregate > Driver",
        "two": "Scan kept 1 > Filter > Driver",
    }


def test_batches_of_a_stream_are_told_once_and_those_without_lines_are_not() -> None:
    batch, empty, rows = (query("windows", node(name), of_stream=True) for name in
                          ("Scan text ", "LocalTableScan", "Scan ExistingRDD"))  # fmt: skip
    found = plans.blocks([batch, rows, empty, batch, rows])
    assert found == {"windows": "Scan text > Sink\nScan ExistingRDD > Driver"}


def test_the_last_plan_of_a_query_counts_and_what_only_prepares_a_job_does_not(tmp_path: Path) -> None:
    def begun(number: int, description: str) -> dict[str, Any]:
        return {
            "Event": plans._START,
            "executionId": number,
            "description": description,
            "sparkPlanInfo": SCAN,
        }

    better = {"Event": plans._UPDATE, "executionId": 3, "sparkPlanInfo": node("Filter", SCAN)}
    log = [begun(1, "judging"), begun(2, plan_inputs.BEFORE), begun(3, ""),
           begun(4, "audit\nid = 12\nrunId = 13\nbatch = 0"), {"Event": "Other"}, better]  # fmt: skip
    (tmp_path / "events_1").write_text("\n".join(map(json.dumps, log)), encoding="utf-8")

    assert plans.queries(tmp_path) == [
        query(plans.OUTSIDE, node("Filter", SCAN)),
        query("audit", SCAN, of_stream=True),
    ]


def test_a_page_with_another_set_of_steps_is_refused() -> None:
    text = "<!-- audit: judging -->\nold\n<!-- /audit: judging -->\n"
    assert "```text\nScan\n```" in plans.page(text, {"audit: judging": "Scan"})
    with pytest.raises(ValueError, match="no job has these steps any more: audit: judging"):
        plans.page(text, {})
    with pytest.raises(ValueError, match="<!-- audit: reading -->"):
        plans.page(text, {"audit: judging": "Scan", "audit: reading": "Scan"})


# What the page has


def of_page() -> Iterator[tuple[str, str]]:
    """Each line of each plan, by its block; one that goes on is one."""
    text = plans.PAGE.read_text(encoding="utf-8")
    for name, body in re.findall(r"<!-- (.+?) -->\n```text\n(.*?)\n```\n<!-- /\1 -->", text, re.DOTALL):
        for one in re.sub(r"\n +> ", " > ", body).splitlines():
            yield name, one.strip()


def test_every_step_of_the_jobs_is_on_the_page() -> None:
    named = set(plans.names(plans.PAGE.read_text(encoding="utf-8")))
    for folder in JOBS:
        for file in (ROOT / "pipeline" / folder).glob("*.py"):
            steps = re.findall(r'\bstep\((?:self\._)?spark, "(.+?)"\)', file.read_text(encoding="utf-8"))
            command = "incremental audit" if file.stem == "incremental" else folder
            assert {f"{command}: {one}" for one in steps} <= named, file
    assert len([one for one in named if one.startswith("readiness")]) > 5


def test_what_goes_to_the_driver_was_aggregated_or_limited_before() -> None:
    unbounded = set()
    for name, one in of_page():
        *operators, last = one.split(" > ")
        while operators and re.match(r"Sort\(|Exchange range", operators[-1]):
            operators.pop()
        if last == DRIVER and not re.search(r"Aggregate$|^TakeOrdered|^CollectLimit$", operators[-1]):
            unbounded.add((name, one))
    assert unbounded == TO_DRIVER


def test_only_words_of_offsets_and_processes_are_sent_to_every_executor() -> None:
    assert {(name, one) for name, one in of_page() if "broadcast" in one} == {
        ("readiness: decoding records", "Scan kept 1 > Filter > Exchange broadcast"),
        ("incremental audit: outside a step", "Scan ExistingRDD > Filter > Exchange broadcast"),
    }


def test_no_batch_job_hands_python_a_whole_group_at_once() -> None:
    python = {(name, found) for name, one in of_page() for found in PYTHON.findall(one)}
    assert {found for _, found in python} == {"MapInArrow", "FlatMapGroupsInPandasWithState"}
    assert {name for name, found in python if found != "MapInArrow"} == {"progress: audit"}


# What the jobs plan


def planned(rows: DataFrame, kept: Kept) -> Shape:
    """The shape of a plan that is not run."""
    jvm: Any = rows.sparkSession._jvm
    info = jvm.org.apache.spark.sql.execution.SparkPlanInfo
    return result_of(_node(info.fromSparkPlan(rows._jdf.queryExecution().executedPlan())), kept)


def _node(info: Any) -> Node:
    children = info.children()
    made = [_node(children.apply(number)) for number in range(children.size())]
    return node(info.nodeName(), *made, said=info.simpleString())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> plan_inputs.Inputs:
    return plan_inputs.made(tmp_path_factory.mktemp("plans"))


@pytest.mark.parametrize(
    ("most_words", "join"),
    [(superseded.MOST_WORDS, "BroadcastHashJoin LeftOuter"), (0, "SortMergeJoin LeftOuter")],
)
def test_python_gets_records_only_after_superseded_ones_are_dropped(
    spark: SparkSession, inputs: plan_inputs.Inputs, most_words: int, join: str
) -> None:
    rows = records.captured(spark, inputs.capture)
    newest = superseded.newest_offsets(rows)
    before = spark.conf.get(_BROADCAST) or ""
    spark.conf.set(_BROADCAST, "-1")  # what is small is sent to all otherwise, whatever the code wants
    try:
        shape = planned(records.checked(superseded.dropped(rows, newest, most_words)), Kept())
    finally:
        spark.conf.set(_BROADCAST, before)
        newest.words.unpersist()

    operators = list(shape.operators())
    (python,) = (number for number, one in enumerate(operators) if PYTHON.match(one))
    assert operators[python - 2 : python + 1] == [join, "Filter", "MapInArrow check_batches"]
    assert ("Exchange broadcast" in operators) is (most_words > 0)
    assert operators.count("Exchange hash(word)") == (0 if most_words else 1), "words are divided so already"


class _Stopped(Exception):
    """The job needs to go no further."""


def test_readiness_checks_only_what_is_left(
    spark: SparkSession, inputs: plan_inputs.Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Shape] = []

    def checked(marked: DataFrame) -> DataFrame:
        given.append(planned(marked, Kept()))
        raise _Stopped

    monkeypatch.setattr(records, "checked", checked)
    with pytest.raises(_Stopped):
        readiness.run(spark, records.captured(spark, inputs.capture), CLUSTER, tmp_path)
    spark.catalog.clearCache()

    (shape,) = given
    operators = list(shape.operators())
    assert operators[-3:] == ["BroadcastHashJoin LeftOuter", "Filter", DRIVER]
    assert not any(map(PYTHON.match, operators))


def test_superseded_records_are_found_without_python_and_by_two_hash_aggregations(
    spark: SparkSession, inputs: plan_inputs.Inputs
) -> None:
    newest, kept = superseded.newest_offsets(records.captured(spark, inputs.capture)), Kept()
    planned(newest.words, kept)
    newest.words.unpersist()
    ((_, shape),) = kept.untold()
    assert list(shape.operators()) == [
        "Scan parquet", "HashAggregate", "Exchange hash(key, partition)", "HashAggregate",
        "HashAggregate", "Exchange hash(word)", "HashAggregate",
    ]  # fmt: skip


def test_groups_come_in_order_by_one_shuffle_and_python_gets_them_as_a_stream(
    spark: SparkSession, inputs: plan_inputs.Inputs
) -> None:
    rows = events.valid(events.parsed(events.from_files(spark, inputs.journal), audit.READ))
    shape = planned(audit.findings(rows, [], audit.DEFAULT_SKEW_US), Kept())
    assert list(shape.operators()) == [
        "Scan text", "MapInArrow parse_batches", "Filter", "Exchange hash(group)",
        "Sort(group, time_us, replica, boot, seq)", "MapInArrow through", DRIVER,
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_page_has_the_plans_of_the_code(spark: SparkSession) -> None:
    command = [sys.executable, "-m", "tests.pipeline.plans", "--check"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `python -m tests.pipeline.plans`:\n{done.stdout}{done.stderr[-3000:]}"
