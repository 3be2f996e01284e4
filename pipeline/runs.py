"""Which run's tables hold in a folder: a small file, the manifest, which a run replaces when its tables are complete.

A reader that begins with the manifest sees all tables of one run, never half of them, and never those of two runs.
"""

from typing import Literal

import msgspec

from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems, NotThereError
from pipeline.location import Location
from pipeline.rules.lines import VERSION as JOURNAL_VERSION
from protocol_codecs.foreign import JsonDecoder, Undecodable

MANIFEST = "_run.json"
"""Spark takes no file for data whose name begins with ``_``."""

RUNS = "runs"
"""The folder with a folder for each run."""

TABLES_VERSION = 1
"""Raised when a reader of the version before would take the tables for something else. New columns don't raise it."""

PARQUET: Literal["parquet"] = "parquet"
DELTA: Literal["delta"] = "delta"
Form = Literal["parquet", "delta"]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What an incremental audit continues from. Folders are relative to that of the tables."""

    rules_version: int
    """Of the members that ``groups`` has; the audit replays all events if it is not its own."""
    skew_us: int
    cut_us: int
    """Until when the state of the groups is."""
    events: tuple[str, ...]
    files: tuple[str, ...]
    groups: str
    ranges: str
    overlaps: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of the run that holds."""

    tables_version: int
    journal_version: int
    run: str
    command: str
    form: Form
    parts: dict[str, tuple[str, ...]] = {}
    """Parquet: the folders of each table, relative to that of the tables."""
    versions: dict[str, int] = {}
    """Delta Lake: the version of each table."""
    state: State | None = None


class _Versions(msgspec.Struct):
    """What every version of this file has."""

    tables_version: int
    journal_version: int


def current(files: FileSystems, folder: Location) -> Manifest | None:
    """Return the manifest; None if there is none, as progress and older versions write tables.

    Raises PipelineError if it was written by a version whose tables this one would misunderstand.
    """
    at = folder / MANIFEST
    try:
        content = files.read(at)
    except NotThereError:
        return None
    return decoded(content, at)


_MOST_BYTES = 16 * 1024 * 1024
_versions = JsonDecoder(_Versions, _MOST_BYTES)
_manifest = JsonDecoder(Manifest, _MOST_BYTES)


def decoded(content: bytes, at: object) -> Manifest:
    """Read a manifest. Raises PipelineError."""
    try:
        found = _versions.decode(content)
        for what, version, known in (
            ("tables", found.tables_version, TABLES_VERSION),
            ("journal", found.journal_version, JOURNAL_VERSION),
        ):
            if version > known:
                raise PipelineError(
                    f"{at}: written by a newer Epochgate ({what} version {version}, known here is {known}): "
                    "read it with that version"
                )
        return _manifest.decode(content)
    except Undecodable as error:
        raise PipelineError(f"{at}: no manifest of a run: {error}") from error


def replace(files: FileSystems, folder: Location, manifest: Manifest) -> None:
    """Make this run the one that holds."""
    files.replace(folder / MANIFEST, _encoded(manifest))


def replace_if(files: FileSystems, folder: Location, manifest: Manifest, before: Manifest | None) -> None:
    """Make this run the one that holds; on S3 only if that which holds is still ``before``, else raise PipelineError.

    So a run that has slept while another one took its folder changes nothing. Elsewhere the lock must do.
    """
    at = folder / MANIFEST
    if not files.has_tags(at):
        replace(files, folder, manifest)
        return
    tag = files.tag(at)  # before the content is read: if that is the old one, the tag is its own
    written = current(files, folder) == before and files.write_over(at, _encoded(manifest), tag)
    if (
        not written and current(files, folder) != manifest
    ):  # the answer to the call that wrote it may have been lost
        raise PipelineError(f"{at}: another run has replaced it, so this one ends")


def _encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest))
