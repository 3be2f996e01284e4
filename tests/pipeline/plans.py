"""Writes the shapes of the jobs' plans into docs/explanation/pipeline-plans.md: ``python -m tests.pipeline.plans``.

Each job runs on small data with Spark's event log, which has the plan of each query as it was in the end. Joins that
Spark chooses by size are those of large tables here: only what the code wants to be broadcast is.
"""

import argparse
import contextlib
import difflib
import itertools
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from pipeline import spark as sessions
from tests.pipeline import plan_inputs
from tests.pipeline.command_line import SETTINGS
from tests.pipeline.plan_shapes import NOTHING, Kept, Node, Shape, result_of, told
from tools.markers import replaced

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "pipeline-plans.md"
_ADAPTIVE = "org.apache.spark.sql.execution.adaptive."
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."
_OF_FEW_ROWS = (
    f"{_ADAPTIVE}AQEPropagateEmptyRelation",
    f"{_ADAPTIVE}DynamicJoinSelection",
    f"{_OPTIMIZER}ConvertToLocalRelation",
    f"{_OPTIMIZER}EliminateLimits",
    f"{_OPTIMIZER}OptimizeOneRowPlan",
)
"""Rules that leave out what a plan does not need for the few rows, or none, that it happens to have here."""
AS_FOR_LARGE_TABLES = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.optimizer.excludedRules": ",".join(_OF_FEW_ROWS),
}
OUTSIDE = "outside a step"
"""What is not in a step of :func:`pipeline.watch.step`."""
_START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_UPDATE = "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate"


class Query(NamedTuple):
    """A query of a job: its step or stream, and its plan as it was in the end."""

    step: str
    of_stream: bool
    plan: Node


@contextlib.contextmanager
def session(name: str, log: Path) -> Iterator[SparkSession]:
    """Start a session whose event log is in a folder."""
    log.mkdir(parents=True)
    conf = {
        **SETTINGS,
        **AS_FOR_LARGE_TABLES,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": log.as_uri(),
    }
    spark = sessions.start(name, master="local[2]", conf=conf)
    try:
        yield spark
    finally:
        spark.stop()


def queries(log: Path) -> list[Query]:
    """Return the queries in an event log, in the order in which they began, without those of a run before the run."""
    begun: dict[int, dict[str, Any]] = {}
    for file in sorted(log.rglob("events_*")):
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["Event"] == _START:
                begun[event["executionId"]] = event
            elif event["Event"] == _UPDATE:
                begun[event["executionId"]]["sparkPlanInfo"] = event["sparkPlanInfo"]
    found = [_query(event) for _, event in sorted(begun.items())]
    own = [number for number, one in enumerate(found) if one.step == plan_inputs.BEFORE]
    return found[own[-1] + 1 :] if own else found


def _query(event: dict[str, Any]) -> Query:
    step, of_stream, _ = event["description"].partition("\nid = ")
    return Query(step or OUTSIDE, bool(of_stream), event["sparkPlanInfo"])


def blocks(found: list[Query]) -> dict[str, str]:
    """Return the text of each step: its shapes, each once, with how many queries have it.

    Of a stream every batch has them, but those without new lines are not told.
    """
    by_step: dict[str, list[Query]] = {}
    for one in found:
        by_step.setdefault(one.step, []).append(one)
    kept = Kept()
    return {step: _block(of_step, kept) for step, of_step in by_step.items()}


def _block(found: list[Query], kept: Kept) -> str:
    counted: dict[Shape, int] = {}
    made: list[tuple[int, Shape]] = []
    for one in found:
        shape = result_of(one.plan, kept, of_stream=one.of_stream)
        made += kept.untold()
        if not one.of_stream or NOTHING not in shape.operators():
            counted[shape] = 1 if one.of_stream else counted.get(shape, 0) + 1
    texts = [[f"kept {number}:", *told(shape, "  ")] for number, shape in made]
    for shape, count in counted.items():
        texts.append(told(shape) if count == 1 else [f"{count} times:", *told(shape, "  ")])
    return "".join(_separated(texts)).strip("\n")


def _separated(texts: list[list[str]]) -> Iterator[str]:
    """Yield the lines of all, with an empty one around those that have more than one."""
    for before, lines in itertools.pairwise([[""], *texts]):
        if len(before) > 1 or len(lines) > 1:
            yield "\n"
        yield from (f"{line}\n" for line in lines)


def all_blocks(folder: Path) -> dict[str, str]:
    """Run every job; return the text of each block of the page, by its name."""
    found = {}
    inputs = plan_inputs.made(folder)
    for command, run in plan_inputs.JOBS.items():
        log = folder / "events" / command.replace(" ", "-")
        with session(command, log) as spark:
            run(spark, inputs)
        found |= {f"{command}: {step}": text for step, text in blocks(queries(log)).items()}
    return found


def page(before: str, found: dict[str, str]) -> str:
    """Return the page with these blocks. Raises ValueError if it lacks one, or has one more."""
    if more := set(names(before)) - set(found):
        raise ValueError(f"no job has these steps any more: {', '.join(sorted(more))}")
    for name, text in found.items():
        before = replaced(before, name, f"```text\n{text}\n```\n")
    return before


def names(text: str) -> list[str]:
    """Return the names of the page's blocks."""
    return re.findall(r"^<!-- /(.+) -->$", text, re.MULTILINE)


def main() -> None:
    """Run the jobs and write the page, or say what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.plans", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; print what differs, and fail if it does"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = all_blocks(Path(folder))
    before = PAGE.read_text(encoding="utf-8")
    after = page(before, found)
    if not chosen.check:
        PAGE.write_text(after, encoding="utf-8")
        return
    both = (text.splitlines() for text in (before, after))
    differs = list(difflib.unified_diff(*both, "the page", "the code", lineterm=""))
    print("\n".join(differs) or "the page has the plans of the code")
    if differs:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
