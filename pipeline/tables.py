"""Declares a table once, with the type and meaning of each column, for Arrow, Spark and the docs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pipeline import delta, location, runs
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems

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
    """A table that a job writes into a folder of this name."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    time: str | None = None
    """The column, in microseconds, that says on which day a row belongs; None: on that of its run."""

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

    @property
    def group(self) -> str | None:
        """Return the column with the group; None if rows are not a group's."""
        return next((name for name in ("group", "group_id") if name in self.names), None)

    def write(self, rows: "DataFrame", folder: Path | str) -> None:
        """Replace the table in ``folder``, as Parquet and file by file: where nobody reads yet."""
        rows.select(*self.names).write.mode("overwrite").parquet(f"{folder}/{self.name}")

    def read(self, spark: "SparkSession", folder: Path | str) -> "DataFrame":
        """Read the table in ``folder``: that of the run that holds there (see :mod:`pipeline.runs`).

        Columns that an older version did not write are null. Raises PipelineError.
        """
        at = location.of(folder)
        manifest = runs.current(FileSystems(spark), at)
        if manifest is None:
            return self.read_parts(spark, [f"{folder}/{self.name}"])
        if manifest.form == runs.DELTA:
            if self.name not in manifest.versions:
                raise PipelineError(self._lacking(folder))
            return self.of(delta.read(spark, at / self.name, manifest.versions[self.name]))
        if self.name not in manifest.parts:
            raise PipelineError(self._lacking(folder))
        return self.read_parts(spark, [f"{at.uri}/{part}" for part in manifest.parts[self.name]])

    def read_parts(self, spark: "SparkSession", places: Sequence[str]) -> "DataFrame":
        """Read the table from these folders of Parquet files."""
        return spark.read.schema(self.ddl).parquet(*places)

    def of(self, rows: "DataFrame") -> "DataFrame":
        """Return the columns of the table from rows with more of them, or with fewer (those are null)."""
        there = set(rows.columns)
        return rows.selectExpr(
            *(
                f"`{one.name}`" if one.name in there else f"CAST(NULL AS {ddl_of(one.kind)}) AS `{one.name}`"
                for one in self.columns
            )
        )

    def is_in(self, spark: "SparkSession", folder: Path | str) -> bool:
        """Whether the folder has the table."""
        files, at = FileSystems(spark), location.of(folder)
        manifest = runs.current(files, at)
        if manifest is None:
            return files.is_folder(at / self.name)
        return self.name in (manifest.versions if manifest.form == runs.DELTA else manifest.parts)

    def _lacking(self, folder: object) -> str:
        return f"{folder} has no table {self.name!r}: it is not what the command wrote"


def ddl_of(kind: pa.DataType) -> str:
    """Return Spark's name of an Arrow type."""
    if pa.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return f"struct<{', '.join(f'{field.name}: {ddl_of(field.type)}' for field in fields)}>"
    return _NAMES[kind]
