"""What a run has in common with the runs before it in one folder, and how to begin again.

Spark goes on from a checkpoint only if the streams keep the form that they had. What decides that is written beside the
checkpoints; a run that differs is refused before a stream is started, and says what would have to be done. All else
(intervals, limits, how long a member may be stuck, Spark's settings) may change from run to run.
"""

import time
from collections.abc import Iterator

import msgspec
import pyspark

from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems, NotThereError
from pipeline.location import Location
from protocol_codecs.foreign import JsonDecoder, Undecodable

STATE = 2
"""The version of what the streams keep. It is raised when a checkpoint of the version before can't be read on."""

FORM = "form.json"
OFFSETS = "offsets"
"""Folder in a stream's checkpoint with a file for each batch, which says what the batch reads."""
ASIDE = "_before"


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """What the streams of one folder have in common for good. Fields that are null were not decided yet."""

    state: int
    pyspark: str
    source: str | None
    window: str
    lateness: str
    skew_us: int | None = None
    delay_s: float | None = None
    shards: int | None = None


_form = JsonDecoder(Form, 64 * 1024)
_WORDS = {
    "state": "what the streams keep is of another version of epochgate",
    "source": "the journal",
    "window": "--window",
    "lateness": "--lateness",
    "skew_us": "--skew-ms (in microseconds)",
    "delay_s": "--audit-delay-s",
    "shards": "--audit-shards",
}


def check(files: FileSystems, checkpoints: Location, form: Form) -> None:
    """Note the form if it is the first, else compare. Raises PipelineError of one line."""
    before = _read(files, checkpoints)
    if before is None:
        _write(files, checkpoints, form)
        return
    if (different := next(_differences(before, form), None)) is not None:
        raise PipelineError(
            f"{checkpoints}: {different}: this needs a new checkpoint and a replay of the journal: run it once with "
            "--replay, or choose another folder"
        )
    decided = {name: value for name, value in msgspec.structs.asdict(before).items() if value is not None}
    _write(files, checkpoints, msgspec.structs.replace(form, **decided | {"pyspark": form.pyspark}))


def forget_unbegun(files: FileSystems, checkpoints: Location) -> None:
    """Delete what a killed run has left of streams that have noted no offset yet: they begin anew in any case.

    Spark writes each offset beside its place and renames it. Since 4.1 it refuses to begin where one is left that has
    not been renamed, as if offsets of batches had been lost. Where any batch is noted, nothing is deleted.
    """
    if not files.is_folder(checkpoints):
        return
    for stream in files.names(checkpoints):
        offsets = checkpoints / stream / OFFSETS
        if not files.is_folder(offsets):
            continue
        names = files.names(offsets)
        if all(name.startswith(".") for name in names):
            for name in names:
                files.delete(offsets / name)


def set_aside(files: FileSystems, out: Location, names: tuple[str, ...]) -> Location | None:
    """Move these folders of ``out`` into a new one that Spark overlooks; return it, None if none was there."""
    there = [name for name in names if files.is_folder(out / name)]
    if not there:
        return None
    aside = out / f"{ASIDE}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    files.make_folder(aside)
    for name in there:
        files.rename(out / name, aside / name)
    return aside


def running(source: str, window: str, lateness: str) -> Form:
    """Return the form of a run without a live audit."""
    return Form(STATE, pyspark.__version__, source or None, window, lateness)


def _differences(before: Form, now: Form) -> Iterator[str]:
    if _numbers(now.pyspark) < _numbers(before.pyspark):
        yield f"it was written by PySpark {before.pyspark}, and this is {now.pyspark}"
    for name, words in _WORDS.items():
        was, value = getattr(before, name), getattr(now, name)
        if was is not None and value is not None and was != value:
            yield f"{words} was {was} and is {value}"


def _numbers(version: str) -> tuple[int, ...]:
    """Return major and minor version."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _read(files: FileSystems, checkpoints: Location) -> Form | None:
    try:
        return _form.decode(files.read(checkpoints / FORM))
    except NotThereError:
        return None
    except Undecodable as error:
        raise PipelineError(f"{checkpoints / FORM}: {error}: --replay begins anew") from error


def _write(files: FileSystems, checkpoints: Location, form: Form) -> None:
    files.make_folder(checkpoints)
    files.write(checkpoints / FORM, msgspec.json.encode(form))
