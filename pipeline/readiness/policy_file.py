"""Makes the policy files that make the proxy translate all waves up to a given one."""

import re
from collections.abc import Iterable, Iterator

import yaml

from pipeline.readiness.waves import Place

_NAME = re.compile(r"wave-.*\.yaml")


def is_generated(name: str) -> bool:
    """Whether a file of this name in the folder of policies is one of an earlier run."""
    return _NAME.fullmatch(name) is not None


def contents(
    places: Iterable[Place], *, assignors_allowed: Iterable[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """Yield one file for each wave, its name and content, with the groups of that wave and of all before it.

    Each has ``assignors_allowed``, without which the proxy would not translate what was judged with them.
    """
    allowed = ", ".join(map(quoted, sorted(assignors_allowed)))
    head = f"assignors_allowed: [{allowed}]\n" if allowed else ""
    rules: list[str] = []
    wave = 0
    for place in places:
        if place.wave != wave and wave:
            yield _name(wave), _content(wave, head, rules)
        wave = place.wave
        name = quoted(place.candidate.group_id)
        rules.append(f"  - {{group: {name}, mode: translate}}\n")
    if wave:
        yield _name(wave), _content(wave, head, rules)


def _name(wave: int) -> str:
    return f"wave-{wave:02}.yaml"


def _content(wave: int, allowed: str, rules: list[str]) -> bytes:
    head = f"# Waves 1 to {wave}: {len(rules)} groups. Written by `epochgate pipeline readiness`.\n"
    return f"{head}default: observe\n{allowed}rules:\n{''.join(rules)}".encode()


def quoted(name: str) -> str:
    """Return the text as a YAML string, even if it reads like another type: a group may be called ``no``."""
    readable = name.isprintable()
    return str(yaml.safe_dump(name, default_style='"', allow_unicode=readable, width=2**30)).rstrip("\n")
