"""Writes docs/reference/pipeline-tables.md from the code: ``python -m tools.pipeline_docs``. A test compares both."""

from pathlib import Path

from pipeline.audit import output as audit
from pipeline.journal.unfinished import UNFINISHED
from pipeline.progress import output as progress
from pipeline.quality import QUALITY
from pipeline.quarantine import QUARANTINE
from pipeline.readiness import output as readiness
from pipeline.readiness.records import CAPTURED
from pipeline.readiness.share_partitions import CAPTURED_SHARE
from pipeline.tables import Table, ddl_of
from tools.markers import replaced

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "pipeline-tables.md"
_BY_JOB = {
    "capture": (CAPTURED, CAPTURED_SHARE),
    "readiness": readiness.TABLES,
    "progress": progress.TABLES,
    "audit": audit.TABLES,
    "progress and audit": (UNFINISHED,),
    "all of them but capture": (QUARANTINE,),
    "readiness and audit": (QUALITY,),
}


def tables() -> str:
    """Return every table with its columns, as Markdown."""
    return "".join(
        f"\n### Written by {job}\n{''.join(_table(table) for table in of_job)}"
        for job, of_job in _BY_JOB.items()
    )


def _table(table: Table) -> str:
    rows = (
        f"| `{column.name}` | {ddl_of(column.kind)} | {column.meaning.replace('|', chr(92) + '|')} |\n"
        for column in table.columns
    )
    return f"\n**{table.name}**: {table.meaning}\n\n| column | type | meaning |\n| --- | --- | --- |\n{''.join(rows)}"


def page(before: str) -> str:
    """Return the page with its tables written anew."""
    return replaced(before, "tables", f"{tables()}\n")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print("docs/reference/pipeline-tables.md")


if __name__ == "__main__":
    main()
