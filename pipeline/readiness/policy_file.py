"""Writes the policy files that make the proxy translate all waves up to a given one."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from pipeline.readiness.waves import Place

DEFAULT_PAUSE_MS = 1_000


def write(
    places: Iterable[Place],
    folder: Path,
    *,
    pause_ms: int = DEFAULT_PAUSE_MS,
    assignors_allowed: Iterable[str] = (),
) -> list[Path]:
    """Write one file for each wave, with the groups of that wave and of all before it. Return the files.

    Each has ``assignors_allowed``, without which the proxy would not translate what was judged with them.
    """
    allowed = ", ".join(map(quoted, sorted(assignors_allowed)))
    head = f"assignors_allowed: [{allowed}]\n" if allowed else ""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("wave-*.yaml"):
        old.unlink()
    rules: list[str] = []
    files: list[Path] = []
    wave = 0
    for place in places:
        if place.wave != wave and wave:
            files.append(_file(folder, wave, head, rules))
        wave = place.wave
        name = quoted(place.candidate.group_id)
        rules.append(f"  - {{group: {name}, mode: translate, switch_pause_ms: {pause_ms}}}\n")
    if wave:
        files.append(_file(folder, wave, head, rules))
    return files


def _file(folder: Path, wave: int, allowed: str, rules: list[str]) -> Path:
    file = folder / f"wave-{wave:02}.yaml"
    head = f"# Waves 1 to {wave}: {len(rules)} groups. Written by `epochgate pipeline readiness`.\n"
    file.write_text(f"{head}default: observe\n{allowed}rules:\n{''.join(rules)}", encoding="utf-8")
    return file


def quoted(name: str) -> str:
    """Return the text as a YAML string, even if it reads like another type: a group may be called ``no``."""
    readable = name.isprintable()
    return str(yaml.safe_dump(name, default_style='"', allow_unicode=readable, width=2**30)).rstrip("\n")
