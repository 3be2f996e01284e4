"""Writes generated files into a folder, beside those of people: whole files, and none that somebody has changed.

Each file is replaced by a rename, and the manifest is the last: until then the proxy finds that the files do not fit
their manifest, and stays with the policy before.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from pipeline.errors import PipelineError
from protocol_codecs.foreign import Undecodable
from protocol_codecs.policy_manifest import MANIFEST, decode_manifest, is_as_generated, is_generated

_MOST_LINES = 100
"""Groups that a difference names."""


class Written(NamedTuple):
    """What has become of the folder."""

    changed: tuple[str, ...]
    removed: tuple[str, ...]
    differences: tuple[str, ...]


def write(folder: Path, files: Mapping[str, bytes]) -> Written:
    """Write the files; remove those that were generated before and are not among them.

    :raises PipelineError: a file is somebody's own, or can't be written. Nothing is changed then.
    """
    try:
        present = _present(folder)
        for name, content in sorted(present.items()):
            if name in files or is_generated(content):
                _refuse_own(folder / name, content)
        removed = tuple(name for name in sorted(present) if name not in files and is_generated(present[name]))
        changed = tuple(name for name in sorted(files) if present.get(name) != files[name])
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(changed, key=lambda one: (one == MANIFEST, one)):
            _replace(folder / name, files[name])
        for name in removed:
            (folder / name).unlink()
    except OSError as error:
        raise PipelineError(f"{error.filename}: {error.strerror}") from None
    return Written(changed, removed, tuple(differences(present, files)))


def differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """What the groups of two sets of generated files differ in, in words."""
    old, new = _groups(before), _groups(after)
    lines = []
    for group_id in sorted(old.keys() | new.keys()):
        was, is_ = old.get(group_id), new.get(group_id)
        if was is None and is_ is not None:
            lines.append(f"+ {group_id}: {is_}")
        elif is_ is None:
            lines.append(f"- {group_id}: {was}")
        elif was != is_:
            lines.append(f"  {group_id}: {was} -> {is_}")
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"and {len(lines) - _MOST_LINES} more groups"


def _present(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    names = [one for one in folder.iterdir() if one.suffix == ".yaml" or one.name == MANIFEST]
    return {one.name: one.read_bytes() for one in names if not one.name.startswith(".")}


def _refuse_own(file: Path, content: bytes) -> None:
    if file.name == MANIFEST:
        try:
            decode_manifest(content)
        except Undecodable:
            raise PipelineError(f"{file}: was not generated, so it is not written over") from None
    elif not is_generated(content):
        raise PipelineError(f"{file}: was not generated, so it is not written over")
    elif not is_as_generated(content):
        raise PipelineError(
            f"{file}: was changed after it was generated. Put what you changed into a file of your own whose name "
            "sorts before it (the first rule counts), and delete this one"
        )


def _replace(file: Path, content: bytes) -> None:
    new = file.with_name(f".{file.name}.new")
    with new.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)


def _groups(files: Mapping[str, bytes]) -> dict[str, str]:
    """How each group of generated files moves, in words."""
    found: dict[str, str] = {}
    for name, content in sorted(files.items()):
        if name == MANIFEST or not is_as_generated(content):
            continue
        loaded = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe
        for rule in (loaded or {}).get("rules") or ():
            how = f"wave {rule['wave']}, steps {', '.join(map(str, rule['steps']))}, hold_s {rule['hold_s']}"
            found.update((group_id, how) for group_id in rule["groups"])
    return found
