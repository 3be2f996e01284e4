"""What the figures of the report are made of: a few rows, as dicts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = list[dict[str, Any]]


def rows_of(found: "DataFrame") -> Rows:
    """Bring rows to the driver."""
    return [row.asDict(recursive=True) for row in found.collect()]
