"""Makes a policy out of the table of waves: files by name, the same for the same table and options. Pure.

A wave has a file, or several if one would be too large for a ConfigMap. Groups that brokers convert only while they are
empty get 100 % as their only step, since nobody can move a share of them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pipeline.readiness.policy_file import quoted
from protocol_codecs.policy_manifest import MANIFEST, generated, manifest_of

COMMON = "waves.yaml"
"""The file with what holds for all waves."""

MOST_BYTES = 800 * 1024
"""Bytes of the groups of one file: a ConfigMap has 1 MiB at most, for all that it says."""

LONGEST_GROUP_ID = 255
"""Characters: the proxy never translates a group with a longer id."""

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


class PlannedGroup(NamedTuple):
    """A row of the table of waves."""

    group_id: str
    wave: int
    position: int
    members: int
    at_once: bool


class Options(NamedTuple):
    """What the operator decides; see the command for each."""

    through_wave: int | None = None
    steps: tuple[str, ...] = ("1", "10%", "50%", "100%")
    hold_s: int = 600
    share: str = "100%"
    exclude: tuple[str, ...] = ()
    assignors_allowed: tuple[str, ...] = ()


class Skipped(NamedTuple):
    """A group that can move, and is not in the policy."""

    group_id: str
    why: str


class PolicySet(NamedTuple):
    """The files of a policy, with their manifest, and what is not in it."""

    files: dict[str, bytes]
    groups: int
    members: int
    waves: int
    skipped: tuple[Skipped, ...]


def policy_set(rows: Iterable[PlannedGroup], options: Options) -> PolicySet:
    """Make the policy of all waves that are live."""
    planned, skipped = [], []
    for row in sorted(rows, key=lambda one: one.position):
        why = _why_skipped(row, options)
        if why is None:
            planned.append(row)
        else:
            skipped.append(Skipped(row.group_id, why))
    files: dict[str, bytes] = {}
    common = _common(options)
    if common:
        files[COMMON] = generated(common.encode())
    width = max(2, len(str(planned[-1].wave))) if planned else 2
    for wave, groups in groupby(planned, key=lambda one: one.wave):
        bodies = list(_bodies(wave, list(groups), options))
        for number, body in enumerate(bodies, start=1):
            part = f"-{number:02}" if len(bodies) > 1 else ""
            files[f"wave-{wave:0{width}}{part}.yaml"] = generated(body.encode())
    return PolicySet(
        files={**files, MANIFEST: manifest_of(files)},
        groups=len(planned),
        members=sum(one.members for one in planned),
        waves=len({one.wave for one in planned}),
        skipped=tuple(skipped),
    )


def _why_skipped(row: PlannedGroup, options: Options) -> str | None:
    if not row.group_id:
        return "it has no id"
    if len(row.group_id) > LONGEST_GROUP_ID:
        return f"its id has more than {LONGEST_GROUP_ID} characters"
    if row.group_id in options.exclude:
        return "it is excluded"
    if options.through_wave is not None and row.wave > options.through_wave:
        return "its wave is not live"
    return None


def _common(options: Options) -> str:
    lines = []
    if options.assignors_allowed:
        names = ", ".join(map(_quoted, sorted(options.assignors_allowed)))
        lines.append(f"assignors_allowed: [{names}]\n")
    if options.share != Options().share:
        lines.append(f"waves: {{share: {_quoted(options.share)}}}\n")
    return "".join(lines)


def _bodies(wave: int, groups: Sequence[PlannedGroup], options: Options) -> Iterator[str]:
    """The contents of a wave's files: one, or as many as keep each below the limit."""
    parts: list[list[PlannedGroup]] = [[]]
    size = 0
    for group in groups:
        size += len(_line(group).encode())
        if parts[-1] and size > MOST_BYTES:
            parts.append([])
            size = len(_line(group).encode())
        parts[-1].append(group)
    for part in parts:
        rules = (
            _rule(wave, [one for one in part if not one.at_once], options.steps, options),
            _rule(wave, [one for one in part if one.at_once], ("100%",), options),
        )
        yield f"rules:\n{''.join(rules)}"


def _rule(wave: int, groups: Sequence[PlannedGroup], steps: Iterable[str], options: Options) -> str:
    if not groups:
        return ""
    listed = ", ".join(step if step.isdecimal() else _quoted(step) for step in steps)
    return (
        f"  - mode: translate\n    wave: {wave}\n    steps: [{listed}]\n    hold_s: {options.hold_s}\n"
        f"    groups:\n{''.join(map(_line, groups))}"
    )


def _line(group: PlannedGroup) -> str:
    return f"      - {_quoted(group.group_id)}\n"


def _quoted(text: str) -> str:
    return f'"{text}"' if _PLAIN.fullmatch(text) else quoted(text)
