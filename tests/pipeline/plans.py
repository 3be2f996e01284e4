"""Runs the jobs on little data and notes the physical plan of all that they keep or write, for the page about plans.

`python -m tests.pipeline.plans` writes the plans into docs/explanation/pipeline-plans.md; a test compares them.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import DataFrame, SparkSession

from pipeline import spark as sessions
from pipeline.audit import job as audit
from pipeline.journal import events
from pipeline.progress import job as progress
from pipeline.progress import streams
from pipeline.readiness import job as readiness
from pipeline.readiness import records
from pipeline.tables import Table
from tests.pipeline.command_line import SETTINGS
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.test_bad_records import CLUSTER, capture, classic, commit, consumer_group

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "pipeline-plans.md"
KEPT = {
    "readiness": ("checked", "newest", "share state", "classic groups", "consumer groups", "share groups"),
    "audit": ("lines", "words", "holes", "findings"),
}
"""What the jobs keep on disk until they end, in the order in which they begin to."""
_UNSAID = {"Project", "Filter", "AdaptiveSparkPlan", "ColumnarToRow", "Execute", "WriteFiles", "Scan"}
_OPERATOR = re.compile(r"^(?P<depth>[\s:+\-|]*)(?:\*\(\d+\) |\* )?(?P<name>[A-Z]\w+)(?P<rest>.*)")


def shape(frame: DataFrame) -> str:
    """Return the operators of a frame's plan, those that move or hold data, from the last to the source."""
    return shape_of(explained(frame))


def explained(frame: DataFrame) -> str:
    """Return Spark's text of a frame's plan."""
    jvm, query = frame.sparkSession._jvm, frame._jdf.queryExecution()
    return str(jvm.PythonSQLUtils.explainString(query, "simple"))


def shape_of(text: str) -> str:
    """Return the operators of such a text."""
    lines: list[str] = []
    depths: list[int] = []
    inside_kept: int | None = None
    for line in text.splitlines()[1:]:
        found = _OPERATOR.match(line)
        if found is None:
            continue
        depth, name = len(found["depth"]), found["name"]
        if inside_kept is not None and depth > inside_kept:
            continue
        inside_kept = depth if name == "InMemoryTableScan" else None
        if name in _UNSAID:
            continue
        while depths and depths[-1] >= depth:
            depths.pop()
        said = f"{'  ' * len(depths)}{name}{_details(name, found['rest'])}"
        depths.append(depth)
        if not (lines and lines[-1].strip() == said.strip() and name == "Union"):
            lines.append(said)
    return "\n".join(lines)


def _details(name: str, rest: str) -> str:
    """Return by what an exchange moves rows and a join compares them; that is what makes a plan cheap or not."""
    rest = re.sub(r"#\d+L?", "", rest)
    if name == "Exchange":
        by = re.match(r" (\w+)(?:\((.*?)(?:, \d+)?\))?", rest)
        return f" {by[1]}({by[2]})" if by and by[2] else f" {by[1]}" if by else ""
    if name.endswith("Join"):
        return f" {rest.split('], ')[-1].split(',')[0]}" if "]" in rest else ""
    return f" {rest.split()[0]}" if name == "FileScan" else ""


@contextmanager
def noted(job: str) -> Iterator[dict[str, str]]:
    """Note the plans of all that a job keeps or writes, by their names."""
    plans: dict[str, str] = {}
    kept = iter(KEPT.get(job, ()))
    write, persist = Table.write, DataFrame.persist

    def note_table(table: Table, rows: DataFrame, folder: Any) -> None:
        plans[f"{job}: table {table.name}"] = shape(rows.select(*table.names))
        write(table, rows, folder)

    def note_kept(rows: DataFrame, *level: Any) -> DataFrame:
        plans[f"{job}: kept {next(kept, 'more')}"] = shape(rows)
        return persist(rows, *level)

    with mock.patch.object(Table, "write", note_table), mock.patch.object(DataFrame, "persist", note_kept):
        yield plans


def plans_of(spark: SparkSession, folder: Path) -> dict[str, str]:
    """Return the plans of readiness and the audit, and of the streams of progress."""
    source = capture(folder / "capture", [classic("g"), commit("g"), commit("g"), *consumer_group("h")])
    with noted("readiness") as found:
        readiness.run(spark, records.captured(spark, source), CLUSTER, folder / "readiness")
    Migration(Plan(3, violations=1, lost=0.005)).save(folder / "journal", disorder=30, per_file=400)
    with noted("audit") as of_audit:
        audit.run(spark, events.from_files(spark, folder / "journal"), folder / "audit")
    lines = events.parsed(progress.lines_of_files(spark, folder / "journal"))
    unique = streams.deduplicated(events.valid(lines), streams.Options().lateness)
    return {
        **found,
        **of_audit,
        "progress: stream windows": shape(streams.windows(unique, streams.Options().window)),
        "progress: stream transitions": shape(streams.transitions(unique)),
    }


def blocks(page: str) -> dict[str, str]:
    """Return the plans that the page shows."""
    return dict(re.findall(r"\*\*(.+?)\*\*[^\n]*\n\n```text\n(.*?)\n```", page, re.DOTALL))


def with_plans(page: str, plans: dict[str, str]) -> str:
    """Return the page with these plans in the places of those that it shows."""
    for name, old in blocks(page).items():
        head, tail = page.split(f"**{name}**", 1)
        page = f"{head}**{name}**{tail.replace(_block(old), _block(plans[name]), 1)}"
    return page


def _block(plan: str) -> str:
    return f"```text\n{plan}\n```"


def main() -> None:
    """Write the plans into the page."""
    spark = sessions.start("plans", master="local[2]", conf=dict(SETTINGS))
    with tempfile.TemporaryDirectory() as folder:
        plans = plans_of(spark, Path(folder))
    for name, plan in plans.items():
        print(f"{name}\n{plan}\n")
    if PAGE.exists():
        PAGE.write_text(with_plans(PAGE.read_text(encoding="utf-8"), plans), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
