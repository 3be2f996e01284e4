"""Keeps tables in order: shows what holds, makes few files of many, and deletes what old versions needed."""

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pipeline import delta, runs
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.publish import OPEN
from pipeline.quality import QUALITY
from pipeline.runs import Manifest
from pipeline.single_run import single_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_KEPT = ("events", "files", "overlaps")
"""Of what an incremental audit goes on from: each run adds a folder."""


class Held(NamedTuple):
    """What holds in a folder."""

    run: str
    command: str
    form: str
    quality: list[dict[str, Any]]
    holds: dict[str, int]
    """Delta Lake: the version of each table."""
    versions: dict[str, list[dict[str, Any]]]
    """Delta Lake: all versions of each table, the newest first."""


def show(spark: "SparkSession", folder: Location) -> Held:
    """Return what holds. Raises PipelineError if the folder has no run of readiness or audit."""
    manifest = _manifest(FileSystems(spark), folder)
    checks = QUALITY.read(spark, folder.uri).collect() if QUALITY.is_in(spark, folder.uri) else []
    versions = {name: delta.history(spark, folder / name) for name in manifest.versions}
    return Held(
        manifest.run,
        manifest.command,
        manifest.form,
        [row.asDict() for row in checks],
        dict(manifest.versions),
        versions,
    )


def compact(spark: "SparkSession", folder: Location) -> list[str]:
    """Make few files of many; return what was compacted. Raises PipelineError.

    The folders of an incremental audit's runs are joined: of its tables, and of what it goes on from. The next run
    deletes those of the runs before, so that readers may end. Tables in Delta Lake: OPTIMIZE.
    """
    files = FileSystems(spark)
    with single_run(spark, folder) as check_alone:
        manifest = _manifest(files, folder)
        if manifest.form == runs.DELTA:
            versions = {
                name: _optimized(spark, files, folder / name, of) for name, of in manifest.versions.items()
            }
            done = [name for name in versions if versions[name] != manifest.versions[name]]
            fresh = msgspec.structs.replace(manifest, versions=versions)
        else:
            parts = {
                name: _settled_joined(spark, folder, manifest.run, name, parts)
                for name, parts in manifest.parts.items()
            }
            done = [name for name in parts if parts[name] != manifest.parts[name]]
            fresh = msgspec.structs.replace(manifest, parts=parts)
        if (state := manifest.state) is not None:
            kept = {name: _joined(spark, folder, manifest.run, name, getattr(state, name)) for name in _KEPT}
            done += [name for name in kept if kept[name] != getattr(state, name)]
            fresh = msgspec.structs.replace(fresh, state=msgspec.structs.replace(state, **kept))
        check_alone()
        runs.replace_if(files, folder, fresh, manifest)
    return done


def vacuum(spark: "SparkSession", folder: Location, keep_hours: int) -> None:
    """Delete the files that tables in Delta Lake do not need any more. Raises PipelineError.

    A reader that began with the manifest can end if it takes less than ``keep_hours``, together with the run that
    replaced what it reads: files are kept for so long after the version that no longer needs them was written.
    """
    files = FileSystems(spark)
    with single_run(spark, folder) as check_alone:
        manifest = _manifest(files, folder)
        if manifest.form != runs.DELTA:
            raise PipelineError(
                f"{folder}: its tables are in Parquet: the next run deletes what is no longer needed"
            )
        versions = {}
        for name, version in manifest.versions.items():
            delta.hold(spark, files, folder / name, version)
            delta.vacuum(spark, folder / name, keep_hours)
            versions[name] = _latest(files, folder / name)  # it logs that it was here
        check_alone()
        runs.replace_if(files, folder, msgspec.structs.replace(manifest, versions=versions), manifest)


def _optimized(spark: "SparkSession", files: FileSystems, table: Location, version: int) -> int:
    """Compact a table of Delta Lake; return the version that it has now."""
    delta.hold(spark, files, table, version)
    delta.optimize(spark, table)
    return _latest(files, table)


def _latest(files: FileSystems, table: Location) -> int:
    version = delta.latest_version(files, table)
    if version is None:
        raise PipelineError(f"{table}: its log is gone")
    return version


def _settled_joined(
    spark: "SparkSession", folder: Location, run: str, name: str, parts: tuple[str, ...]
) -> tuple[str, ...]:
    """Write all settled folders of a table as one; return the folders that it has then."""
    opened = tuple(part for part in parts if part.endswith(f"/{OPEN}/{name}"))
    settled = tuple(part for part in parts if part not in opened)
    return (*_joined(spark, folder, run, name, settled), *opened)


def _joined(
    spark: "SparkSession", folder: Location, run: str, name: str, parts: tuple[str, ...]
) -> tuple[str, ...]:
    """Write folders of Parquet as one; return the folders that are left."""
    if len(parts) < 2:
        return parts
    into = f"{runs.RUNS}/{run}/compacted-{len(parts)}/{name}"
    places = [f"{folder.uri}/{part}" for part in parts]
    rows = spark.read.option("mergeSchema", "true").parquet(*places)  # an older version may lack columns
    count = max(1, rows.rdd.getNumPartitions() // len(parts))
    rows.coalesce(count).write.mode("overwrite").parquet(f"{folder.uri}/{into}")
    return (into,)


def _manifest(files: FileSystems, folder: Location) -> Manifest:
    manifest = runs.current(files, folder)
    if manifest is None:
        raise PipelineError(f"{folder}: no run of readiness or audit has written tables there")
    return manifest
