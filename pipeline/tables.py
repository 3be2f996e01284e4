"""Declares a table once, with the type and meaning of each column, for Arrow, Spark and the docs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LONG = pa.int64()
INT = pa.int32()
TEXT = pa.string()
BYTES = pa.binary()
FLAG = pa.bool_()
_NAMES = {
    LONG: "bigint",
    INT: "int",
    TEXT: "string",
    BYTES: "binary",
    FLAG: "boolean",
    pa.float64(): "double",
}


def list_of(item: pa.DataType) -> pa.DataType:
    """Return a list type whose items are named as Spark names them."""
    return pa.list_(pa.field("element", item))


TOPIC_PARTITIONS = list_of(
    pa.struct([pa.field("topic", TEXT), pa.field("topic_id", TEXT), pa.field("partitions", list_of(INT))])
)
"""Partitions by topic; the name or the id is null if the record does not have it."""


class Column(NamedTuple):
    """One column. Every column may be null where its meaning says so."""

    name: str
    kind: pa.DataType
    meaning: str


class Table(NamedTuple):
    """A table that a job writes as Parquet into a folder of this name."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """Return the schema as Spark DDL."""
        return ", ".join(f"`{column.name}` {ddl_of(column.kind)}" for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    @property
    def arrow(self) -> pa.Schema:
        """Return the schema for Arrow."""
        return pa.schema([pa.field(column.name, column.kind) for column in self.columns])

    def batch(self, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
        """Return rows, each with a value for every column, as an Arrow batch for Spark."""
        by_column = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        arrays = [
            pa.array(values, column.kind) for values, column in zip(by_column, self.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def write(self, rows: "DataFrame", folder: Path | str) -> None:
        """Replace the table in ``folder``."""
        rows.select(*self.names).write.mode("overwrite").parquet(f"{folder}/{self.name}")

    def read(self, spark: "SparkSession", folder: Path | str) -> "DataFrame":
        """Read the table in ``folder``."""
        return spark.read.schema(self.ddl).parquet(f"{folder}/{self.name}")


def ddl_of(kind: pa.DataType) -> str:
    """Return Spark's name of an Arrow type."""
    if pa.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return f"struct<{', '.join(f'{field.name}: {ddl_of(field.type)}' for field in fields)}>"
    return _NAMES[kind]
